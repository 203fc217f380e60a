#pragma once
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/temporary_folder.h"
#include "engine/forward/activations.h"
#include "engine/forward/backend.h"
#include "engine/forward/forward.h"
#include "engine/forward/model.h"
#include "engine/gguf/file.h"
#include "engine/probe/probe.h"
#include "engine/run/trace_sink.h"
#include "engine/synth/synth.h"
#include "kernels/fingerprint/fingerprint.h"
#include "tests/file_bytes.h"

// A model made for a test, an engine to run it and a sink that remembers what was traced.

namespace greta {

/// Three layers of grouped queries, wide enough for every storage type.
inline SynthShape small_shape() {
  return {.name = "small",
          .n_layers = 3,
          .dim = 256,
          .n_heads = 8,
          .n_kv_heads = 4,
          .head_dim = 32,
          .ffn_dim = 512,
          .vocab = 512,
          .context = 64};
}

/// A shape and what a test calls it.
struct NamedShape {
  std::string name;
  SynthShape shape;
  std::string type = "f32";

  friend void PrintTo(const NamedShape& named, std::ostream* out) { *out << named.name; }
};

/// small_shape() in every type of weights.
inline std::vector<NamedShape> shapes_of_every_type() {
  std::vector<NamedShape> shapes;
  for (const std::string& type : synth_type_names()) shapes.push_back({type, small_shape(), type});
  return shapes;
}

/// Small models of every architecture but plain Llama, and of all else that a file can ask for.
inline std::vector<NamedShape> other_shapes() {
  const auto shape = [](const char* architecture) {
    SynthShape made = small_shape();
    made.architecture = architecture;
    made.rope_theta = 10000;
    return made;
  };
  const auto yarn = [](SynthShape made) {
    made.rope_scaling = "yarn";
    made.original_context = 4096;  // fast planes, slow ones and some in between
    return made;
  };
  SynthShape tied = shape("qwen2"), wide = shape("qwen3"), linear = shape("llama");
  tied.tied = true;
  wide.head_dim = 48;
  linear.rope_scaling = "linear";
  SynthShape stretched = yarn(shape("llama"));
  stretched.rope_freqs = true;
  stretched.rope_attn_factor = 0.9;
  SynthShape window = shape("llama"), some = yarn(shape("qwen3"));
  window.window = 7;
  some.window = 9;
  some.windowed = {false, true, true};
  return {{"qwen2", tied, "q8_0"},
          {"qwen3", wide, "f16"},
          {"linear", linear},
          {"yarn", yarn(shape("qwen2"))},
          {"yarn_with_factors", stretched, "bf16"},
          {"window", window, "q4_k"},
          {"window_of_some_layers", some}};
}

/// A synthetic model in memory.
class TestModel {
 public:
  /// `patch` may change the bytes of the file before they are parsed.
  explicit TestModel(const SynthShape& shape, std::string_view type = "f32", uint64_t seed = 1,
                     const std::function<void(std::string&)>& patch = {})
      : bytes_(make(shape, type, seed, patch)),
        file_(GgufFile::parse(std::as_bytes(std::span(*bytes_)), shape.name)),
        model_(file_) {}
  TestModel(const TestModel&) = delete;
  TestModel& operator=(const TestModel&) = delete;

  const GgufFile& file() const { return file_; }
  const Model& model() const { return model_; }
  const ModelConfig& config() const { return model_.config(); }

  /// Ids that follow from a seed, spread over the vocabulary.
  std::vector<int32_t> tokens(int64_t n, uint64_t seed = 1) const {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t draw = mix64((seed << 32) + static_cast<uint64_t>(i));
      ids.push_back(static_cast<int32_t>(draw % static_cast<uint64_t>(config().vocab)));
    }
    return ids;
  }

 private:
  using Bytes = std::shared_ptr<const std::string>;

  static std::string synthesised(const SynthShape& shape, std::string_view type, uint64_t seed) {
    const TemporaryFolder folder;
    const auto path = folder / "model.gguf";
    synthesise(shape, synth_type(type), seed, path);
    return bytes_of(path);
  }

