#include "engine/session/session.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <utility>

#include "engine/session/backends.h"

namespace greta {
namespace {

int thread_count(int n_threads) {
  if (n_threads > 0) return n_threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

Session::Session(const std::filesystem::path& file, std::string_view backend, int n_threads,
                 SessionPlan plan)
    : plan_(std::move(plan)),
      path_(file),
      backend_name_(backend),
      n_threads_(thread_count(n_threads)),
      file_((times_.end("program"), GgufFile::open(file))),
      model_(file_) {
  times_.end("file");
  begin_reading();
  if (plan_.digest) begin_digest();
  if (plan_.tokenizer) begin_tokenizer();
  load_weights(backend);
}

void Session::begin_reading() {
  try {
    reading_ = std::jthread([this](const std::stop_token& stop) { file_.read_ahead(stop); });
  } catch (const std::system_error&) {  // no thread: it is read where it is used
  }
}

void Session::begin_digest() {
  digest_ =
      std::make_unique<ModelDigest>(file_, path_, n_threads_, plan_.file_sha256, plan_.digests);
}

void Session::begin_tokenizer() {
  try {
    loading_tokenizer_ = std::async(std::launch::async, [this] { return Tokenizer::load(file_); });
  } catch (const std::system_error&) {  // no thread: it is loaded when it is asked for
  }
}

void Session::load_weights(std::string_view backend) {
  backend_ = make_backend(backend, n_threads_);
  times_.end("device");
  weights_ = upload_weights(model_, *backend_, plan_.on_load);
  model_.check_whole();
  times_.end("weights");
}

void Session::compute_with(std::string_view backend, int n_threads) {
  const int count = thread_count(n_threads);
  if (backend == backend_name_ && count == n_threads_) return;
  weights_ = {};  // a device has no room for two
  backend_.reset();
  n_threads_ = count;
  load_weights(backend);
  backend_name_ = backend;
}

const Tokenizer& Session::tokenizer() {
  if (!tokenizer_) {
    tokenizer_ = loading_tokenizer_.valid() ? loading_tokenizer_.get() : Tokenizer::load(file_);
  }
  return *tokenizer_;
}

ModelDigest& Session::digest() {
  if (!digest_) begin_digest();
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
