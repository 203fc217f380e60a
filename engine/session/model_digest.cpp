#include "engine/session/model_digest.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

namespace greta {
namespace {

constexpr int kMaxThreads = 16;  // more wait for memory
constexpr int kLeastPriority = 19;
constexpr size_t kFilePieceBytes = size_t{4} << 20;

}  // namespace

ModelDigest::ModelDigest(const GgufFile& file, std::filesystem::path path, int n_threads,
                         bool with_sha256, DigestCache cache)
    : file_(file),
      path_(std::move(path)),
      cache_(std::move(cache)),
      stamp_(file.stamp()),
      root_(file) {
  if (stamp_) digests_ = cache_.find(path_, *stamp_);
  if (digests_ && with_sha256 && digests_->file_sha256.empty()) digests_.reset();
  if (digests_) return;
  to_end_ = root_.n_pieces();
  for (size_t i = 0; i < root_.n_pieces(); ++i) {
    size_bytes_ += static_cast<int64_t>(root_.bytes_of(i));
  }
  if (with_sha256) {
    file_sha_.emplace();
    ++to_end_;
    size_bytes_ += static_cast<int64_t>(file.bytes().size());
  }
  const size_t most = std::min({static_cast<size_t>(std::max(n_threads, 1)), to_end_.load(),
                                static_cast<size_t>(kMaxThreads)});
  try {
    for (size_t i = 0; i < most; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {  // get() works along
  }
}

ModelDigest::~ModelDigest() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
}

/// What a thread does.
void ModelDigest::work() {
  // Both are of this thread alone, on Linux. When they are refused it is merely less modest.
  constexpr sched_param kNone{};
  if (::sched_setscheduler(0, SCHED_IDLE, &kNone) != 0) {
    static_cast<void>(::setpriority(PRIO_PROCESS, 0, kLeastPriority));
  }
  while (step()) {
  }
}

/// Hashes one piece. False when there is none left to begin.
bool ModelDigest::step() {
  if (stop_) return false;
  try {
    if (step_of_file()) return true;
    const size_t piece = next_++;
    if (piece >= root_.n_pieces()) return false;
    root_.hash(piece);
    done_bytes_ += static_cast<int64_t>(root_.bytes_of(piece));
  } catch (...) {
    const std::lock_guard lock(ended_mutex_);
    if (!error_) error_ = std::current_exception();
    stop_ = true;
    ended_.notify_all();
    return false;
  }
  finish();
  return true;
}

/// The next piece of the file's own SHA-256, which is one chain. False when there is none, or
/// another thread is at it.
bool ModelDigest::step_of_file() {
  if (!file_sha_) return false;
  const std::unique_lock lock(file_busy_, std::try_to_lock);
  const std::span<const std::byte> bytes = file_.bytes();
  if (!lock || file_at_ == bytes.size()) return false;
  const size_t count = std::min(kFilePieceBytes, bytes.size() - file_at_);
  file_sha_->update(bytes.data() + file_at_, count);
  file_at_ += count;
  done_bytes_ += static_cast<int64_t>(count);
  if (file_at_ == bytes.size()) finish();
  return true;
}

/// One of to_end_ has ended.
void ModelDigest::finish() {
  if (--to_end_ > 0) return;
  const std::lock_guard lock(ended_mutex_);
  ended_.notify_all();
}

bool ModelDigest::advance(int timeout_ms) {
  if (digests_) return true;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (std::chrono::steady_clock::now() < end && step()) {
  }
  std::unique_lock lock(ended_mutex_);
  return ended_.wait_until(lock, end, [this] { return error_ || to_end_ == 0; });
}

const ModelDigests& ModelDigest::get() {
  constexpr int kLong = 1000;
  while (!advance(kLong)) {
  }
  if (error_) std::rethrow_exception(error_);
  if (!digests_) {
    digests_ = {root_.hex(), file_sha_ ? file_sha_->hex() : ""};
    const std::optional<FileStamp> now = file_.stamp();
    if (stamp_ && now && now->same_file(*stamp_)) cache_.keep(path_, *stamp_, *digests_);
  }
  return *digests_;
}

}  // namespace greta
