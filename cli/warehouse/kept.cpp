#include "cli/warehouse/kept.h"

#include <algorithm>

namespace greta {

bool is_judged(QueryPool& statements, int64_t run_id) {
  return !RunQuery(statements, run_id, "SELECT 1 FROM unjudged_run WHERE run_id = ?").step();
}

std::string kept_views(QueryPool& statements, const std::vector<Run>& runs) {
  const bool all = std::all_of(runs.begin(), runs.end(),
                               [&](const Run& run) { return is_judged(statements, run.id); });
  return all ? "kept_" : "";
}

std::string kept_views(QueryPool& statements) {
  return Query(statements, "SELECT 1 FROM unjudged_run LIMIT 1").step() ? "" : "kept_";
}

std::string kept_views_of_lineage(QueryPool& statements, const std::string& lineage) {
  const std::string members =
      lineage.empty() ? "lineage_member m" : "(SELECT * FROM lineage_member WHERE lineage = ?1) m";
  const auto any = [&](const std::string& sql) {
    Query query(statements, sql);
    if (!lineage.empty()) query.bind(1, lineage);
    return query.step();
  };
  const bool open =
      any("SELECT 1 FROM " + members +
          " CROSS JOIN unjudged_run u ON u.run_id = m.run_id LIMIT 1") ||
      any("SELECT 1 FROM " + members +
          " CROSS JOIN run_baseline b ON b.run_id = m.run_id WHERE b.baseline_id IS NOT NULL"
          " AND NOT EXISTS (SELECT 1 FROM kept_diff k WHERE k.run_a_id = b.baseline_id"
          " AND k.run_b_id = b.run_id) LIMIT 1");
  return open ? "" : "kept_";
}

}  // namespace greta
