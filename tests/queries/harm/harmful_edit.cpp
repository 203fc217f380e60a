#include "tests/queries/harm/harmful_edit.h"

#include <algorithm>
#include <functional>

namespace greta::harm {
namespace {

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

bool is_compared(const ToldRun& run, const ToldRow& row) {
  return row.pos >= 0 && side_of(row) != kNoSide &&
         std::any_of(run.rows.begin(), run.rows.end(), [&](const ToldRow& other) {
           return side_of(other) == 1 - side_of(row) && pairing_of(other) == pairing_of(row);
         });
}

/// The one row of the other side where each side has one, and both say the same; else null.
const ToldRow* twin_of(const ToldRun& run, const ToldRow& row) {
  const ToldRow* twin = nullptr;
  if (row.pos < 0 || row.claimed) return nullptr;
  for (const ToldRow& other : run.rows) {
    if (&other == &row || pairing_of(other) != pairing_of(row)) continue;
    if (twin != nullptr || side_of(other) != 1 - side_of(row)) return nullptr;
    twin = &other;
  }
  if (twin == nullptr || twin->claimed || row.nan.value_or(0) > 0 || row.nonfinite) return nullptr;
  ToldRow moved = *twin;
  moved.phase = row.phase;
  moved.tensor = row.tensor;
  moved.step = row.step;
  moved.file = row.file;
  return moved == row ? twin : nullptr;
}

/// Notes that a row is no longer where its pair was.
void take_apart(Harm& harm, const ToldRow& row) {
  harm.promise = Promise::kTakesApart;
  if (side_of(row) == kNoSide) return;
  harm.apart.insert(pairing_of(row));
  if (demands_partner(row)) harm.undemanded.insert({row.prompt, row.pos});
}

bool drop_rows(Harm& harm, const std::function<bool(const ToldRow&)>& goes) {
  harm.loses_rows = true;
  std::vector<ToldRow> left;
  for (const ToldRow& row : harm.run.rows) {
    if (row.claimed || !goes(row)) {
      left.push_back(row);
    } else {
      take_apart(harm, row);
    }
  }
  const bool any = left.size() < harm.run.rows.size();
  harm.run.rows = std::move(left);
  return any;
}

bool drop_row(Harm& harm, Random& random, Via) {
  ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  take_apart(harm, *row);
  harm.loses_rows = true;
  harm.run.rows.erase(harm.run.rows.begin() + (row - harm.run.rows.data()));
  return true;
}

bool drop_many(Harm& harm, Random& random, Via) {
  ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  const ToldRow one = *row;
  const size_t what = random.below(5);
  return drop_rows(harm, [&](const ToldRow& other) {
    switch (what) {
      case 0:
        return pairing_of(other) == pairing_of(one);
      case 1:
        return other.prompt == one.prompt && other.pos == one.pos;
      case 2:
        return other.layer == one.layer;
      case 3:
        return other.prompt == one.prompt;
      default:
        return other.phase == one.phase;
    }
  });
}

bool repeat_row(Harm& harm, Random& random, Via) {
  // a row that came twice counts twice against what the run says it wrote
  if (harm.run.stated_rows) return false;
  ToldRow* row = any_row(harm.run, random, [](const ToldRow&) { return true; });
  if (row == nullptr) return false;
  harm.promise = Promise::kSame;
  ToldRow copy = *row;
  if (random.one_in(2)) copy.file = 1;
  harm.run.rows.push_back(copy);
  return true;
}

bool repeat_all_from_another_file(Harm& harm, Random&, Via) {
  harm.promise = Promise::kSame;
  const size_t rows = harm.run.rows.size();
  for (size_t i = 0; i < rows; ++i) {
    harm.run.rows.push_back(harm.run.rows[i]);
    harm.run.rows.back().file += 2;
  }
  return rows > 0;
}

void change_content(ToldRow& row, Random& random, const std::string& algo) {
  const Style style = {.hash = row.hash.has_value(),
                       .statistics = row.max.has_value(),
                       .sketch = row.sketch.has_value(),
                       .sample = row.sample.size()};
  tell_values(row, values_of(1'000'000 + random.below(1000)), style, algo);
}

bool add_other_content(Harm& harm, Random& random, Via) {
  if (harm.run.stated_rows) return false;
  ToldRow* row = any_row(harm.run, random, [](const ToldRow& r) { return r.hash || r.sketch || !r.sample.empty(); });
  if (row == nullptr) return false;
  ToldRow copy = *row;
  change_content(copy, random, harm.run.hash_algo);
  if (random.one_in(3)) ++copy.step;
  if (random.one_in(3) && copy.tensor == "x_in") copy.tensor = "rms_in";
  if (random.one_in(3)) copy.file = 1;
  copy.claimed = random.one_in(3);
  if (is_compared(harm.run, *row)) harm.promise = Promise::kFails;
  harm.prompt = row->prompt;
  harm.run.rows.insert(harm.run.rows.begin() + static_cast<ptrdiff_t>(random.below(harm.run.rows.size() + 1)), copy);
  return true;
}

bool reorder(Harm& harm, Random& random, Via) {
  harm.promise = Promise::kSame;
  std::vector<ToldRow>& rows = harm.run.rows;
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
  return rows.size() > 1;
}

bool contradict_statistics(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [&](const ToldRow& r) {
    return r.hash && r.max && twin_of(harm.run, r) != nullptr;
  });
  if (row == nullptr) return false;
  std::optional<double>* all[] = {&row->min, &row->max, &row->mean, &row->abs_sum};
  **all[random.below(4)] += 0.5;
  // beyond the prefix that a historical hash covers, statistics may differ
  const bool covers = harm.run.hash_algo == "greta-1" || row->n <= 256;
  harm.promise = covers ? Promise::kFails : Promise::kNotRaised;
  harm.prompt = row->prompt;
  return true;
}

bool contradict_hash(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [&](const ToldRow& r) {
    return r.hash && r.n && twin_of(harm.run, r) != nullptr;
  });
  if (row == nullptr) return false;
  *row->hash ^= 0x55;
  const bool sample_covers = !row->sample.empty() && static_cast<int64_t>(row->sample.size()) >= std::min<int64_t>(*row->n, 256);
  // Equal sketches say that what the hashes saw is rounding.
  harm.promise = sample_covers ? Promise::kFails : Promise::kFailsStrictly;
  harm.prompt = row->prompt;
  return true;
}

