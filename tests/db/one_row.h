#pragma once

#include "tests/db/database_file.h"

namespace greta {

/// A run `r` with one row: decode0, position 1, layer 0, x_in.
struct OneRow : DatabaseFile {
  SQLite::Database db = open_for_writing(file);
  OneRow() {
    db.exec(
        "INSERT INTO run(name, experiment) VALUES ('r', 'e');"
        "INSERT INTO prompt(run_id, name) VALUES (1, 'p');"
        "INSERT INTO source(run_id, sha256, shape, bytes) VALUES (1, 'x', 'stage_trace', 0);"
        "INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, phase_id,"
        " step, name_id, flags, source_id, line) SELECT 1, 1, h.side, 1, 0, n.tensor_id, 0, h.id,"
        " 0, n.id, 0, 1, 1 FROM tensor_name n, phase h WHERE n.name = 'x_in' AND h.name = "
        "'decode0'");
  }
};

}  // namespace greta
