#include "tests/queries/harm/row_choice.h"

#include <algorithm>

namespace greta::harm {

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

std::vector<const ToldRow*> rows_of_pair(const ToldRun& run, const ToldRow& row) {
  std::vector<const ToldRow*> rows;
  for (const ToldRow& other : run.rows) {
    if (pairing_of(other) == pairing_of(row)) rows.push_back(&other);
  }
  return rows;
}

bool is_compared(const ToldRun& run, const ToldRow& row) {
  if (row.pos < 0 || side_of(row) == kNoSide) return false;
  const auto rows = rows_of_pair(run, row);
  return std::any_of(rows.begin(), rows.end(),
                     [&](const ToldRow* other) { return side_of(*other) == 1 - side_of(row); });
}

bool has_twin(const ToldRun& run, const ToldRow& row) {
  const auto rows = rows_of_pair(run, row);
  if (rows.size() != 2 || !is_compared(run, row)) return false;
  ToldRow a = *rows[0];
  const ToldRow& b = *rows[1];
  if (a.claimed || a.nan.value_or(0) > 0 || a.nonfinite) return false;
  a.phase = b.phase;
  a.tensor = b.tensor;
  a.step = b.step;
  a.file = b.file;
  return a == b;
}

void take_apart(Harm& harm, const ToldRow& row) {
  harm.promise = Promise::kTakesApart;
  if (side_of(row) == kNoSide) return;
  harm.apart.insert(pairing_of(row));
  if (demands_partner(row)) harm.undemanded.insert({row.prompt, row.pos});
}

}  // namespace greta::harm
