#include "engine/gguf/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <ctime>
#include <mutex>
#include <system_error>
#include <tuple>
#include <type_traits>

#include "engine/gguf/parser.h"

namespace greta {

/// While it lives, pages of a private file mapping that the file no longer has read as zeros,
/// instead of ending the process by SIGBUS. At most kMaxGuards at a time; throws std::runtime_error
/// beyond. For any thread, and so is what reads the mapping.
class MappingGuard {
 public:
  MappingGuard(void* address, size_t size_bytes);
  ~MappingGuard();
  MappingGuard(const MappingGuard&) = delete;
  MappingGuard& operator=(const MappingGuard&) = delete;

  bool was_hit() const;  ///< somebody read what is not there

  static constexpr int kMaxGuards = 64;

 private:
  int slot_;
};

namespace {

/// State that the signal handler reads: no lock, no allocation. end is 0 where nothing is guarded.
struct GuardSlot {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0}, end{0};
  std::atomic<bool> hit{false};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free);

GuardSlot guard_slots[MappingGuard::kMaxGuards];
struct sigaction default_action;
uintptr_t page_bytes;

/// Zeros from the page at `at` to the end: behind a hole there is nothing but hole.
bool fill_hole(GuardSlot& slot, uintptr_t at, uintptr_t end) {
  const uintptr_t page = at & ~(page_bytes - 1);
  slot.hit.store(true);
  return ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

void on_bus_error(int, siginfo_t* info, void*) {
  const auto at = reinterpret_cast<uintptr_t>(info->si_addr);
  const bool sent = info->si_code <= 0;  // by a program, and not by reading
  for (GuardSlot& slot : guard_slots) {
    const uintptr_t end = slot.end.load();
    if (!sent && at >= slot.begin.load() && at < end && fill_hole(slot, at, end)) return;
  }
  // Not ours: it comes again, and is met as before.
  ::sigaction(SIGBUS, &default_action, nullptr);
  if (sent) ::raise(SIGBUS);
}

void install() {
  page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, &default_action);
}

constexpr std::array<Architecture, 3> kArchitectures{
    {{.name = "llama"},
     {.name = "qwen2", .pairing = RopePairing::kHalves, .has_qkv_bias = true},
     {.name = "qwen3", .pairing = RopePairing::kHalves, .has_qk_norm = true}}};

[[noreturn]] void fail_system(int error, const std::string& what, const std::string& file) {
  throw std::system_error(error, std::generic_category(), what + " " + file);
}

class FileDescriptor {
 public:
  explicit FileDescriptor(const std::filesystem::path& file)
      : fd_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // of a pipe: do not wait
    if (fd_ < 0) fail_system(errno, "cannot open", file.string());
  }
  ~FileDescriptor() { ::close(fd_); }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string_view kind_of(const GgufValue& value) {
  constexpr std::array<std::string_view, std::variant_size_v<GgufValue>> kKinds{
      "an unsigned integer", "a signed integer", "a real number", "a bool", "a string", "an array"};
  return kKinds[value.index()];
}

// Calls use(i, value) for every element of an array of numbers; false for one of bools or strings.
template <typename Use>
bool for_each_number(const GgufArray& array, Use&& use) {
  const auto each = [&]<typename T>(T) {
    for (uint64_t i = 0; i < array.count; ++i) {
      use(i, load_unaligned<T>(&array.data[i * sizeof(T)]));
    }
    return true;
  };
  switch (static_cast<GgufType>(array.element_type)) {
    case GgufType::kUint8:
      return each(uint8_t{});
    case GgufType::kInt8:
      return each(int8_t{});
    case GgufType::kUint16:
      return each(uint16_t{});
    case GgufType::kInt16:
      return each(int16_t{});
    case GgufType::kUint32:
      return each(uint32_t{});
    case GgufType::kInt32:
      return each(int32_t{});
    case GgufType::kFloat32:
      return each(float{});
    case GgufType::kUint64:
      return each(uint64_t{});
    case GgufType::kInt64:
      return each(int64_t{});
    case GgufType::kFloat64:
      return each(double{});
    default:
      return false;
  }
}

bool has_reals(const GgufArray& array) {
  return array.element_type == static_cast<uint32_t>(GgufType::kFloat32) ||
         array.element_type == static_cast<uint32_t>(GgufType::kFloat64);
}

}  // namespace

