#include "db/crowd.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <vector>

#include "common/sha256.h"
#include "db/row_statement.h"

namespace greta {
namespace {

/// Larger crowds are not set in order: to move all for each that comes would take longer with every
/// row of a file that has nothing else.
constexpr size_t kMaxOrdered = 64;

/// Where a row stands among those of its place.
auto key_of(const TraceRow& r) { return std::tie(r.phase_id, r.step, r.name_id); }

/// What a row says, but for its sample and sketch. Hashes of two algorithms are not equal.
auto statement_of(const TraceRow& r) {
  return std::tuple(r.token_id, r.logical_tok_idx, r.n, r.hash, r.min, r.max, r.mean, r.abs_sum,
                    r.nan, r.inf, r.nz_count, r.flags & (kFlagNonfiniteStatistic | kFlagOtherHash));
}

Crowd::Digest digest_of(const void* data, size_t size_bytes) {
  if (size_bytes == 0) return {};
  const std::string hex = Sha256::hex_of({static_cast<const char*>(data), size_bytes});
  return {std::stoull(hex.substr(0, 16), nullptr, 16),
          std::stoull(hex.substr(16, 16), nullptr, 16)};
}

Crowd::Digest digest_of(const RowSketch& sketch) {
  std::array<double, 35> values{static_cast<double>(sketch.n), static_cast<double>(sketch.derived),
                                sketch.sum_sq};
  std::copy(sketch.bucket.begin(), sketch.bucket.end(), values.begin() + 3);
  for (double& value : values) value += 0.0;  // SQLite stores no negative zero
  return digest_of(values.data(), sizeof values);
}

}  // namespace

struct Crowd::Statements {
  explicit Statements(SQLite::Database& db) : db_(db) {}

 private:
  SQLite::Database& db_;

  static std::string read_sql(const char* of_step) {
    return "SELECT nth, phase_id, step, name_id, source_id, line, vector_id,"
           " (SELECT data FROM sample WHERE id = vector_id), token_id, logical_tok_idx, " +
           std::string(kContentColumns) + " FROM trace_row WHERE " + kPlaceMatch + of_step;
  }
  static std::string renumber_sql(const char* table) {
    return std::string("UPDATE ") + table + " SET nth = ?8 WHERE " + kPlaceMatch + " AND nth = ?7";
  }

