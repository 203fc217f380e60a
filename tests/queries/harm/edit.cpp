#include "tests/queries/harm/edit.h"

#include <cmath>
#include <functional>

namespace greta::harm {
namespace {

/// One of the rows that suit; null when none does.
ToldRow* any_row(ToldRun& run, Random& random, const std::function<bool(const ToldRow&)>& suits) {
  std::vector<ToldRow*> found;
  for (ToldRow& row : run.rows) {
    if (suits(row)) found.push_back(&row);
  }
  return found.empty() ? nullptr : random.of(found);
}

ToldRow* any_traced_row(ToldRun& run, Random& random) {
  return any_row(run, random, [](const ToldRow& row) { return !row.claimed; });
}

// Where rows stand, and how many there are.

bool drop_rows(ToldRun& run, const std::function<bool(const ToldRow&)>& goes) {
  return std::erase_if(run.rows, [&](const ToldRow& row) { return !row.claimed && goes(row); }) > 0;
}

bool drop_many(ToldRun& run, Random& random) {
  const ToldRow* row = any_traced_row(run, random);
  if (row == nullptr) return false;
  const ToldRow one = *row;
  const std::vector<std::function<bool(const ToldRow&)>> kinds = {
      [&](const ToldRow& other) { return other == one; },
      [&](const ToldRow& other) { return pairing_of(other) == pairing_of(one); },
      [&](const ToldRow& other) { return other.prompt == one.prompt && other.pos == one.pos; },
      [&](const ToldRow& other) { return other.layer == one.layer; },
      [&](const ToldRow& other) { return other.prompt == one.prompt; },
      [&](const ToldRow& other) { return side_of(other) == side_of(one); },
      [&](const ToldRow&) { return random.one_in(2); }};
  return drop_rows(run, random.of(kinds));
}

bool repeat_rows(ToldRun& run, Random& random) {
  const std::vector<ToldRow> rows = run.rows;
  for (ToldRow row : rows) {
    row.file += 2;
    if (random.one_in(2)) run.rows.push_back(row);
  }
  return !rows.empty();
}

bool reorder(ToldRun& run, Random& random) {
  std::vector<ToldRow>& rows = run.rows;
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
  return rows.size() > 1;
}

bool split_over_files(ToldRun& run, Random& random) {
  for (ToldRow& row : run.rows) row.file = static_cast<int>(random.below(3));
  return !run.rows.empty();
}

/// Changes one row, or all rows of its side.
bool move_side(ToldRun& run, Random& random, const std::function<void(ToldRow&)>& move) {
  const ToldRow* one = any_traced_row(run, random);
  if (one == nullptr) return false;
  const int side = side_of(*one);
  const bool all = random.one_in(2);
  for (ToldRow& row : run.rows) {
    if (!row.claimed && (all || &row == one) && side_of(row) == side) move(row);
  }
  return true;
}

bool move_rows(ToldRun& run, Random& random) {
  const std::vector<std::function<void(ToldRow&)>> kinds = {
      [](ToldRow& row) { row.token = 999; },
      [](ToldRow& row) { row.token.reset(); },
      [](ToldRow& row) { row.pos += row.pos >= 0; },
      [](ToldRow& row) { row.pos = -1; },
      [](ToldRow& row) { row.prompt = "p9"; },
      [](ToldRow& row) { row.tensor = "nobody_knows"; },
      [](ToldRow& row) { row.tensor = canonical(row.tensor); },
      [](ToldRow& row) { row.phase = side_of(row) == 0 ? "prefill" : "decode"; }};
  return move_side(run, random, random.of(kinds));
}

// What they say.

bool add_other_content(ToldRun& run, Random& random) {
  const ToldRow* row = any_row(
      run, random, [](const ToldRow& r) { return r.hash || r.sketch || !r.sample.empty(); });
  if (row == nullptr || run.stated_rows) return false;
  ToldRow other = *row;
  const Style style = {.hash = row->hash.has_value(),
                       .statistics = row->max.has_value(),
                       .sketch = row->sketch.has_value(),
                       .sample = row->sample.size()};
  tell_values(other, values_of(1'000'000 + random.below(1000)), style, run.hash_algo);
  if (random.one_in(3)) ++other.step;
  if (random.one_in(3) && other.tensor == "x_in") other.tensor = "rms_in";
  if (random.one_in(3)) other.file = 1;
  other.claimed = random.one_in(3);
  const auto at = static_cast<ptrdiff_t>(random.below(run.rows.size() + 1));
  run.rows.insert(run.rows.begin() + at, other);
  return true;
}

bool contradict(ToldRun& run, Random& random) {
  ToldRow* row = any_row(run, random, [](const ToldRow&) { return true; });
  if (row == nullptr) return false;
  const std::vector<std::function<bool()>> kinds = {
      [&] { return row->max && (*row->max += 0.5, true); },
      [&] { return row->min && (*row->min += 0.5, true); },
      [&] { return row->hash && (*row->hash ^= 0x55, true); },
      [&] {
        return !row->sample.empty() && (row->sample[random.below(row->sample.size())] += 1, true);
      },
      [&] { return row->sketch && (row->sketch->bucket[random.below(32)] += 1, true); }};
  return random.of(kinds)();
}

bool make_not_finite(ToldRun& run, Random& random) {
  ToldRow* row = any_row(run, random, [](const ToldRow&) { return true; });
  if (row == nullptr) return false;
  switch (random.below(row->sample.empty() ? 3 : 4)) {
    case 0:
      row->nan = 1;
      break;
    case 1:
      row->inf = 2;
      break;
    case 3:
      row->sample[random.below(row->sample.size())] = random.one_in(2) ? NAN : INFINITY;
      [[fallthrough]];
    default:
      row->min.reset();
      row->nonfinite = true;
  }
  return true;
}

bool shorten(ToldRun& run, Random& random) {
  ToldRow* row = any_row(run, random, [](const ToldRow& r) { return r.n > 1; });
  if (row == nullptr) return false;
  switch (random.below(3)) {
    case 0:
      --*row->n;
      break;
    case 1:
      row->n.reset();
      break;
    default:
      row->sample.resize(random.below(row->sample.size() + 1));
  }
  return true;
}

bool only_claim(ToldRun& run, Random& random) {
  return move_side(run, random, [](ToldRow& row) { row.claimed = true; });
}

// What is said of their run.

bool lack_rows(ToldRun& run, Random& random) {
  if (random.one_in(2)) {
    run.plan.push_back({"p0", static_cast<int>(random.below(2)), 7, "wo_out"});
  } else {
    if (run.status == "unknown") run.status = "complete";
    run.stated_rows = static_cast<int64_t>(run.rows.size() + 1 + random.below(3));
  }
  return true;
}

bool leave_unended(ToldRun& run, Random& random) {
  switch (random.below(4)) {
    case 0:
      run.status = "failed";
      break;
    case 1:
      run.status = "running";
      break;
    case 2:
      run.rejected.push_back("no line of ours");
      break;
    default:
      run.ingest_open = true;
  }
  return true;
}

bool claim_fail(ToldRun& run, Random& random) {
  run.documents.push_back({.verdict = "FAIL"});
  if (random.one_in(2)) {
    run.documents.push_back(
        {.table = {
             {.prompt = "p0", .layer = 0, .tensor = "attn_out", .status = "DRIFT", .pos_id = 3}}});
  }
  return true;
}

/// Of a run without rows one table is the evidence: another one may take its place.
bool claim_pass(ToldRun& run, Random& random) {
  ToldDocument document{.verdict = "PASS"};
  for (int64_t layer = 0; layer < 9 && !run.rows.empty() && random.one_in(2); ++layer) {
    document.table.push_back(
        {.prompt = "p0", .layer = layer, .tensor = "attn_out", .status = "MATCH", .pos_id = 3});
  }
  run.documents.push_back(document);
  return true;
}

bool compute_finer(ToldRun& run, Random& random) {
  run.dtype = random.one_in(2) ? "f32" : "fp32";
  return true;
}

}  // namespace

const std::vector<Edit>& edits() {
  static const std::vector<Edit> kEdits = {{"drop rows", drop_many},
                                           {"repeat rows in other files", repeat_rows, true},
                                           {"reorder the rows", reorder, true},
                                           {"split over files", split_over_files, true},
                                           {"move rows", move_rows},
                                           {"add a row of other content", add_other_content},
                                           {"contradict", contradict},
                                           {"make a row not finite", make_not_finite},
                                           {"shorten a row or its sample", shorten},
                                           {"have rows from a document only", only_claim},
                                           {"lack rows", lack_rows},
                                           {"leave it unended", leave_unended},
                                           {"claim FAIL in a document", claim_fail},
                                           {"claim PASS in a document", claim_pass, true},
                                           {"compute in a finer dtype", compute_finer}};
  return kEdits;
}

}  // namespace greta::harm