bool not_finite(Harm& harm, Random& random, Via via) {
  ToldRow* row = any_row(harm.run, random, [](const ToldRow&) { return true; });
  if (row == nullptr) return false;
  harm.promise = is_compared(harm.run, *row) ? Promise::kFails : Promise::kNotRaised;
  harm.prompt = row->prompt;
  switch (random.below(row->sample.empty() ? 3 : 4)) {
    case 0:
      row->nan = 1;
      break;
    case 1:
      row->inf = 2;
      break;
    case 2:
      row->min.reset();
      row->nonfinite = true;
      break;
    default:
      row->sample[random.below(row->sample.size())] = NAN;
      row->nonfinite = via == Via::kWriter;  // the importer sees for itself
  }
  return true;
}

std::vector<const ToldRow*> rows_of_pair(const ToldRun& run, const ToldRow& row) {
  std::vector<const ToldRow*> rows;
  for (const ToldRow& other : run.rows) {
    if (pairing_of(other) == pairing_of(row)) rows.push_back(&other);
  }
  return rows;
}

bool shorten_row(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [&](const ToldRow& r) {
    const auto all = rows_of_pair(harm.run, r);
    return is_compared(harm.run, r) &&
           std::all_of(all.begin(), all.end(), [](const ToldRow* o) { return o->n > 1; });
  });
  if (row == nullptr) return false;
  harm.apart.insert(pairing_of(*row));  // its hashes cover another number of values
  --*row->n;
  harm.promise = Promise::kNoPass;
  return true;
}

bool forget_length(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [&](const ToldRow& r) { return r.n.has_value(); });
  if (row == nullptr) return false;
  harm.apart.insert(pairing_of(*row));
  // its hash says nothing of how many values it covers, and its sketch nothing at all
  if (row->sketch) harm.promise = Promise::kTakesApart;
  row->n.reset();
  return true;
}

bool shorten_sample(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [&](const ToldRow& r) { return !r.sample.empty(); });
  if (row == nullptr) return false;
  const auto left = static_cast<ptrdiff_t>(random.below(row->sample.size()));
  bool shows = false;  // what is left, that they differ
  for (const ToldRow* other : rows_of_pair(harm.run, *row)) {
    const ptrdiff_t n = std::min(left, static_cast<ptrdiff_t>(other->sample.size()));
    shows |= !std::equal(row->sample.begin(), row->sample.begin() + n, other->sample.begin());
  }
  row->sample.resize(static_cast<size_t>(left));
  harm.apart.insert(pairing_of(*row));
  if (!shows) harm.promise = Promise::kTakesApart;
  return true;
}

