#include <algorithm>

#include "tests/queries/harm/row_choice.h"

namespace greta::harm {
namespace {

bool drop_rows(Harm& harm, const std::function<bool(const ToldRow&)>& goes) {
  std::vector<ToldRow> left;
  for (const ToldRow& row : harm.run.rows) {
    if (row.claimed || !goes(row)) {
      left.push_back(row);
    } else {
      take_apart(harm, row);
    }
  }
  harm.loses_rows = left.size() < harm.run.rows.size();
  harm.run.rows = std::move(left);
  return harm.loses_rows;
}

bool drop_row(Harm& harm, Random& random, Via) {
  const ToldRow* row = any_traced_row(harm.run, random);
  return row != nullptr && drop_rows(harm, [row](const ToldRow& other) { return &other == row; });
}

bool drop_many(Harm& harm, Random& random, Via) {
  const ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  const ToldRow one = *row;
  const std::vector<std::function<bool(const ToldRow&)>> kinds = {
      [&](const ToldRow& other) { return pairing_of(other) == pairing_of(one); },
      [&](const ToldRow& other) { return other.prompt == one.prompt && other.pos == one.pos; },
      [&](const ToldRow& other) { return other.layer == one.layer; },
      [&](const ToldRow& other) { return other.prompt == one.prompt; },
      [&](const ToldRow& other) { return other.phase == one.phase; },
      [&](const ToldRow& other) { return side_of(other) == side_of(one); }};
  return drop_rows(harm, random.of(kinds));
}

/// Half of the rows belong to another run, whose verdict is its own.
bool split_over_runs(Harm& harm, Random& random, Via) {
  return drop_rows(harm, [&](const ToldRow&) { return random.one_in(2); });
}

bool repeat_row(Harm& harm, Random& random, Via via) {
  if (harm.run.stated_rows && via == Via::kWriter)
    return false;  // what it wrote twice counts twice
  const ToldRow* row = any_row(harm.run, random, [](const ToldRow&) { return true; });
  if (row == nullptr) return false;
  ToldRow copy = *row;
  if (random.one_in(2)) copy.file = 1;
  harm.run.rows.push_back(copy);
  harm.promise = Promise::kSame;
  return true;
}

bool repeat_in_other_files(Harm& harm, Random& random, Via) {
  const std::vector<ToldRow> rows = harm.run.rows;
  const bool all = random.one_in(2);
  for (ToldRow row : rows) {
    row.file += 2;
    if (all || random.one_in(2)) harm.run.rows.push_back(row);
  }
  harm.promise = Promise::kSame;
  return !rows.empty();
}

bool reorder(Harm& harm, Random& random, Via) {
  std::vector<ToldRow>& rows = harm.run.rows;
  for (size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
  harm.promise = Promise::kSame;
  return rows.size() > 1;
}

bool split_over_files(Harm& harm, Random& random, Via) {
  for (ToldRow& row : harm.run.rows) row.file = static_cast<int>(random.below(3));
  harm.promise = Promise::kSame;
  return !harm.run.rows.empty();
}

bool rename_to_alias(Harm& harm, Random& random, Via) {
  ToldRow* row = any_row(harm.run, random, [](const ToldRow& r) {
    return r.tensor == "x_in" || r.tensor == "norm_out";
  });
  if (row == nullptr) return false;
  row->tensor = canonical(row->tensor);
  harm.promise = Promise::kSameVerdict;  // the cause is that of the name
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
  const ToldRow* one = any_traced_row(harm.run, random);
  if (one == nullptr) return false;
  const bool more = random.one_in(2);
  for (ToldRow& row : harm.run.rows) {
    if (row.claimed || (&row != one && !(more && random.one_in(2)))) continue;
    take_apart(harm, row);
    row.prompt = "p9";
  }
  return true;
}

bool spell_phase(Harm& harm, Random& random, Via via) {
  if (via == Via::kWriter) return false;  // spells it for its callers
  const std::vector<std::string> last = {"PREFILL_LAST", "prefillLast", "Prefill-Last",
                                         "prefill last"};
  const std::vector<std::string> first = {"Decode0", "decode_0", "DECODE 0"};
  for (ToldRow& row : harm.run.rows) {
    if (random.one_in(2)) continue;
    if (row.phase == "prefill_last") row.phase = random.of(last);
    if (row.phase == "decode0") row.phase = random.of(first);
  }
  harm.promise = Promise::kSame;
  return !harm.run.rows.empty();
}

bool unknown_phase(Harm& harm, Random& random, Via via) {
  if (via == Via::kWriter) return false;  // an engine knows its phases
  ToldRow* row = any_traced_row(harm.run, random);
  if (row == nullptr) return false;
  take_apart(harm, *row);
  row->phase = "warmup";
  harm.loses_rows = true;
  return true;
}

bool excuse_phase(Harm& harm, Random& random, Via) {
  ToldRow* row =
      any_row(harm.run, random, [](const ToldRow& r) { return r.phase == "prefill_last"; });
  if (row == nullptr) return false;
  take_apart(harm, *row);
  row->phase = "prefill";
  return true;
}

/// Changes one row, or all rows of its side.
bool move_side(Harm& harm, Random& random, const std::function<void(ToldRow&)>& move) {
  const ToldRow* one = any_traced_row(harm.run, random);
  if (one == nullptr) return false;
  const int side = side_of(*one);
  const bool all = random.one_in(2);
  for (ToldRow& row : harm.run.rows) {
    if (row.claimed || (!all && &row != one) || side_of(row) != side) continue;
    ToldRow moved = row;
    move(moved);
    if (moved == row) continue;
    take_apart(harm, row);
    take_apart(harm, moved);
    row = moved;
  }
  return !harm.apart.empty();
}

bool change_token(Harm& harm, Random& random, Via) {
  std::optional<int64_t> now;
  if (random.one_in(2)) now = 999;
  return move_side(harm, random, [&](ToldRow& row) { row.token = now; });
}

bool shift_position(Harm& harm, Random& random, Via) {
  return move_side(harm, random, [](ToldRow& row) { row.pos += row.pos >= 0; });
}

bool forget_position(Harm& harm, Random& random, Via) {
  return move_side(harm, random, [](ToldRow& row) { row.pos = -1; });
}

bool shift_everything(Harm& harm, Random&, Via) {
  for (ToldRow& row : harm.run.rows) row.pos += row.pos >= 0;
  harm.promise = Promise::kSameVerdict;
  return !harm.run.rows.empty();
}

}  // namespace

std::vector<Edit> place_edits() {
  return {{"drop a row", drop_row},
          {"drop a pair, a position, a layer, a prompt, a phase or a side", drop_many},
          {"split over runs", split_over_runs},
          {"repeat a row", repeat_row},
          {"repeat rows in other files", repeat_in_other_files},
          {"reorder the rows", reorder},
          {"split over files", split_over_files},
          {"rename a tensor to its alias", rename_to_alias},
          {"rename a tensor", rename_tensor},
          {"give rows to another prompt", rename_prompt},
          {"spell phases otherwise", spell_phase},
          {"give a row an unknown phase", unknown_phase},
          {"take prefill_last for prefill", excuse_phase},
          {"change tokens", change_token},
          {"shift positions", shift_position},
          {"forget positions", forget_position},
          {"shift every position", shift_everything}};
}

}  // namespace greta::harm
