#include <algorithm>
#include <cmath>

#include "tests/queries/harm/row_choice.h"

namespace greta::harm {
namespace {

bool add_other_content(Harm& harm, Random& random, Via) {
  if (harm.run.stated_rows) return false;
  const ToldRow* row = any_row(
      harm.run, random, [](const ToldRow& r) { return r.hash || r.sketch || !r.sample.empty(); });
  if (row == nullptr) return false;
  ToldRow other = *row;
  const Style style = {.hash = row->hash.has_value(),
                       .statistics = row->max.has_value(),
                       .sketch = row->sketch.has_value(),
                       .sample = row->sample.size()};
  tell_values(other, values_of(1'000'000 + random.below(1000)), style, harm.run.hash_algo);
  if (random.one_in(3)) ++other.step;
  if (random.one_in(3) && other.tensor == "x_in") other.tensor = "rms_in";
  if (random.one_in(3)) other.file = 1;
  other.claimed = random.one_in(3);
  if (is_compared(harm.run, *row)) harm.promise = Promise::kFails;
  harm.prompt = row->prompt;
  const auto at = static_cast<ptrdiff_t>(random.below(harm.run.rows.size() + 1));
  harm.run.rows.insert(harm.run.rows.begin() + at, other);
  return true;
}

bool contradict_statistics(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(
      harm.run, random, [&](const ToldRow& r) { return r.hash && r.max && has_twin(harm.run, r); });
  if (row == nullptr) return false;
  // sums have an order, and are not held against hashes
  **(random.one_in(2) ? &row->min : &row->max) += 0.5;
  // Beyond what a historical hash covers rows of equal hashes may differ.
  const bool covers = harm.run.hash_algo == "greta-1" || (row->n && *row->n <= 256);
  if (covers) harm.promise = Promise::kFails;
  harm.prompt = row->prompt;
  return true;
}

bool contradict_hash(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random,
                         [&](const ToldRow& r) { return r.hash && r.n && has_twin(harm.run, r); });
  if (row == nullptr) return false;
  *row->hash ^= 0x55;
  const auto sampled = static_cast<int64_t>(row->sample.size());
  const int64_t hashed =
      harm.run.hash_algo == "greta-1" ? *row->n : std::min<int64_t>(*row->n, 256);
  // Unless the sample is all that was hashed, equal sketches say that the difference is rounding.
  harm.promise = sampled >= hashed ? Promise::kFails : Promise::kFailsStrictly;
  harm.prompt = row->prompt;
  return true;
}

bool contradict_sample(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [&](const ToldRow& r) {
    return !r.sample.empty() && has_twin(harm.run, r);
  });
  if (row == nullptr) return false;
  row->sample[random.below(row->sample.size())] += 1;
  harm.promise = Promise::kFailsStrictly;
  harm.prompt = row->prompt;
  return true;
}

bool contradict_sketch(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(
      harm.run, random, [&](const ToldRow& r) { return r.sketch && r.n && has_twin(harm.run, r); });
  if (row == nullptr) return false;
  row->sketch->bucket[random.below(32)] += 1;
  if (!row->hash) harm.promise = Promise::kFailsStrictly;  // a hash is believed
  harm.prompt = row->prompt;
  return true;
}

bool make_not_finite(Harm& harm, Random& random, Via via) {
  ToldRow* row = any_row(harm.run, random, [](const ToldRow&) { return true; });
  if (row == nullptr) return false;
  if (is_compared(harm.run, *row)) harm.promise = Promise::kFails;
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
      row->sample[random.below(row->sample.size())] = random.one_in(2) ? NAN : INFINITY;
      row->nonfinite = via == Via::kWriter;  // the importer sees for itself
  }
  return true;
}

bool shorten_row(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [&](const ToldRow& r) {
    const auto all = rows_of_pair(harm.run, r);
    return is_compared(harm.run, r) &&
           std::all_of(all.begin(), all.end(), [](const ToldRow* other) { return other->n > 1; });
  });
  if (row == nullptr) return false;
  harm.apart.insert(pairing_of(*row));  // its hash covers another number of values
  --*row->n;
  harm.promise = Promise::kNoPass;
  return true;
}

bool forget_length(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [](const ToldRow& r) { return r.n.has_value(); });
  if (row == nullptr) return false;
  harm.apart.insert(pairing_of(*row));                   // nobody knows what its hash covers
  if (row->sketch) harm.promise = Promise::kTakesApart;  // nor its sketch, which may have differed
  row->n.reset();
  return true;
}

bool shorten_sample(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [](const ToldRow& r) { return !r.sample.empty(); });
  if (row == nullptr) return false;
  const auto left = static_cast<ptrdiff_t>(random.below(row->sample.size()));
  bool still_differs = false;
  for (const ToldRow* other : rows_of_pair(harm.run, *row)) {
    const ptrdiff_t n = std::min(left, static_cast<ptrdiff_t>(other->sample.size()));
    still_differs |=
        !std::equal(row->sample.begin(), row->sample.begin() + n, other->sample.begin());
  }
  harm.apart.insert(pairing_of(*row));
  if (!still_differs) harm.promise = Promise::kTakesApart;
  row->sample.resize(static_cast<size_t>(left));
  return true;
}

bool hash_otherwise(Harm& harm, Random& random, Via via) {
  if (via == Via::kWriter) return false;  // hashes all rows of a run alike
  ToldRow* row = any_row(harm.run, random,
                         [&](const ToldRow& r) { return r.hash && is_compared(harm.run, r); });
  if (row == nullptr) return false;
  take_apart(harm, *row);  // samples alone decide, if there are any
  harm.undemanded.clear();
  row->algo = random.one_in(2) ? "xxh64" : harm.run.hash_algo == "greta-1" ? "fnv-256" : "greta-1";
  return true;
}

bool only_claim(Harm& harm, Random& random, Via) {
  const ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  const bool alone = random.one_in(3), all = random.one_in(2);
  const int side = side_of(*row);
  const size_t chosen = static_cast<size_t>(row - harm.run.rows.data());
  for (size_t i = 0; i < harm.run.rows.size(); ++i) {
    ToldRow& other = harm.run.rows[i];
    if (alone ? i != chosen : !all && side_of(other) != side) continue;
    // where a row has others beside it, these may say the same
    if (is_compared(harm.run, other) && (!alone || has_twin(harm.run, other)))
      harm.promise = Promise::kNoPass;
    other.claimed = true;
  }
  return true;
}

}  // namespace

std::vector<Edit> content_edits() {
  return {{"add a row of other content", add_other_content},
          {"contradict by statistics", contradict_statistics},
          {"contradict by hash", contradict_hash},
          {"contradict by sample", contradict_sample},
          {"contradict by sketch", contradict_sketch},
          {"make a row not finite", make_not_finite},
          {"shorten a row", shorten_row},
          {"forget a row's length", forget_length},
          {"shorten a sample", shorten_sample},
          {"hash a row by another algorithm", hash_otherwise},
          {"have rows from a document only", only_claim}};
}

}  // namespace greta::harm
