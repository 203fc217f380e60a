#include "db/standing.h"

#include <string>

#include "db/trace_row.h"

namespace greta {
namespace {

/// Rows whose columns are not as the view has them, with what it says. A row that is alone needs no
/// view: places are looked through in the order of the key, those without a position step by step.
std::string wrong_rows(std::optional<int64_t> run_id) {
  const std::string of_run = run_id ? " AND run_id = " + std::to_string(*run_id) : "",
                    several = std::string(
                        " HAVING count(*) > 1 OR (min(stands),"
                        " min(stands_in_phase), max(ambiguous),"
                        " max(ambiguous_in_phase)) IS NOT (1, 1, 0, 0)");
  return "SELECT s.run_id AS of_run, s.prompt_id AS of_prompt, s.side AS of_side,"
         " s.pos_id AS of_pos, s.layer AS of_layer, s.tensor_id AS of_tensor, s.nth AS of_nth,"
         " s.stands AS is_first, s.stands_in_phase AS is_first_in_phase, s.ambiguous AS differ,"
         " s.ambiguous_in_phase AS differ_in_phase FROM ("
         "SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, NULL AS step FROM trace_row"
         " WHERE pos_id >= 0" +
         of_run + " GROUP BY run_id, prompt_id, side, pos_id, layer, tensor_id" + several +
         " UNION ALL SELECT run_id, prompt_id, side, pos_id, layer, tensor_id, step FROM trace_row"
         " WHERE pos_id = -1" +
         of_run + " GROUP BY run_id, prompt_id, side, layer, tensor_id, step" + several +
         ") c CROSS JOIN standing s ON s.run_id = c.run_id AND s.prompt_id = c.prompt_id"
         " AND s.side = c.side AND s.pos_id = c.pos_id AND s.layer = c.layer"
         " AND s.tensor_id = c.tensor_id AND (c.step IS NULL OR s.step = c.step)"
         " CROSS JOIN trace_row t ON t.run_id = s.run_id AND t.prompt_id = s.prompt_id"
         " AND t.side = s.side AND t.pos_id = s.pos_id AND t.layer = s.layer"
         " AND t.tensor_id = s.tensor_id AND t.nth = s.nth"
         " WHERE (t.stands, t.stands_in_phase, t.ambiguous, t.ambiguous_in_phase)"
         " IS NOT (s.stands, s.stands_in_phase, s.ambiguous, s.ambiguous_in_phase)";
}

}  // namespace

int64_t count_wrong_standings(SQLite::Database& db) {
  return db.execAndGet("SELECT count(*) FROM (" + wrong_rows({}) + ")").getInt64();
}

int64_t correct_standings(SQLite::Database& db, std::optional<int64_t> run_id) {
  return db.exec(
      "UPDATE trace_row SET stands = is_first, stands_in_phase = is_first_in_phase,"
      " ambiguous = differ, ambiguous_in_phase = differ_in_phase FROM (" +
      wrong_rows(run_id) +
      ") WHERE run_id = of_run AND prompt_id = of_prompt AND side = of_side"
      " AND pos_id = of_pos AND layer = of_layer AND tensor_id = of_tensor"
      " AND nth = of_nth");
}

}  // namespace greta
