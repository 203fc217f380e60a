#include "engine/session/session.h"

#include <algorithm>
#include <thread>

#include "engine/session/backends.h"

namespace greta {
namespace {

int thread_count(int n_threads) {
  if (n_threads > 0) return n_threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

Session::Session(const std::filesystem::path& file, std::string_view backend, int n_threads)
    : path_(file),
      backend_name_(backend),
      n_threads_(thread_count(n_threads)),
      file_(GgufFile::open(file)),
      model_(file_),
      backend_(make_backend(backend, n_threads_)),
      weights_(upload_weights(model_, *backend_)) {
  model_.check_whole();
}

void Session::compute_with(std::string_view backend, int n_threads) {
  const int count = thread_count(n_threads);
  if (backend == backend_name_ && count == n_threads_) return;
  weights_ = {};  // a device has no room for two
  backend_.reset();
  backend_ = make_backend(backend, count);
  weights_ = upload_weights(model_, *backend_);
  backend_name_ = backend;
  n_threads_ = count;
}

const Tokenizer& Session::tokenizer() {
  if (!tokenizer_) tokenizer_ = Tokenizer::load(file_);
  return *tokenizer_;
}

BackgroundDigest& Session::digest() {
  if (!digest_) digest_ = std::make_unique<BackgroundDigest>(file_.bytes());
  return *digest_;
}

bool mostly_4bit(const Model& model) {
  int64_t in_4_bits = 0;
  int64_t all = 0;
  for (const LayerWeights& layer : model.weights().layers) {
    for (const Matrix* w :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      const int64_t n = w->rows * w->cols;
      all += n;
      const bool in_4 = w->type == WeightType::kQ4_0 || w->type == WeightType::kQ4_1 ||
                        w->type == WeightType::kQ4_K || w->type == WeightType::kIQ4_NL;
      if (in_4) in_4_bits += n;
    }
  }
  return 2 * in_4_bits > all;
}

}  // namespace greta
