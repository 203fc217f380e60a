// An importer on files of other tools.
#pragma once
#include <string>

#include "kernels/fingerprint/fingerprint.h"
#include "tests/ingest/foreign/made_files.h"
#include "tests/ingest/importing.h"

namespace greta {

struct ForeignImporting : Importing {
  /// Ingests one file of these bytes.
  IngestSummary take_file(const std::string& name, const std::string& bytes) {
    folder.write("in/" + name, bytes);
    return take("in");
  }
  /// Rows as "a|b", in the order of their lines and positions.
  std::string traced(const std::string& columns, const std::string& where = "1") {
    return rows("SELECT " + columns + " FROM trace WHERE " + where +
                " ORDER BY source_file, source_line, step, pos_id, layer, tensor");
  }
};

/// greta's own hash of values, as views print it.
inline std::string printed_hash(const std::vector<float>& values) {
  return std::to_string(fingerprint(values).hash);
}

}  // namespace greta
