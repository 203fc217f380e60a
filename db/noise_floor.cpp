#include "db/noise_floor.h"

#include "db/judge.h"
#include "db/statements.h"

namespace greta {

void store_noise_floor(SQLite::Database& db, const CalibratedModel& model,
                       std::span<const NoiseFloor> floors, const std::string& measured_at) {
  SQLite::Statement insert(
      db,
      "INSERT OR REPLACE INTO noise_floor(tensor_id, layer, model_sha256, dtype, backend, rel_l2,"
      " gain, pairs, measured_at)"
      " VALUES ((SELECT id FROM tensor WHERE name = ?), ?, ?, ?, ?, ?, ?, ?, ?)");
  for (const NoiseFloor& floor : floors) {
    insert.bind(1, floor.tensor);
    insert.bind(2, floor.layer);
    insert.bind(3, model.model);
    insert.bind(4, model.dtype);
    insert.bind(5, model.backend);
    insert.bind(6, floor.rel_l2);
    bind_optional(insert, 7, floor.gain);
    insert.bind(8, floor.pairs);
    insert.bind(9, measured_at);
    insert.exec();
    insert.reset();
  }
  SQLite::Statement runs(db,
                         "SELECT DISTINCT run_id FROM attribute WHERE value = ?"
                         " AND dim IN ('model_root', 'model_sha256')");
  runs.bind(1, model.model);
  while (runs.executeStep()) forget_verdict(db, runs.getColumn(0).getInt64());
}

}  // namespace greta
