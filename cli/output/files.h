#pragma once
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace greta {

/// Name of report files without their ending: the experiment in capitals, and where that is not
/// enough (`alone` is false) the rest of the run's name. Only A-Z a-z 0-9 _ . -, no leading dot
/// or dash.
std::string report_stem(std::string_view experiment, std::string_view run, bool alone);

/// `name`, or the next free name_2, name_3, ...; letter case does not tell names apart.
std::string unique_name(std::set<std::string>& taken, const std::string& name);

/// Throws UsageError for EEXIST, which --force would allow, else std::system_error.
[[noreturn]] void throw_file_error(const std::filesystem::path& file, int error);

/// The file that a name leads to, through links, whether it is there or not.
std::filesystem::path file_behind(std::filesystem::path name);

/// Throws UsageError where writing to `file` would destroy the database: it is that file, or one
/// that SQLite keeps beside it, by whatever name. `option`: what was given it.
void refuse_database_file(std::string_view option, const std::filesystem::path& file,
                          const std::filesystem::path& database);

/// A file that appears whole or not at all. Without `force` it is created only where none is. Its
/// members throw as throw_file_error does.
class NewFile {
 public:
  NewFile(std::filesystem::path file, bool force);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(std::string_view text);

  /// Makes it appear; without this call nothing is left of it.
  void keep();

 private:
  void flush();

  std::filesystem::path file_, partial_;
  bool force_, kept_ = false;
  int fd_ = -1;
  std::string buffer_;
};

/// What a file gets, piece by piece.
using FileContent = std::function<void(const std::function<void(std::string_view)>&)>;

/// Writes files whole. Refuses before the first is written: one that is there, without `force`, and
/// the database, as refuse_database_file() does. `option`: what named them.
void write_files(std::string_view option, const std::filesystem::path& database, bool force,
                 const std::vector<std::pair<std::filesystem::path, FileContent>>& files);

}  // namespace greta
