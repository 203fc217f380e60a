#include "engine/gguf/writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "engine/gguf/parser.h"

namespace greta {
namespace {

constexpr uint64_t kAlignment = 32;  // the format's default, which needs no general.alignment
constexpr size_t kMaxDims = 4;

uint64_t align(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// A file that has its final name only once it is complete.
class PendingFile {
 public:
  explicit PendingFile(std::filesystem::path file) : file_(std::move(file)) {
    static std::atomic<uint64_t> count{0};
    // Unlike what another process, or another thread of this one, may be writing.
    partial_ = file_;
    partial_ += ".partial-" + std::to_string(::getpid()) + "-" + std::to_string(++count);
    fd_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd_ < 0) fail("cannot create", partial_);
  }
  ~PendingFile() {
    if (fd_ >= 0) ::close(fd_);
    if (!partial_.empty()) ::unlink(partial_.c_str());
  }
  PendingFile(const PendingFile&) = delete;
  PendingFile& operator=(const PendingFile&) = delete;

  void write(const void* data, size_t size) {
    const char* bytes = static_cast<const char*>(data);
    while (size > 0) {
      const ssize_t written = ::write(fd_, bytes, size);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("cannot write", partial_);
      bytes += written;
      size -= static_cast<size_t>(written);
    }
  }

  void commit() {
    if (::fsync(fd_) != 0) fail("cannot write", partial_);
    const int closed = ::close(fd_);
    fd_ = -1;
    if (closed != 0) fail("cannot write", partial_);
    if (::rename(partial_.c_str(), file_.c_str()) != 0) fail("cannot create", file_);
    partial_.clear();
  }

 private:
  [[noreturn]] static void fail(const std::string& what, const std::filesystem::path& file) {
    throw std::system_error(errno, std::generic_category(), what + " " + file.string());
  }

  std::filesystem::path file_, partial_;
  int fd_ = -1;
};

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error("GgufWriter: " + what);
}

template <typename T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& to, std::string_view text) {
  append<uint64_t>(to, text.size());
  to += text;
}

// Stored size of a tensor of these dimensions; refuses what the format cannot say.
uint64_t tensor_bytes(const std::string& name, const WeightTypeInfo& info,
                      std::span<const int64_t> dims) {
  require(!dims.empty() && dims.size() <= kMaxDims, name + " must have 1 to 4 dimensions");
  int64_t n_values = 1;
  for (const int64_t dim : dims) {
    // 8 bytes a value are more than any type takes.
    require(
        dim > 0 && dim <= std::numeric_limits<int64_t>::max() / 8 / n_values,
        name + " has dimension " + std::to_string(dim) + ", which is not positive or too large");
    n_values *= dim;
  }
  require(static_cast<uint64_t>(dims[0]) % info.block_values == 0,
          name + " has rows that do not fill whole blocks of " + std::string(info.name));
  return static_cast<uint64_t>(n_values) / info.block_values * info.block_bytes;
}

}  // namespace

struct GgufWriter::State {
  struct Tensor {
    std::string name;
    uint64_t n_bytes;
  };

  explicit State(std::filesystem::path path) : file(std::move(path)) {}

  void begin_entry(std::string_view key, GgufType type) {
    require(!writing, "metadata must come before tensor data");
    require(!key.empty() && keys.emplace(key).second, "key '" + std::string(key) + "' is taken");
    append_string(metadata, key);
    append(metadata, type);
    ++n_entries;
  }

  void begin_array(std::string_view key, GgufType element, size_t count) {
    begin_entry(key, GgufType::kArray);
    append(metadata, element);
    append<uint64_t>(metadata, count);
  }

  // Everything before the data, once it can no longer change.
  void write_head() {
    if (writing) return;
    writing = true;
    std::string head = "GGUF";
    append<uint32_t>(head, 3);
    append<uint64_t>(head, tensors.size());
    append<uint64_t>(head, n_entries);
    head += metadata;
    head += infos;
    head.resize(align(head.size()));
    file.write(head.data(), head.size());
  }

