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

/// True if rows of one token, or of one phase, are equal as the view standing compares them.
bool is_equal(const Crowd::Member& a, const Crowd::Member& b) {
  const auto said_by = [](const Crowd::Member& m) {
    const TraceRow& r = m.row;
    return std::tuple(r.n, r.hash, r.min, r.max, r.mean, r.abs_sum, r.nan, r.inf, r.nz_count,
                      r.flags & (kFlagNonfiniteStatistic | kFlagOtherHash), m.sample,
                      r.hash ? 0 : m.ids.sketch);
  };
  return said_by(a) == said_by(b);
}

/// Rank of a row among those of its token or phase. Rows that are not finite come first.
auto rank_of(const TraceRow& r, int64_t nth) {
  const bool is_finite =
      r.nan.value_or(0) <= 0 && r.inf.value_or(0) <= 0 && (r.flags & kFlagNonfiniteStatistic) == 0;
  return std::tuple(is_finite, r.phase_id, r.step, r.name_id, nth);
}

/// Rows of one token, or of one phase: which of them stands for all, and whether they differ.
struct Alike {
  const Crowd::Member* first = nullptr;
  int64_t nth_of_first = 0;
  bool differ = false;

  void add(const Crowd::Member& member, int64_t nth) {
    differ |= first != nullptr && !is_equal(*first, member);
    if (first != nullptr && rank_of(first->row, nth_of_first) < rank_of(member.row, nth)) return;
    first = &member;
    nth_of_first = nth;
  }
};

}  // namespace

struct Crowd::Statements {
  explicit Statements(SQLite::Database& db) : db_(db) {}

 private:
  SQLite::Database& db_;

  static std::string read_sql(const std::string& rows) {
    return "SELECT nth, phase_id, step, name_id, source_id, line, sample_id,"
           " (SELECT data FROM sample WHERE id = sample_id), sketch_id, " +
           std::string(kValueColumns) + ", " + kStandingColumns + " FROM trace_row " + rows;
  }
  static std::string renumber_sql(const char* table) {
    return std::string("UPDATE ") + table + " SET nth = ?8 WHERE " + kPlaceMatch + " AND nth = ?7";
  }

 public:
  RowStatement read{db_, read_sql("WHERE " + std::string(kPlaceMatch))};
  // By that index, for all steps of a run are at one place.
  RowStatement read_step{
      db_, read_sql("INDEXED BY trace_row_unplaced WHERE pos_id = -1 AND step = ?7 AND " +
                    std::string(kPlaceMatch))};
  RowStatement sketch{db_, "SELECT * FROM sketch WHERE id = ?"};
  RowStatement last{db_, "SELECT max(nth) FROM trace_row WHERE " + std::string(kPlaceMatch)};
  RowStatement renumber{db_, renumber_sql("trace_row")};
  RowStatement renumber_repeat{db_, renumber_sql("trace_repeat")};
  RowStatement stand{db_, "UPDATE trace_row SET (" + std::string(kStandingColumns) +
                              ") = (?8, ?9, ?10, ?11) WHERE " + kPlaceMatch + " AND nth = ?7"};
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
  if (!row.hash && row.sketch) member.sketch = digest_of(stored_form(*row.sketch));
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
    s.read(0, r.nth, r.phase_id, r.step, r.name_id, r.source_id, r.line, there.ids.sample);
    const std::vector<float> sample = s.floats(7);
    there.sample = digest_of(sample.data(), sample.size() * sizeof(float));
    there.ids.sketch = s.integer(8);
    read_values(s, 9, r);
    for (size_t i = 0; i < there.standing.size(); ++i)
      there.standing[i] = s.integer(21 + static_cast<int>(i)) != 0;
    if (const auto it = arriving.find(identity(r)); it != arriving.end()) {
      const Member told = member_of(*it->second);
      there.sample = told.sample;
      there.sketch = told.sketch;
    } else if (!r.hash && there.ids.sketch != 0) {
      there.sketch = digest_of_sketch(there.ids.sketch);
    }
    members_.insert(std::move(there));
  }
  s.reset();
}

std::optional<StoredSketch> Crowd::stored_sketch(int64_t id) {
  RowStatement& s = statements_->sketch;
  s.bind(id);
  std::optional<StoredSketch> sketch;
  if (s.step()) sketch = read_sketch(s, 1);
  s.reset();
  return sketch;
}

Crowd::Digest Crowd::digest_of_sketch(int64_t id) {
  const std::optional<StoredSketch> sketch = stored_sketch(id);
  return sketch ? greta::digest_of(*sketch) : Digest{};
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

int64_t Crowd::equal_sketch(const TraceRow& row) {
  if (row.hash || !row.sketch) return 0;
  const Digest wanted = greta::digest_of(stored_form(*row.sketch));
  for (const Member& member : members_) {
    if (member.sketch == wanted) return member.ids.sketch;
  }
  return 0;
}

void Crowd::add(TraceRow& row, const RowIds& ids) {
  RowStatement& last = statements_->last;
  last.bind_place(row);
  last.step();
  row.nth = last.is_null(0) ? 0 : last.integer(0) + 1;
  last.reset();
  Member member = member_of(row);
  member.ids = ids;
  members_.insert(std::move(member));
  grew_ = true;
}

void Crowd::take_over(const TraceRow& row, const RowIds& ids) {
  auto node = members_.extract(member_of(row));
  const int64_t nth = node.value().row.nth;
  const Standing standing = node.value().standing;
  node.value() = member_of(row);
  node.value().row.nth = nth;
  node.value().ids = ids;
  node.value().standing = standing;
  members_.insert(std::move(node));
}

void Crowd::settle() {
  if (!grew_ || members_.size() < 2) return;
  std::vector<int64_t> numbers;
  for (const Member& member : members_) numbers.push_back(member.row.nth);
  if (numbers.size() <= kMaxOrdered) {
    std::sort(numbers.begin(), numbers.end());
    renumber(numbers);
  }
  set_standing(numbers);
}

/// Gives the members, in order, these numbers, which are theirs in another order.
void Crowd::renumber(std::span<const int64_t> numbers) {
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

/// Writes what the members, in order of these numbers, say of each other, where that is new.
void Crowd::set_standing(std::span<const int64_t> numbers) {
  const auto token_of = [](const TraceRow& r) { return std::pair(r.token_id, r.logical_tok_idx); };
  std::map<std::pair<std::optional<int64_t>, std::optional<int64_t>>, Alike> of_token;
  std::map<int64_t, Alike> of_phase;
  size_t i = 0;
  for (const Member& member : members_) {
    of_token[token_of(member.row)].add(member, numbers[i]);
    Alike& phase = of_phase[member.row.phase_id];
    phase.differ |= phase.first != nullptr && phase.first->row.token_id != member.row.token_id;
    phase.add(member, numbers[i++]);
  }
  i = 0;
  for (const Member& member : members_) {
    const Alike &token = of_token[token_of(member.row)], &phase = of_phase[member.row.phase_id];
    const Standing standing{token.first == &member, phase.first == &member, token.differ,
                            phase.differ};
    RowStatement& stand = statements_->stand;
    if (const int64_t nth = numbers[i++]; standing != member.standing) {
      stand.bind_place(place_);
      stand.bind(nth);
      for (const bool value : standing) stand.bind(int64_t{value});
      stand.run();
    }
  }
}

}  // namespace greta