 public:
  RowStatement read{db_, read_sql("")};
  RowStatement read_step{db_, read_sql(" AND pos_id = -1 AND step = ?7")};
  RowStatement sketch{db_, "SELECT * FROM sketch WHERE id = ?"};
  RowStatement last{db_, "SELECT max(nth) FROM trace_row WHERE " + std::string(kPlaceMatch)};
  RowStatement crowd{db_, "UPDATE trace_row SET crowded = 1 WHERE " + std::string(kPlaceMatch) +
                              " AND nth = 0 AND NOT crowded"};
  RowStatement renumber{db_, renumber_sql("trace_row")};
  RowStatement renumber_repeat{db_, renumber_sql("trace_repeat")};
};

Crowd::Crowd(SQLite::Database& db) : statements_(std::make_unique<Statements>(db)) {}

Crowd::~Crowd() = default;

bool Crowd::Before::operator()(const Member& a, const Member& b) const {
  const auto key_a = key_of(a.row), key_b = key_of(b.row);
  if (key_a != key_b) return key_a < key_b;
  const auto says_a = statement_of(a.row), says_b = statement_of(b.row);
  if (says_a != says_b) return says_a < says_b;
  return std::tie(a.sample, a.sketch) < std::tie(b.sample, b.sketch);
}

bool Crowd::may_meet(const TraceRow& a, const TraceRow& b) {
  return std::tie(a.run_id, a.prompt_id, a.side, a.pos_id, a.layer, a.tensor_id) ==
             std::tie(b.run_id, b.prompt_id, b.side, b.pos_id, b.layer, b.tensor_id) &&
         (a.pos_id != kUnknownPosition || a.step == b.step);
}

Crowd::Member Crowd::member_of(const TraceRow& row) const {
  Member member{row, {}, digest_of(row.sample.data(), row.sample.size_bytes()), {}};
  if (!row.hash && row.sketch) member.sketch = digest_of(*row.sketch);
  member.row.sample = {};
  member.row.sketch = nullptr;
  return member;
}

void Crowd::read(std::span<TraceRow* const> rows) {
  const TraceRow& row = *rows.front();
  members_.clear();
  grew_ = false;
  place_ = row;
  const auto identity = [](const TraceRow& r) {  // no line gives one key twice
    return std::tuple(r.source_id, r.line, r.phase_id, r.step, r.name_id);
  };
  std::map<decltype(identity(row)), const TraceRow*> arriving;
  for (const TraceRow* r : rows) arriving.emplace(identity(*r), r);
  const bool placed = row.pos_id != kUnknownPosition;
  RowStatement& s = placed ? statements_->read : statements_->read_step;
  s.bind_place(row);
  if (!placed) s.bind(row.step);
  while (s.step()) {
    Member there;
    TraceRow& r = there.row;
    r.nth = s.integer(0);
    r.phase_id = s.integer(1);
    r.step = s.integer(2);
    r.name_id = s.integer(3);
    r.source_id = s.integer(4);
    r.line = s.integer(5);
    there.vector_id = s.maybe_integer(6);
    const std::vector<float> sample = s.floats(7);
    there.sample = digest_of(sample.data(), sample.size() * sizeof(float));
    r.token_id = s.maybe_integer(8);
    r.logical_tok_idx = s.maybe_integer(9);
    r.n = s.maybe_integer(10);
    if (auto hash = s.maybe_integer(11)) r.hash = static_cast<uint64_t>(*hash);
    r.min = s.maybe_real(12);
    r.max = s.maybe_real(13);
    r.mean = s.maybe_real(14);
    r.abs_sum = s.maybe_real(15);
    r.nan = s.maybe_integer(16);
    r.inf = s.maybe_integer(17);
    r.nz_count = s.maybe_integer(18);
    r.flags = static_cast<int>(s.integer(19));
    if (const auto it = arriving.find(identity(r)); it != arriving.end()) {
      const Member told = member_of(*it->second);
      there.sample = told.sample;
      there.sketch = told.sketch;
    } else if (!r.hash && there.vector_id) {
      there.sketch = digest_of_sketch(*there.vector_id);
    }
    members_.insert(std::move(there));
  }
  s.reset();
}

Crowd::Digest Crowd::digest_of_sketch(int64_t vector_id) {
  RowStatement& s = statements_->sketch;
  s.bind(vector_id);
  Digest digest{};
  if (s.step()) {
    RowSketch sketch{.n = s.integer(1), .derived = s.integer(2) != 0};
    sketch.sum_sq = s.maybe_real(3).value_or(0);
    for (size_t i = 0; i < sketch.bucket.size(); ++i)
      sketch.bucket[i] = s.maybe_real(static_cast<int>(4 + i)).value_or(0);
    digest = digest_of(sketch);
  }
  s.reset();
  return digest;
}

const Crowd::Member* Crowd::find(const TraceRow& row) {
  const auto it = members_.find(member_of(row));
  return it == members_.end() ? nullptr : &*it;
}

bool Crowd::has_key(const TraceRow& row) {
  const auto next = members_.lower_bound(member_of(row));
  const auto is_of_key = [&row](const Member& m) { return key_of(m.row) == key_of(row); };
  return (next != members_.end() && is_of_key(*next)) ||
         (next != members_.begin() && is_of_key(*std::prev(next)));
}

void Crowd::add(TraceRow& row, int64_t vector_id) {
  RowStatement& last = statements_->last;
  last.bind_place(row);
  last.step();
  row.nth = last.is_null(0) ? 0 : last.integer(0) + 1;
  last.reset();
  row.crowded = true;
  statements_->crowd.bind_place(row);
  statements_->crowd.run();
  Member member = member_of(row);
  if (vector_id != 0) member.vector_id = vector_id;
  members_.insert(std::move(member));
  grew_ = true;
}

void Crowd::take_over(const TraceRow& row, std::optional<int64_t> vector_id) {
  auto node = members_.extract(member_of(row));
  const int64_t nth = node.value().row.nth;
  node.value() = member_of(row);
  node.value().row.nth = nth;
  node.value().vector_id = vector_id;
  members_.insert(std::move(node));
}

void Crowd::set_in_order() {
  if (!grew_ || members_.size() > kMaxOrdered) return;
  std::vector<int64_t> numbers;
  for (const Member& member : members_) numbers.push_back(member.row.nth);
  std::sort(numbers.begin(), numbers.end());
  const auto move = [this](int64_t from, int64_t to) {
    for (RowStatement* renumber : {&statements_->renumber, &statements_->renumber_repeat}) {
      renumber->bind_place(place_);
      renumber->bind(from);
      renumber->bind(to);
      renumber->run();
    }
  };
  // Out of the way first: a number is one row's. They cannot be negative.
  constexpr int64_t kAside = int64_t{1} << 40;
  size_t i = 0;
  for (const Member& member : members_) {
    if (member.row.nth != numbers[i]) move(member.row.nth, kAside + numbers[i]);
    ++i;
  }
  i = 0;
  for (const Member& member : members_) {
    if (member.row.nth != numbers[i]) move(kAside + numbers[i], numbers[i]);
    ++i;
  }
}

}  // namespace greta
