#include "db/fleet/pushed_run.h"

#include <algorithm>

#include "db/clickhouse/error.h"

namespace greta {

int64_t mapped(const Ids& ids, int64_t id, const char* what) {
  const auto found = ids.find(id);
  if (found != ids.end()) return found->second;
  throw clickhouse::Error("a run refers to a " + std::string(what) +
                          " that did not come with it: its push is damaged");
}

Reference reference_of(const std::string& column) {
  const auto ends = [&](const char* suffix) { return column.ends_with(suffix); };
  if (column == "run_id" || column == "run_b_id") return Reference::kRun;
  if (ends("prompt_id")) return Reference::kPrompt;
  if (column == "source_id") return Reference::kSource;
  if (column == "context_id") return Reference::kContext;
  if (ends("tensor_id")) return Reference::kTensor;
  if (ends("name_id")) return Reference::kName;
  if (column == "phase_id") return Reference::kPhase;
  if (column == "vector_id") return Reference::kVector;
  return Reference::kNone;
}

int64_t PushedRun::mapped(Reference reference, int64_t id) const {
  switch (reference) {
    case Reference::kRun:
      return greta::mapped(runs, id, "run");
    case Reference::kPrompt:
      return id <= 0 ? id : greta::mapped(prompts, id, "prompt");
    case Reference::kSource:
      return greta::mapped(sources, id, "source");
    case Reference::kContext:
      return greta::mapped(contexts, id, "context");
    case Reference::kTensor:
      return greta::mapped(rules->tensors, id, "trace point");
    case Reference::kName:
      return greta::mapped(rules->names, id, "name of a trace point");
    case Reference::kPhase:
      return greta::mapped(rules->phases, id, "phase");
    case Reference::kNone:
    case Reference::kVector:
      break;
  }
  return id;
}

std::string parameter_marks(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += i == 0 ? "?" : ", ?";
  return text;
}

std::vector<std::string> split_columns(const std::string& columns) {
  std::vector<std::string> names;
  for (size_t at = 0; at < columns.size();) {
    const size_t end = std::min(columns.find(", ", at), columns.size());
    names.push_back(columns.substr(at, end - at));
    at = end + 2;
  }
  return names;
}

}  // namespace greta
