// Any bytes are a file of another tool, of the kind that their first ones say, or a pickle by
// themselves: rows and findings come of them, or one error.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ingest/foreign/files.h"
#include "ingest/foreign/pickle.h"

namespace greta {
namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// A row that a database could hold: symbols that are there, places within limits, no NaN.
void check_row(const TraceRow& row, int64_t prompts, int64_t phases, int64_t names) {
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

/// Calls `read`, which throws ForeignError or gives rows that a database could hold.
template <class Read>
void check_rows(const Read& read) {
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
  try {
    read(rows);
  } catch (const ForeignError& error) {
    require(*error.what() != '\0');
  }
  rows.finish();
}

void read_pickle(std::string_view bytes) {
  const Pickle pickle(bytes);
  for_each_tensor(
      pickle.root(), "x",
      [](const std::string&, const Tensor& tensor) { (void)text_of(tensor.shape); },
      [](const std::string&, const PickleValue&) {});
  require(!json_of(pickle.root()).empty());
}

void read_all(std::string_view text) {
  MemoryBytes bytes(text);
  const ForeignKind kind = foreign_kind("", text);
  const bool is_zip = kind == ForeignKind::kZip;
  const std::string path = is_zip ? "d/Pass00001.pt" : "d/step3/rank1/x";
  const auto read = [&](ForeignKind as) {
    check_rows([&](ForeignRows& rows) { read_foreign(as, path, bytes, rows); });
  };
  if (kind != ForeignKind::kNone) return read(kind);
  read(ForeignKind::kNpy);
  read(ForeignKind::kSafetensors);
  check_rows([&](ForeignRows&) { read_pickle(text); });
  // The first half of some inputs says where calls of msprobe were made.
  check_rows([&](ForeignRows& rows) {
    read_msprobe({read_foreign_path(path), bytes, rows},
                 std::string(text.substr(0, text.find('}') + 1)));
  });
}

}  // namespace
}  // namespace greta

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  greta::read_all({reinterpret_cast<const char*>(data), size});
  return 0;
}
