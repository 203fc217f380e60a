#pragma once
#include <array>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/forward/backend.h"
#include "engine/forward/model.h"
#include "engine/gguf/file.h"
#include "engine/session/model_digest.h"
#include "engine/tokenizer/tokenizer.h"

// A model made ready to run: its file, weights in the memory of a backend, vocabulary.

namespace greta {

/// How long the stages of a program took, one after the other from its start on.
class StageTimes {
 public:
  struct Stage {
    std::string name;
    double seconds;
  };

  /// The first stage began with the process.
  StageTimes();

  /// The stage at hand is over, and the next one begins. One that is named again goes on.
  void end(const std::string& name);

  const std::vector<Stage>& stages() const { return stages_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
  std::vector<Stage> stages_;
};

/// Names that make_backend takes, the default last.
inline constexpr std::array<std::string_view, 3> kBackendNames{"cpu", "hip", "auto"};

/// cpu, hip (the GPU), or auto: the GPU where this build and this machine have one, else the CPU.
/// Throws std::invalid_argument for a backend that the build does not have, and what
/// make_hip_backend() throws.
/// isa: as isa_of() takes it, of the CPU alone.
std::unique_ptr<Backend> make_backend(std::string_view name, int n_threads,
                                      std::string_view isa = "");

/// What will be asked of a session, so that it begins while the device is set up and weights are
/// loaded.
struct SessionPlan {
  bool tokenizer = false;
  bool digest = false;
  bool file_sha256 = false;  ///< with the digest
  DigestCache digests = {};  ///< where they are kept
  std::string isa = {};      ///< as make_backend takes it
  LoadProgress on_load = {};
};

/// A model made ready to run: its file, weights in the memory of a backend, vocabulary.
class Session {
 public:
  /// n_threads 0: as many as there are cores. Throws GgufError, std::system_error for a file that
  /// cannot be read, std::invalid_argument as make_backend does.
  Session(const std::filesystem::path& file, std::string_view backend, int n_threads,
          SessionPlan plan = {});
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const GgufFile& file() const { return file_; }
  const std::filesystem::path& path() const { return path_; }
  const Model& model() const { return model_; }
  const ModelWeights& weights() const { return weights_; }
  Backend& backend() { return *backend_; }
  const Backend& backend() const { return *backend_; }
  int n_threads() const { return n_threads_; }

  /// Goes on with another backend or number of threads, which are as in the constructor; what is
  /// loaded stays. No-op for those that it has. Nothing that was made with the old backend may be
  /// used then.
  void compute_with(std::string_view backend, int n_threads);

  /// Loaded when first asked for, unless that was planned: token ids need none. Throws GgufError.
  const Tokenizer& tokenizer();

  /// Digests of the file, begun when first asked for, unless that was planned.
  ModelDigest& digest();

  /// From the start of the program on; those of a session are "program", "file", "device" and
  /// "weights", and whoever works with it goes on.
  StageTimes& times() { return times_; }

 private:
  void begin_reading();
  void begin_digest();
  void begin_tokenizer();
  void load_weights(std::string_view backend);

  StageTimes times_;
  SessionPlan plan_;
  std::filesystem::path path_;
  std::string backend_name_;  ///< as it was asked for
  int n_threads_;
  GgufFile file_;
  Model model_;
  std::unique_ptr<Tokenizer> tokenizer_;
  // These read the file until they are gone.
  std::jthread reading_;
  std::future<std::unique_ptr<Tokenizer>> loading_tokenizer_;
  std::unique_ptr<ModelDigest> digest_;
  std::unique_ptr<Backend> backend_;
  ModelWeights weights_;
};

/// True if more than half of the weights of the blocks are stored in 4 bits.
bool mostly_4bit(const Model& model);

}  // namespace greta
