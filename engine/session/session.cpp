#include "engine/session/session.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <system_error>
#include <utility>

#include "common/process.h"

namespace greta {
namespace {

/// Since this process began, as exactly as the system says it: to a tick of 10 ms.
double process_age() {
  const std::string start = this_process().start;
  const size_t blank = start.rfind(' ');
  const long per_second = ::sysconf(_SC_CLK_TCK);
  timespec now{};
  if (blank == std::string::npos || per_second <= 0 || ::clock_gettime(CLOCK_BOOTTIME, &now) != 0) {
    return 0;
  }
  const double ticks = std::strtod(start.c_str() + blank, nullptr);
  const double age = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9 -
                     ticks / static_cast<double>(per_second);
  return std::max(age, 0.0);
}

int thread_count(int n_threads) {
  if (n_threads > 0) return n_threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

StageTimes::StageTimes()
    : begin_(Clock::now() - std::chrono::duration_cast<Clock::duration>(
                                std::chrono::duration<double>(process_age()))) {}

void StageTimes::end(const std::string& name) {
  const Clock::time_point now = Clock::now();
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  begin_ = now;
  const auto same = std::find_if(stages_.begin(), stages_.end(),
                                 [&](const Stage& stage) { return stage.name == name; });
  if (same == stages_.end()) {
    stages_.push_back({name, seconds});
  } else {
    same->seconds += seconds;
  }
}

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
  backend_ = make_backend(backend, n_threads_, plan_.isa);
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
