#include "engine/session/model_digest.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "common/environment.h"
#include "common/hex.h"

namespace greta {
namespace {

/// True if results follow from it. An unknown key does, for all that anybody can tell; templates
/// of chats do not, which only write prompts.
bool decides_results(std::string_view key, const std::string& architecture) {
  if (key == "tokenizer.chat_template" || key.starts_with("tokenizer.chat_template.")) return false;
  return key == "general.architecture" || key.starts_with(architecture + ".") ||
         key.starts_with("tokenizer.");
}

void put(std::string& to, uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(number >> (8 * i));
}

void put_text(std::string& to, std::string_view text) {
  put(to, text.size(), 8);
  to += text;
}

void put_digest(std::string& to, const Sha256::Digest& digest) {
  to.append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void put_value(std::string& to, const GgufValue& value) {
  put(to, value.index(), 1);
  struct Visitor {
    std::string& to;
    void operator()(uint64_t v) const { put(to, v, 8); }
    void operator()(int64_t v) const { put(to, static_cast<uint64_t>(v), 8); }
    void operator()(double v) const { put(to, std::bit_cast<uint64_t>(v), 8); }
    void operator()(bool v) const { put(to, v ? 1 : 0, 1); }
    void operator()(std::string_view v) const { put_text(to, v); }
    void operator()(const GgufArray& v) const {
      put(to, v.element_type, 4);
      put(to, v.count, 8);
      to += text_of(v.data);
      for (const std::string_view one : v.strings) put_text(to, one);
    }
  };
  std::visit(Visitor{to}, value);
}

/// First bytes of a file's entry: anything else is not an entry of this file as it is.
std::string head_of(const std::string& path, const FileStamp& stamp) {
  return "greta model digests 1\nsize " + std::to_string(stamp.size_bytes) + "\nmodified " +
         std::to_string(stamp.modified_ns) + "\nchanged " + std::to_string(stamp.changed_ns) +
         "\ninode " + std::to_string(stamp.inode) + "\ndevice " + std::to_string(stamp.device) +
         "\npath " + std::to_string(path.size()) + " " + path + "\n";
}

std::string text_of(const std::string& head, const ModelDigests& digests) {
  std::string text = head + "root " + digests.root + "\n";
  if (!digests.file_sha256.empty()) text += "sha256 " + digests.file_sha256 + "\n";
  return text + "check " + Sha256::hex_of(text) + "\n";
}

/// Content of a regular file; empty when there is none.
std::string read_entry(const std::filesystem::path& file) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(file, error)) return "";
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The file under the name that it has everywhere, for one entry; empty when there is none.
std::string name_of(const std::filesystem::path& file) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::canonical(file, error);
  return error ? "" : path.string();
}

std::filesystem::path entry_of(const std::filesystem::path& folder, const std::string& path) {
  return folder / Sha256::hex_of(path).substr(0, 32);
}

constexpr int kMaxThreads = 16;  // more wait for memory
constexpr int kLeastPriority = 19;
constexpr size_t kFilePieceBytes = size_t{4} << 20;

}  // namespace

ModelRoot::ModelRoot(const GgufFile& file) {
  const std::string architecture(file.string_value("general.architecture", ""));
  for (const auto& [key, value] : file.metadata()) {
    if (decides_results(key, architecture)) values_.push_back({key, &value, {}});
  }
  std::sort(values_.begin(), values_.end(),
            [](const Value& a, const Value& b) { return a.key < b.key; });
  // Pieces in the order of the file, which is how it is read.
  std::vector<const GgufTensor*> in_file;
  for (const GgufTensor& tensor : file.tensors()) in_file.push_back(&tensor);
  std::sort(in_file.begin(), in_file.end(),
            [](const auto* a, const auto* b) { return a->data.data() < b->data.data(); });
  for (const GgufTensor* tensor : in_file) {
    tensors_.push_back({tensor, pieces_.size()});
    for (size_t at = 0; at < tensor->data.size(); at += kPieceBytes) {
      pieces_.push_back(
          {tensor->data.subspan(at, std::min(kPieceBytes, tensor->data.size() - at)), {}});
    }
  }
  std::sort(tensors_.begin(), tensors_.end(),
            [](const Tensor& a, const Tensor& b) { return a.tensor->name < b.tensor->name; });
}

size_t ModelRoot::bytes_of(size_t piece) const {
  return piece < values_.size() ? 0 : pieces_[piece - values_.size()].data.size();
}

void ModelRoot::hash(size_t piece) {
  if (piece >= values_.size()) {
    Piece& one = pieces_[piece - values_.size()];
    one.digest = Sha256::digest_of(text_of(one.data));
    return;
  }
  Value& one = values_[piece];
  std::string text = "greta model 1 value";
  put_text(text, one.key);
  put_value(text, *one.value);
  one.digest = Sha256::digest_of(text);
}

std::string ModelRoot::hex() const {
  std::string all = "greta model 1";
  put(all, values_.size(), 8);
  for (const Value& value : values_) put_digest(all, value.digest);
  put(all, tensors_.size(), 8);
  for (const Tensor& tensor : tensors_) {
    std::string text = "greta model 1 tensor";
    put_text(text, tensor.tensor->name);
    put(text, static_cast<uint64_t>(tensor.tensor->type), 4);
    for (const int64_t dim : tensor.tensor->dims) put(text, static_cast<uint64_t>(dim), 8);
    const size_t n_bytes = tensor.tensor->data.size();
    put(text, n_bytes, 8);
    for (size_t i = 0; i * kPieceBytes < n_bytes; ++i) {
      put_digest(text, pieces_[tensor.first_piece + i].digest);
    }
    put_digest(all, Sha256::digest_of(text));
  }
  return Sha256::hex_of(all);
}

DigestCache DigestCache::usual() {
  for (const auto& [variable, below] :
       {std::pair{"XDG_CACHE_HOME", "greta/models"}, {"HOME", ".cache/greta/models"}}) {
    const std::filesystem::path folder = environment_variable(variable);
    if (folder.is_absolute()) return DigestCache(folder / below);
  }
  return {};
}

std::optional<ModelDigests> DigestCache::find(const std::filesystem::path& file,
                                              const FileStamp& stamp) const {
  const std::string path = folder_.empty() ? "" : name_of(file);
  if (path.empty()) return std::nullopt;
  const std::string head = head_of(path, stamp);
  const std::string entry = read_entry(entry_of(folder_, path));
  if (!entry.starts_with(head)) return std::nullopt;
  ModelDigests digests;
  std::istringstream lines(entry.substr(head.size()));
  for (std::string name, digest; lines >> name >> digest;) {
    if (name == "root") digests.root = digest;
    if (name == "sha256") digests.file_sha256 = digest;
  }
  if (entry != text_of(head, digests)) return std::nullopt;  // damaged
  return digests;
}

void DigestCache::keep(const std::filesystem::path& file, const FileStamp& stamp,
                       const ModelDigests& digests) const {
  const std::string path = folder_.empty() ? "" : name_of(file);
  if (path.empty() || stamp.seen_ns - std::max(stamp.modified_ns, stamp.changed_ns) < kSettledNs) {
    return;
  }
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  const std::filesystem::path entry = entry_of(folder_, path);
  // Under a name of its own first: a reader finds all of it or what was there before.
  const std::string made = entry.string() + "." + std::to_string(::getpid());
  std::ofstream out(made, std::ios::binary);
  out << text_of(head_of(path, stamp), digests);
  out.close();
  if (out) std::filesystem::rename(made, entry, error);
  if (!out || error) std::filesystem::remove(made, error);
}

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
