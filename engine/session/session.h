#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "engine/forward/backend.h"
#include "engine/forward/model.h"
#include "engine/gguf/file.h"
#include "engine/session/background_digest.h"
#include "engine/tokenizer/tokenizer.h"

namespace greta {

/// A model made ready to run: its file, weights in the memory of a backend, vocabulary.
class Session {
 public:
  /// n_threads 0: as many as there are cores. Throws GgufError, std::system_error for a file that
  /// cannot be read, std::invalid_argument as make_backend (engine/session/backends.h) does.
  Session(const std::filesystem::path& file, std::string_view backend, int n_threads);
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

  /// Loaded when first asked for, since token ids need none. Throws GgufError.
  const Tokenizer& tokenizer();

  /// SHA-256 of the file, begun when first asked for.
  BackgroundDigest& digest();

 private:
  std::filesystem::path path_;
  std::string backend_name_;  ///< as it was asked for
  int n_threads_;
  GgufFile file_;
  Model model_;
  std::unique_ptr<Backend> backend_;
  ModelWeights weights_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<BackgroundDigest> digest_;  // last: it reads the file until it is gone
};

/// Whether more than half of the weights of the blocks are stored in 4 bits.
bool mostly_4bit(const Model& model);

}  // namespace greta