  /// To make a model takes most tests longer than what they do with it: those of the first seed,
  /// which many tests want, are made once.
  static Bytes make(const SynthShape& shape, std::string_view type, uint64_t seed,
                    const std::function<void(std::string&)>& patch) {
    if (seed != 1) return patched(synthesised(shape, type, seed), patch);
    struct Made {
      SynthShape shape;
      std::string type;
      Bytes bytes;
    };
    static std::vector<Made> all;
    auto found = std::find_if(all.begin(), all.end(), [&](const Made& made) {
      return made.type == type && made.shape == shape;
    });
    if (found == all.end()) {
      all.push_back({shape, std::string(type),
                     std::make_shared<const std::string>(synthesised(shape, type, seed))});
      found = all.end() - 1;
    }
    return patch ? patched(*found->bytes, patch) : found->bytes;
  }
  static Bytes patched(std::string bytes, const std::function<void(std::string&)>& patch) {
    if (patch) patch(bytes);
    return std::make_shared<const std::string>(std::move(bytes));
  }

  Bytes bytes_;
  GgufFile file_;
  Model model_;
};

/// A backend with a model's weights.
struct TestEngine {
  explicit TestEngine(const TestModel& test_model, int n_threads = 2)
      : TestEngine(test_model, make_cpu_backend(n_threads)) {}
  TestEngine(const TestModel& test_model, std::unique_ptr<Backend> on)
      : model(test_model.model()),
        backend(std::move(on)),
        weights(upload_weights(model, *backend)) {}

  ForwardOptions options(Mode mode, std::vector<Fault> faults = {}) const {
    return {.mode = mode,
            .routes = choose_routes(*backend, mode, {}),
            .faults = FaultSet(std::move(faults)),
            .max_batch = 64};
  }

  /// f32 [n], from the backend's memory.
  std::vector<float> read(const float* data, int64_t n) const {
    std::vector<float> values(static_cast<size_t>(n));
    backend->read(data, n, values.data());
    return values;
  }

  const Model& model;
  std::unique_ptr<Backend> backend;
  ModelWeights weights;
};

using RowKey = std::pair<TracePoint, int>;  ///< point, layer

inline std::string row_name(RowKey key) {
  return std::string(trace_point_name(key.first)) + " of layer " + std::to_string(key.second);
}

/// True if a row comes first in the forward pass.
inline bool runs_before(RowKey a, RowKey b) {
  const auto order = [](RowKey key) {
    const int layer = key.second == kLayerAfterStack ? std::numeric_limits<int>::max() : key.second;
    return std::pair(layer, key.first);
  };
  return order(a) < order(b);
}

/// Remembers a run.
class MemorySink final : public TraceSink {
 public:
  size_t begin_prompt(const PromptRecord& prompt) override {
    prompts.push_back(prompt);
    return prompts.size() - 1;
  }
  void rows(size_t, std::vector<TraceRecord> rows) override {
    records.insert(records.end(), std::make_move_iterator(rows.begin()),
                   std::make_move_iterator(rows.end()));
  }
  void readout(size_t, const ReadoutRecord& readout) override { readouts.push_back(readout); }
  void attribute(const std::string& name, const std::string& value) override {
    attributes.emplace_back(name, value);
  }
  void end(bool complete) override { ended = complete; }

  /// Rows of a phase, at one position when that is given. Throws std::logic_error when one is there
  /// twice.
  std::map<RowKey, const TraceRecord*> of(Phase phase, std::optional<int64_t> pos = {}) const {
    std::map<RowKey, const TraceRecord*> found;
    for (const TraceRecord& record : records) {
      if (record.phase != phase || (pos && record.pos_id != *pos)) continue;
      const RowKey key{record.point, record.layer};
      if (!found.emplace(key, &record).second) throw std::logic_error(row_name(key) + " twice");
    }
    return found;
  }

  std::vector<PromptRecord> prompts;
  std::vector<TraceRecord> records;
  std::vector<ReadoutRecord> readouts;
  std::vector<std::pair<std::string, std::string>> attributes;
  bool ended = false;
};

/// Bits of both rows are the same, NaN payloads aside.
inline bool same_bits(const Fingerprint& a, const Fingerprint& b) {
  return a.n == b.n && a.hash == b.hash;
}
inline bool is_finite(const Fingerprint& row) { return row.nan == 0 && row.inf == 0; }

/// Two layers, odd sizes where a storage type allows them.
inline SynthShape tiny_shape() {
  SynthShape shape = small_shape();
  shape.n_layers = 2;
  shape.n_heads = 4;
  shape.n_kv_heads = 2;
  shape.ffn_dim = 256;
  shape.vocab = 515;
  return shape;
}

}  // namespace greta
