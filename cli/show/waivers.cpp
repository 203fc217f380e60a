#include "cli/show/waivers.h"

#include "common/json_text.h"
#include "db/schema.h"

namespace greta {

using std::to_string;

std::string AppliedWaiver::json() const {
  JsonObject object;
  object.add("waiver", id).add("tensor", Cell(tensor)).add("layer", or_null(layer));
  object.add("pairs", pairs).add("divergent", divergent);
  if (rows > 0) object.add("rows", rows);
  object.add("until", Cell(until)).add("reason", Cell(reason)).add("created_by", Cell(created_by));
  return object.str();
}

std::vector<AppliedWaiver> applied_waivers(QueryPool& statements, int64_t run_id) {
  std::vector<AppliedWaiver> all;
  RunQuery run(statements, run_id, "SELECT w.run FROM run_waiver w WHERE w.run_id = ? LIMIT 1");
  if (!run.step()) return all;
  Query query(statements, sql_of_file("queries/canned/waived.sql"));
  query.bind(1, run.text(0));
  while (query.step()) {
    all.push_back({.id = query.integer(0),
                   .tensor = query.text(1),
                   .layer = query.is_null(2) ? std::nullopt : std::optional(query.integer(2)),
                   .pairs = query.integer(3),
                   .divergent = query.integer(4),
                   .rows = 0,
                   .until = query.text(5),
                   .reason = query.text(6),
                   .created_by = query.text(7)});
  }
  return all;
}

std::string waived_place(const AppliedWaiver& waiver, const Wording& words) {
  const std::string tensor = waiver.tensor;
  return waiver.layer ? words("waiver.place", {tensor, to_string(*waiver.layer)}) : tensor;
}

std::string waiver_text(const AppliedWaiver& waiver, const Wording& words) {
  std::string what;
  if (waiver.pairs > 0 || waiver.rows == 0) {
    what = words(waiver.pairs == 1 ? TextId("waiver.pair") : TextId("waiver.pairs"),
                 {to_string(waiver.pairs)});
  }
  if (waiver.divergent < waiver.pairs) {
    what += " (" + to_string(waiver.divergent) + " " + words("remark.beyond rounding") + ")";
  }
  if (waiver.rows > 0) {
    const TextId rows = waiver.rows == 1 ? TextId("waiver.row") : TextId("waiver.rows");
    if (!what.empty()) what += words("waiver.and");
    what += words(rows, {to_string(waiver.rows)});
  }
  return words("waiver.text", {what, waived_place(waiver, words), waiver.until, waiver.reason,
                               to_string(waiver.id), waiver.created_by});
}

}  // namespace greta
