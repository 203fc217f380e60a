#include "cli/warehouse/waivers.h"

#include "common/json_text.h"
#include "db/schema.h"

namespace greta {

std::string AppliedWaiver::json() const {
  JsonObject object;
  object.add("waiver", id).add("tensor", Cell(tensor)).add("layer", or_null(layer));
  object.add("pairs", pairs).add("divergent", divergent);
  if (rows > 0) object.add("rows", rows);
  object.add("until", Cell(until)).add("reason", Cell(reason)).add("created_by", Cell(created_by));
  return object.str();
}

bool has_waivers(QueryPool& statements, int64_t run_id) {
  Query query(statements, "SELECT 1 FROM run_waiver WHERE run_id = ? LIMIT 1");
  return query.bind(1, run_id).step();
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

}  // namespace greta
