#include "cli/output/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <system_error>

#include "common/exit_status.h"
#include "common/stop_signal.h"

namespace greta {
namespace {

using std::to_string;

constexpr size_t kMaxStem = 120;
constexpr size_t kHeldBytes = 64 * 1024;
constexpr std::string_view kNameCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

std::string safe_name(std::string_view text) {
  std::string name(text.substr(0, kMaxStem));
  for (char& c : name) {
    if (kNameCharacters.find(c) == std::string_view::npos) c = '_';
  }
  if (!name.empty() && (name[0] == '.' || name[0] == '-')) name[0] = '_';
  return name;
}

}  // namespace

std::string report_stem(std::string_view experiment, std::string_view run, bool alone) {
  std::string stem = safe_name(experiment);
  for (char& c : stem) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (stem.empty()) stem = "UNNAMED";
  if (alone) return stem;
  std::string rest;
  while (!run.empty()) {
    size_t slash = std::min(run.find('/'), run.size());
    std::string_view part = run.substr(0, slash);
    if (part != experiment) rest += "_" + std::string(part);
    run.remove_prefix(std::min(slash + 1, run.size()));
  }
  return safe_name(stem + rest);
}

std::string unique_name(std::set<std::string>& taken, const std::string& name) {
  auto key = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  };
  std::string candidate = name;
  for (int i = 2; !taken.insert(key(candidate)).second; i++) candidate = name + "_" + to_string(i);
  return candidate;
}

void throw_file_error(const std::filesystem::path& file, int error) {
  if (error == EEXIST) {
    throw UsageError(file.string() + " exists: give --force to replace it");
  }
  throw std::system_error(error, std::generic_category(), "cannot write " + file.string());
}

std::filesystem::path file_behind(std::filesystem::path name) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as the kernel follows
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(name, error)); ++i) {
    const fs::path target = fs::read_symlink(name, error);
    if (error) break;
    name = target.is_absolute() ? target : name.parent_path() / target;
  }
  const fs::path folder = name.has_parent_path() ? name.parent_path() : fs::path(".");
  const fs::path known = fs::weakly_canonical(folder, error);
  return (error ? fs::absolute(folder) : known) / name.filename();
}

void refuse_database_file(std::string_view option, const std::filesystem::path& file,
                          const std::filesystem::path& database) {
  const std::filesystem::path target = file_behind(file);
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    std::filesystem::path taken = file_behind(database);
    taken += suffix;
    std::error_code error;
    if (target != taken && !std::filesystem::equivalent(target, taken, error)) continue;
    throw UsageError(std::string(option) + " " + file.string() +
                     (*suffix == 0 ? " is the database" : " belongs to the database") +
                     ": name another file");
  }
}

NewFile::NewFile(std::filesystem::path file, bool force) : file_(std::move(file)), force_(force) {
  partial_ = file_;
  partial_ += ".partial-" + to_string(getpid());
  fd_ = open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_file_error(partial_, errno);
}

NewFile::~NewFile() {
  if (fd_ >= 0) close(fd_);
  if (!kept_) unlink(partial_.c_str());
}

void NewFile::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kHeldBytes) flush();
}

void NewFile::keep() {
  flush();
  int error = fsync(fd_) == 0 ? 0 : errno;
  if (close(std::exchange(fd_, -1)) != 0 && error == 0) error = errno;
  if (error) throw_file_error(file_, error);
  unsigned flags = force_ ? 0u : RENAME_NOREPLACE;
  if (renameat2(AT_FDCWD, partial_.c_str(), AT_FDCWD, file_.c_str(), flags) != 0) {
    throw_file_error(file_, errno);
  }
  kept_ = true;
}

void NewFile::flush() {
  for (std::string_view rest = buffer_; !rest.empty();) {
    ssize_t n = ::write(fd_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw_file_error(file_, errno);
    rest.remove_prefix(static_cast<size_t>(n));
  }
  buffer_.clear();
}

void write_files(std::string_view option, const std::filesystem::path& database, bool force,
                 const std::vector<std::pair<std::filesystem::path, FileContent>>& files) {
  for (const auto& [file, content] : files) {
    refuse_database_file(option, file, database);
    if (!force && std::filesystem::exists(std::filesystem::symlink_status(file)))
      throw_file_error(file, EEXIST);
  }
  for (const auto& [file, content] : files) {
    throw_if_stopped();
    NewFile target(file, force);
    content([&](std::string_view text) { target.write(text); });
    target.keep();
  }
}

}  // namespace greta
