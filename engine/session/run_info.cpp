#include "engine/session/run_info.h"

#include <unistd.h>

#include <array>

#include "common/utc_time.h"
#include "db/trace_row.h"
#include "engine/forward/model.h"

namespace greta {

// A model that the forward pass takes has a key for every row of it.
static_assert(kMaxModelLayers == kMaxLayer + 1 && kMaxModelContext == kMaxPosition);

namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string join_layers(const std::vector<int>& layers) {
  std::string text;
  for (const int layer : layers) text += (text.empty() ? "" : ",") + std::to_string(layer);
  return text.empty() ? "all" : text;
}

template <class T>
std::string join_names(const std::vector<T>& all, std::string_view (*name)(T)) {
  std::string text;
  for (const T one : all) text.append(text.empty() ? "" : ",").append(name(one));
  return text.empty() ? "all" : text;
}

std::string dirty_text(std::optional<bool> dirty) {
  return !dirty ? "unknown" : *dirty ? "1" : "0";
}

/// What is known before there is a session.
RunRecord begin_record(const RunSetup& setup) {
  const BuildInfo build = build_info();
  RunRecord run;
  run.experiment = setup.experiment;
  run.started_at = utc_now();
  run.date = setup.date.empty() ? run.started_at.substr(0, 10) : setup.date;
  run.commit_sha = setup.commit.empty() ? std::string(build.commit) : setup.commit;
  run.name = setup.name;
  run.replaces_failed = setup.replaces_failed;
  run.mode = setup.mode;
  run.label = setup.label;
  run.seed = setup.seed;
  run.attributes = {{"greta", std::string(build.version)},
                    {"dirty", dirty_text(build.dirty)},
                    {"host", host_name()}};
  if (!setup.suite.empty()) run.attributes.emplace_back("suite", setup.suite);
  return run;
}

}  // namespace

RunRecord make_failed_record(const RunSetup& setup, const std::filesystem::path& model,
                             std::string_view backend, std::string_view error) {
  RunRecord run = begin_record(setup);
  run.attributes.emplace_back("backend", backend);
  run.attributes.emplace_back("model_file", model.filename().string());
  run.attributes.emplace_back("error", error);
  return run;
}

RunRecord make_run_record(const RunSetup& setup, const Session& session,
                          const ForwardOptions& forward, const TraceSelection& selection,
                          const std::vector<std::pair<std::string, std::string>>& environment) {
  const Backend& backend = session.backend();
  RunRecord run = begin_record(setup);
  run.dtype = backend.arithmetic(forward.routes);
  const std::vector<std::pair<std::string, std::string>> facts = {
      {"backend", backend.name()},
      {"device", backend.device()},
      {"threads", std::to_string(session.n_threads())},
      {"model", session.model().name()},
      {"model_file", session.path().filename().string()},
      {"model_bytes", std::to_string(session.file().bytes().size())},
      {"weights", session.model().weight_types()},
      {"n_layers", std::to_string(session.model().config().n_layers)},
      {"n_heads", std::to_string(session.model().config().n_heads)},
      {"n_kv_heads", std::to_string(session.model().config().n_kv_heads)},
      {"context", std::to_string(session.model().config().context)},
      {"max_seq_len", std::to_string(setup.max_seq_len)},
      {"batch", std::to_string(forward.max_batch)},
      {"routes", forward.routes.text()},
      {"kv_cache", std::string(kv_type_name(forward.kv_cache))},
      {"trace.layers", join_layers(selection.layers)},
      {"trace.tensors", join_names(selection.points, trace_point_name)},
      {"trace.phases", join_names(selection.phases, phase_name)},
      {"trace.sample", std::to_string(selection.sample_values)},
  };
  run.attributes.insert(run.attributes.end(), facts.begin(), facts.end());
  if (!backend.isa().empty()) run.attributes.emplace_back("isa", backend.isa());
  for (const Fault& fault : forward.faults.all())
    run.attributes.emplace_back("inject", fault.text());
  for (const auto& [name, value] : environment) {
    run.attributes.emplace_back("env." + name, value);
  }
  return run;
}

}  // namespace greta
