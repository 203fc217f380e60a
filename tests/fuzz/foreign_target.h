// What the fuzz targets of other tools' files share: any bytes give rows and findings, or one
// error.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ingest/foreign/bytes.h"
#include "ingest/foreign/rows.h"
#include "ingest/foreign/source.h"

namespace greta {

inline void require(bool holds) {
  if (!holds) std::abort();
}

/// A row that a database could hold: symbols that are there, places within limits, no NaN.
inline void check_row(const TraceRow& row, int64_t prompts, int64_t phases, int64_t names) {
  require(row.prompt_id >= 0 && row.prompt_id < prompts);
  require(row.phase_id >= 0 && row.phase_id < phases);
  require(row.name_id >= 0 && row.name_id < names);
  require(row.pos_id >= -1 && row.pos_id <= kMaxPosition);
  require(row.layer >= -1 && row.layer <= kMaxLayer);
  require(((row.flags & kFlagTensor) != 0) == (row.pos_id == -1));
  require((row.flags & ~kAllFlags) == 0 && row.line > 0);
  for (const auto& value : {row.min, row.max, row.mean, row.abs_sum}) {
    require(!value || !std::isnan(*value));
  }
}

/// Reads `data` by `read`; checks what it gives.
template <class Read>
int read_any(const uint8_t* data, size_t size, const char* path, const Read& read) {
  static const NameRules rules = [] {
    NameRules made;
    made.add(R"((?:model\.)?layers\.(\d+)\.mlp)", "mlp_out");
    made.add(R"(Qcur-(\d+) ROPE)", "q_post_rope");
    return made;
  }();
  int64_t prompts = 0, phases = 0, names = 0;
  ForeignRows rows(rules, [&](RecordBatch& batch) {
    prompts += static_cast<int64_t>(batch.prompts.size());
    phases += static_cast<int64_t>(batch.phases.size());
    names += static_cast<int64_t>(batch.names.size());
    for (const TraceRow& row : batch.rows) check_row(row, prompts, phases, names);
    for (const LineFinding& finding : batch.findings) require(!finding.reason.empty());
  });
  MemoryBytes bytes({reinterpret_cast<const char*>(data), size});
  try {
    read(ForeignSource{read_foreign_path(path), bytes, rows});
  } catch (const ForeignError& error) {
    require(*error.what() != '\0');
  }
  rows.finish();
  return 0;
}

}  // namespace greta