bool state_more_rows(Harm& harm, Random& random, Via) {
  if (harm.run.status == "unknown") harm.run.status = "complete";
  if (harm.run.status == "running") return false;  // says so when it ends
  harm.run.stated_rows = static_cast<int64_t>(harm.run.rows.size() + 1 + random.below(3));
  harm.promise = Promise::kNoPass;
  return true;
}

bool plan_more(Harm& harm, Random& random, Via) {
  harm.run.plan.push_back({"p0", static_cast<int>(random.below(2)), 7, "wo_out"});
  harm.promise = Promise::kNoPass;
  return true;
}

bool rename_to_alias(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [](const ToldRow& r) { return r.tensor == "x_in" || r.tensor == "norm_out"; });
  if (row == nullptr) return false;
  row->tensor = row->tensor == "x_in" ? "residual_pre_attn" : "attn_norm_out";
  harm.promise = Promise::kSameVerdict;
  return true;
}

bool rename_tensor(Harm& harm, Random& random, Via) {
  ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  take_apart(harm, *row);
  row->tensor = "nobody_knows";
  return true;
}

bool rename_prompt(Harm& harm, Random& random, Via) {
  ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  take_apart(harm, *row);
  row->prompt = "p9";
  return true;
}

bool spell_phase(Harm& harm, Random& random, Via via) {
  if (via == Via::kWriter) return false;  // spells it for the writers
  for (ToldRow& row : harm.run.rows) {
    if (!random.one_in(2)) continue;
    if (row.phase == "prefill_last") row.phase = random.of(std::vector<std::string>{"PREFILL_LAST", "prefillLast", "Prefill-Last", "prefill last"});
    if (row.phase == "decode0") row.phase = random.of(std::vector<std::string>{"Decode0", "decode_0", "DECODE 0"});
  }
  harm.promise = Promise::kSame;
  return !harm.run.rows.empty();
}

bool unknown_phase(Harm& harm, Random& random, Via via) {
  ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  take_apart(harm, *row);
  row->phase = "warmup";
  harm.loses_rows = via == Via::kFiles;
  return true;
}

bool excuse_phase(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [](const ToldRow& r) { return r.phase == "prefill_last"; });
  if (row == nullptr) return false;
  take_apart(harm, *row);
  row->phase = "prefill";
  return true;
}

bool split_over_files(Harm& harm, Random& random, Via) {
  for (ToldRow& row : harm.run.rows) row.file = static_cast<int>(random.below(3));
  harm.promise = Promise::kSame;
  return !harm.run.rows.empty();
}

bool split_over_runs(Harm& harm, Random& random, Via) {
  return drop_rows(harm, [&](const ToldRow&) { return random.one_in(2); });
}

bool fail_run(Harm& harm, Random&, Via) {
  harm.run.status = "failed";
  harm.promise = Promise::kNoPass;
  return true;
}

bool leave_run_open(Harm& harm, Random&, Via) {
  harm.run.status = "running";
  harm.run.stated_rows.reset();
  harm.promise = Promise::kNoPass;
  return true;
}

bool reject_line(Harm& harm, Random& random, Via) {
  harm.run.rejected.push_back(random.of(std::vector<std::string>{"{\"event\":\"stage_trace\",\"poi", "not a line of ours", "{\"event\":\"stage_trace\",\"layer\":1}"}));
  harm.promise = Promise::kNoPass;
  return true;
}

bool open_ingest(Harm& harm, Random&, Via) {
  harm.run.ingest_open = true;
  harm.promise = Promise::kNoPass;
  return true;
}

bool claim_pass(Harm& harm, Random&, Via) {
  harm.run.documents.push_back({.table = {}, .claims_pass = true});
  harm.promise = Promise::kSame;
  return true;
}

bool table_of_matches(Harm& harm, Random& random, Via) {
  // Of a run without rows the table with most decided pairs is the evidence, whatever it says.
  if (std::none_of(harm.run.rows.begin(), harm.run.rows.end(), [](const ToldRow& r) { return side_of(r) != kNoSide; })) return false;
  ToldDocument document{.table = {}, .claims_pass = random.one_in(2)};
  for (int64_t layer = 0; layer < 9; ++layer)
    document.table.push_back({.prompt = "p0", .layer = layer, .tensor = "attn_out", .status = "MATCH", .pos_id = 3});
  harm.run.documents.push_back(document);
  harm.promise = Promise::kSame;
  return true;
}

bool table_of_failures(Harm& harm, Random& random, Via) {
  const char* status = random.one_in(2) ? "DRIFT" : "MISSING";
  harm.run.documents.push_back({.table = {{.prompt = "p0", .layer = 0, .tensor = "attn_out", .status = status, .pos_id = 3}}});
  return true;
}