MappingGuard::MappingGuard(void* address, size_t size_bytes) : slot_(0) {
  static std::once_flag installed;
  std::call_once(installed, install);
  while (slot_ < kMaxGuards && guard_slots[slot_].taken.exchange(true)) ++slot_;
  if (slot_ == kMaxGuards) throw std::runtime_error("too many model files are open");
  GuardSlot& slot = guard_slots[slot_];
  slot.hit.store(false);
  slot.begin.store(reinterpret_cast<uintptr_t>(address));
  slot.end.store(slot.begin.load() + size_bytes);
}

MappingGuard::~MappingGuard() {
  guard_slots[slot_].end.store(0);
  guard_slots[slot_].taken.store(false);
}

bool MappingGuard::was_hit() const { return guard_slots[slot_].hit.load(); }

std::span<const Architecture> architectures() { return kArchitectures; }

std::string architecture_names() {
  std::string names;
  for (const Architecture& architecture : kArchitectures) {
    names.append(names.empty() ? "" : ", ").append(architecture.name);
  }
  return names;
}

const Architecture* find_architecture(std::string_view name) {
  const auto found = std::ranges::find(kArchitectures, name, &Architecture::name);
  return found == kArchitectures.end() ? nullptr : &*found;
}

struct GgufFile::Mapping {
  explicit Mapping(const std::filesystem::path& file) : fd(file) {
    struct stat status {};
    if (::fstat(fd.get(), &status) != 0) fail_system(errno, "cannot examine", file.string());
    if (S_ISDIR(status.st_mode)) fail_system(EISDIR, "cannot read", file.string());
    if (!S_ISREG(status.st_mode)) fail_system(EINVAL, "cannot map what is no file:", file.string());
    size_bytes = static_cast<size_t>(status.st_size);
    if (size_bytes == 0) return;  // nothing can be mapped; the parser says so
    void* mapped = ::mmap(nullptr, size_bytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (mapped == MAP_FAILED) fail_system(errno, "cannot map", file.string());
    address = mapped;
    guard.emplace(address, size_bytes);
  }
  ~Mapping() {
    guard.reset();
    if (address != nullptr) ::munmap(address, size_bytes);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::span<const std::byte> bytes() const {
    return {static_cast<const std::byte*>(address), size_bytes};
  }

  /// The size tells of a cut inside the last page, which raises no signal; the guard of one that
  /// was undone since, as when the file was written anew.
  bool is_cut() const {
    struct stat status {};
    return (guard && guard->was_hit()) || ::fstat(fd.get(), &status) != 0 ||
           static_cast<size_t>(status.st_size) < size_bytes;
  }

  FileDescriptor fd;
  void* address = nullptr;
  size_t size_bytes = 0;
  std::optional<MappingGuard> guard;
};

GgufFile::GgufFile() = default;
GgufFile::~GgufFile() = default;
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;

GgufFile GgufFile::open(const std::filesystem::path& path) {
  GgufFile file;
  file.mapping_ = std::make_unique<Mapping>(path);
  file.bytes_ = file.mapping_->bytes();
  file.name_ = path.string();
  try {
    GgufParser(file).parse();
  } catch (const GgufError&) {
    file.check_whole();  // says why
    throw;
  }
  file.check_whole();
  return file;
}

GgufFile GgufFile::parse(std::span<const std::byte> bytes, std::string name) {
  GgufFile file;
  file.bytes_ = bytes;
  file.name_ = std::move(name);
  GgufParser(file).parse();
  return file;
}

void GgufFile::read_ahead(const std::stop_token& stop) const {
  constexpr size_t kStepBytes = size_t{64} << 20;
  if (mapping_ == nullptr) return;
  auto* const begin = static_cast<std::byte*>(mapping_->address);
  for (size_t at = 0; at < mapping_->size_bytes && !stop.stop_requested(); at += kStepBytes) {
    // Only advice, so a refusal does not matter.
    ::madvise(begin + at, std::min(kStepBytes, mapping_->size_bytes - at), MADV_WILLNEED);
  }
}

void GgufFile::check_whole() const {
  if (mapping_ == nullptr || !mapping_->is_cut()) return;
  throw GgufError(name_ + ": was cut short while it was in use; what it held is lost");
}

bool FileStamp::same_file(const FileStamp& other) const {
  const auto all = [](const FileStamp& stamp) {
    return std::tuple(stamp.size_bytes, stamp.modified_ns, stamp.changed_ns, stamp.inode,
                      stamp.device);
  };
  return all(*this) == all(other);
}

std::optional<FileStamp> GgufFile::stamp() const {
  struct stat status {};
  if (mapping_ == nullptr || ::fstat(mapping_->fd.get(), &status) != 0) return std::nullopt;
  const auto nanoseconds = [](const timespec& time) {
    return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return FileStamp{.size_bytes = status.st_size,
                   .modified_ns = nanoseconds(status.st_mtim),
                   .changed_ns = nanoseconds(status.st_ctim),
                   .inode = status.st_ino,
                   .device = status.st_dev,
                   .seen_ns = nanoseconds(now)};
}

void GgufFile::fail(std::string_view key, const std::string& what) const {
  throw GgufError(name_ + ": metadata key " + gguf_quoted(key) + ": " + what);
}

void GgufFile::fail_kind(std::string_view key, std::string_view wanted) const {
  fail(key, "is " + std::string(kind_of(*find(key))) + ", must be " + std::string(wanted));
}

const GgufValue* GgufFile::find(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &metadata_[found->second].second;
}

const GgufTensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

const GgufValue& GgufFile::require(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) fail(key, "is missing; the file does not describe the model completely");
  return *value;
}

uint64_t GgufFile::unsigned_value(std::string_view key, std::optional<uint64_t> or_else) const {
  if (or_else && find(key) == nullptr) return *or_else;
  const GgufValue& value = require(key);
  if (const auto* number = std::get_if<uint64_t>(&value)) return *number;
  const auto* number = std::get_if<int64_t>(&value);
  if (number == nullptr) fail_kind(key, "an unsigned integer");
  if (*number < 0) fail(key, "is " + std::to_string(*number) + ", must not be negative");
  return static_cast<uint64_t>(*number);
}

double GgufFile::real_value(std::string_view key, std::optional<double> or_else) const {
  if (or_else && find(key) == nullptr) return *or_else;
  const auto* number = std::get_if<double>(&require(key));
  if (number == nullptr) fail_kind(key, "a real number");
  if (!std::isfinite(*number)) fail(key, "is not finite");
  return *number;
}

bool GgufFile::bool_value(std::string_view key, bool or_else) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return or_else;
  const auto* flag = std::get_if<bool>(value);
  if (flag == nullptr) fail_kind(key, "a bool");
  return *flag;
}

std::string_view GgufFile::string_value(std::string_view key,
                                        std::optional<std::string_view> or_else) const {
  if (or_else && find(key) == nullptr) return *or_else;
  const auto* text = std::get_if<std::string_view>(&require(key));
  if (text == nullptr) fail_kind(key, "a string");
  return *text;
}

const GgufArray* GgufFile::array_value(std::string_view key) const {
  const GgufValue* value = find(key);
  if (value == nullptr) return nullptr;
  const auto* array = std::get_if<GgufArray>(value);
  if (array == nullptr) fail_kind(key, "an array");
  return array;
}

const GgufArray& GgufFile::require_array(std::string_view key) const {
  require(key);
  return *array_value(key);
}

std::vector<float> GgufFile::float_array(std::string_view key) const {
  const GgufArray& array = require_array(key);
  if (!has_reals(array)) {
    fail(key, "has elements of type " + std::string(gguf_type_name(array.element_type)) +
                  ", must have real numbers");
  }
  std::vector<float> values(array.count);
  for_each_number(array, [&](uint64_t i, auto value) {
    if (value != value) fail(key, "element " + std::to_string(i) + " is NaN");
    values[i] = static_cast<float>(value);
  });
  return values;
}

std::vector<int32_t> GgufFile::int_array(std::string_view key) const {
  const GgufArray& array = require_array(key);
  std::vector<int32_t> values;
  const bool is_integer = !has_reals(array) && for_each_number(array, [&](uint64_t i, auto value) {
    if constexpr (std::is_integral_v<decltype(value)>) {
      if (!std::in_range<int32_t>(value)) {
        fail(key, "element " + std::to_string(i) + " is " + std::to_string(value) +
                      ", which 32 bits do not hold");
      }
      values.push_back(static_cast<int32_t>(value));
    }
  });
  if (!is_integer) {
    fail(key, "has elements of type " + std::string(gguf_type_name(array.element_type)) +
                  ", must have integers");
  }
  return values;
}

}  // namespace greta