  PendingFile file;
  std::unordered_set<std::string> keys, names;
  std::string metadata, infos;
  uint64_t n_entries = 0;
  uint64_t data_bytes = 0;  ///< of the declared tensors, with their padding
  std::vector<Tensor> tensors;
  bool writing = false;
  size_t at = 0;         ///< tensor that is being written
  uint64_t written = 0;  ///< bytes of it
};

GgufWriter::GgufWriter(std::filesystem::path file)
    : state_(std::make_unique<State>(std::move(file))) {}

GgufWriter::~GgufWriter() = default;

void GgufWriter::add_uint32(std::string_view key, uint32_t value) {
  state_->begin_entry(key, GgufType::kUint32);
  append(state_->metadata, value);
}

void GgufWriter::add_float32(std::string_view key, float value) {
  state_->begin_entry(key, GgufType::kFloat32);
  append(state_->metadata, value);
}

void GgufWriter::add_bool(std::string_view key, bool value) {
  state_->begin_entry(key, GgufType::kBool);
  append<uint8_t>(state_->metadata, value ? 1 : 0);
}

void GgufWriter::add_string(std::string_view key, std::string_view value) {
  state_->begin_entry(key, GgufType::kString);
  append_string(state_->metadata, value);
}

void GgufWriter::add_strings(std::string_view key, std::span<const std::string> values) {
  state_->begin_array(key, GgufType::kString, values.size());
  for (const std::string& value : values) append_string(state_->metadata, value);
}

void GgufWriter::add_floats(std::string_view key, std::span<const float> values) {
  state_->begin_array(key, GgufType::kFloat32, values.size());
  for (const float value : values) append(state_->metadata, value);
}

void GgufWriter::add_int32s(std::string_view key, std::span<const int32_t> values) {
  state_->begin_array(key, GgufType::kInt32, values.size());
  for (const int32_t value : values) append(state_->metadata, value);
}

void GgufWriter::add_bools(std::string_view key, const std::vector<bool>& values) {
  state_->begin_array(key, GgufType::kBool, values.size());
  for (const bool value : values) append<uint8_t>(state_->metadata, value ? 1 : 0);
}

void GgufWriter::declare(std::string_view name, WeightType type, std::span<const int64_t> dims) {
  const std::string label = "tensor '" + std::string(name) + "'";
  require(!state_->writing, label + " must be declared before tensor data");
  const uint64_t n_bytes = tensor_bytes(label, weight_type_info(type), dims);
  require(!name.empty() && state_->names.emplace(name).second, label + " is taken");
  append_string(state_->infos, name);
  append(state_->infos, static_cast<uint32_t>(dims.size()));
  for (const int64_t dim : dims) append(state_->infos, dim);
  append(state_->infos, type);
  append(state_->infos, state_->data_bytes);
  state_->data_bytes += align(n_bytes);
  state_->tensors.push_back({label, n_bytes});
}

void GgufWriter::write(std::span<const std::byte> data) {
  State& s = *state_;
  s.write_head();
  require(s.at < s.tensors.size(), "more data than was declared");
  const State::Tensor& tensor = s.tensors[s.at];
  require(data.size() <= tensor.n_bytes - s.written, "data runs past the end of " + tensor.name);
  s.file.write(data.data(), data.size());
  s.written += data.size();
  if (s.written < tensor.n_bytes) return;
  const std::string padding(align(s.written) - s.written, '\0');
  s.file.write(padding.data(), padding.size());
  s.written = 0;
  ++s.at;
}

void GgufWriter::finish() {
  state_->write_head();
  require(state_->at == state_->tensors.size(),
          state_->at < state_->tensors.size() ? state_->tensors[state_->at].name + " is incomplete"
                                              : "");
  state_->file.commit();
}

}  // namespace greta