bool other_hash_algo(Harm& harm, Random& random, Via via) {
  if (via == Via::kWriter) return false;  // which has one for a run
  // the first line of a file with a hash says by which all are
  ToldRow* row = any_row(harm.run, random, [&](const ToldRow& r) {
    const auto& rows = harm.run.rows;
    return r.hash && is_compared(harm.run, r) &&
           std::any_of(rows.begin(), rows.begin() + (&r - rows.data()), [&](const ToldRow& first) {
             return first.hash && first.claimed == r.claimed && first.file == r.file;
           });
  });
  if (row == nullptr) return false;
  row->algo = random.one_in(2) ? "xxh64" : harm.run.hash_algo == "greta-1" ? "fnv-256" : "greta-1";
  take_apart(harm, *row);
  return true;
}

bool other_dtype(Harm& harm, Random& random, Via) {
  const bool coarse = !harm.run.dtype || harm.run.dtype == "q4_0" || harm.run.dtype == "bf16";
  if (!coarse) return false;
  harm.run.dtype = random.one_in(2) ? "f32" : "fp32";  // less is rounding in f32
  return true;
}

bool forget_token(Harm& harm, Random& random, Via) {
  ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  const int side = side_of(*row);
  const bool all = random.one_in(2);
  const std::optional<int64_t> now = random.one_in(2) ? std::optional<int64_t>(999) : std::nullopt;
  for (ToldRow& other : harm.run.rows) {
    if (other.claimed || (!all && &other != row) || side_of(other) != side || other.token == now) continue;
    take_apart(harm, other);
    other.token = now;
    harm.apart.insert(pairing_of(other));
  }
  return !harm.apart.empty();
}

bool shift_position(Harm& harm, Random& random, Via) {
  ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  const int side = side_of(*row);
  const bool all = random.one_in(2), unknown = random.one_in(2);
  for (ToldRow& other : harm.run.rows) {
    if (other.claimed || (!all && &other != row) || side_of(other) != side || other.pos < 0) continue;
    take_apart(harm, other);
    other.pos = unknown ? -1 : other.pos + 1;
    harm.apart.insert(pairing_of(other));
  }
  return !harm.apart.empty();
}

bool shift_everything(Harm& harm, Random&, Via) {
  for (ToldRow& row : harm.run.rows) row.pos += row.pos >= 0;
  harm.promise = Promise::kSameVerdict;
  return !harm.run.rows.empty();
}

bool only_claimed(Harm& harm, Random& random, Via) {
  ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  const size_t what = random.below(3);
  const ToldRow one = *row;
  for (ToldRow& other : harm.run.rows) {
    if (what == 0 && !(other == one)) continue;
    if (what == 1 && side_of(other) != side_of(one)) continue;
    if (is_compared(harm.run, other) && (what > 0 || twin_of(harm.run, other))) harm.promise = Promise::kNoPass;
    other.claimed = true;
  }
  return true;
}

}  // namespace

const std::vector<Edit>& edits() {
  static const std::vector<Edit> kEdits = {
      {"drop a row", drop_row},
      {"drop a pair, a position, a layer, a prompt or a phase", drop_many},
      {"repeat a row", repeat_row},
      {"repeat all rows in another file", repeat_all_from_another_file},
      {"add a row of other content", add_other_content},
      {"reorder the rows", reorder},
      {"contradict by statistics", contradict_statistics},
      {"contradict by hash", contradict_hash},
      {"make a row not finite", not_finite},
      {"shorten a row", shorten_row},
      {"forget a row's length", forget_length},
      {"shorten a sample", shorten_sample},
      {"state more rows", state_more_rows},
      {"plan more", plan_more},
      {"rename a tensor to its alias", rename_to_alias},
      {"rename a tensor", rename_tensor},
      {"rename the prompt of a row", rename_prompt},
      {"spell phases otherwise", spell_phase},
      {"give a row an unknown phase", unknown_phase},
      {"take prefill_last for prefill", excuse_phase},
      {"split over files", split_over_files},
      {"split over runs", split_over_runs},
      {"mark the run failed", fail_run},
      {"leave the run running", leave_run_open},
      {"add a line that nobody can read", reject_line},
      {"leave the ingest open", open_ingest},
      {"claim PASS in a document", claim_pass},
      {"list matches in a document", table_of_matches},
      {"list failures in a document", table_of_failures},
      {"hash a row by another algorithm", other_hash_algo},
      {"compute in a finer dtype", other_dtype},
      {"change a token", forget_token},
      {"shift positions of a side", shift_position},
      {"shift every position", shift_everything},
      {"have rows from a document only", only_claimed}};
  return kEdits;
}

}  // namespace greta::harm
