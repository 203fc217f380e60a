#include "ingest/importer.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include <algorithm>
#include <future>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "common/thread.h"
#include "db/database.h"
#include "ingest/content/archive.h"
#include "ingest/content/reader.h"
#include "ingest/content_importer.h"
#include "ingest/opened_content.h"
#include "ingest/session.h"
#include "ingest/text.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

/// A file that an ingest was given, or found below a directory.
struct Input {
  fs::path path;
  int64_t bytes = 0;
  std::string not_read = {};  ///< why it is not even opened
  bool is_error = false;
};

/// Which links below a directory are followed.
enum class Links {
  kWithin,  ///< to files of the same directory tree; what else they lead to nobody named
  kAll,     ///< out of it too, into directories as well, each of which is read once
};

bool is_below(const fs::path& path, const fs::path& root) {
  return std::mismatch(root.begin(), root.end(), path.begin(), path.end()).first == root.end();
}

/// True for a path, without links, of the kernel's. /dev/shm holds files as /tmp does.
bool is_of_kernel(const fs::path& path) {
  if (is_below(path, "/dev/shm")) return false;
  for (const char* root : {"/proc", "/sys", "/dev"}) {
    if (is_below(path, root)) return true;
  }
  struct statfs there {};
  return statfs(path.c_str(), &there) == 0 &&
         (there.f_type == PROC_SUPER_MAGIC || there.f_type == SYSFS_MAGIC);
}

/// Why what lies at a path without links is not read; "" for a file or a directory.
std::string obstacle(const fs::path& path, const fs::file_status& status) {
  if (is_of_kernel(path)) return "what the kernel shows as files is not read";
  switch (status.type()) {
    case fs::file_type::regular:
    case fs::file_type::directory:
      return "";
    case fs::file_type::fifo:
      return "a FIFO is not read";
    case fs::file_type::socket:
      return "a socket is not read";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device is not read";
    default:
      return "neither a file nor a directory";
  }
}

/// True if what is not read behind it would be missed in a verdict.
bool is_called_a_trace(const fs::path& path) {
  const std::string extension = lower_extension(path.string());
  return extension == ".jsonl" || extension == ".ndjson" || extension == ".tgz" ||
         extension == ".tar";
}

/// Inputs below one directory that was named.
class Tree {
 public:
  Tree(const fs::path& root, Links links) : root_(fs::canonical(root)), links_(links) {
    list_directory(root);
    std::sort(found_.begin(), found_.end(),
              [](const Input& a, const Input& b) { return a.path < b.path; });
  }

  const std::vector<Input>& found() const { return found_; }

 private:
  void pass_over(const fs::path& path, const std::string& why, bool is_error) {
    found_.push_back({path, 0, why, is_error});
  }

  void list_directory(const fs::path& directory) {
    struct stat there {};
    if (stat(directory.c_str(), &there) == 0 && !seen_.emplace(there.st_dev, there.st_ino).second) {
      return pass_over(directory, "a directory that is read elsewhere in the tree", false);
    }
    std::error_code error;
    std::vector<fs::directory_entry> entries;
    for (fs::directory_iterator it(directory, error), end; !error && it != end;
         it.increment(error)) {
      entries.push_back(*it);
    }
    if (error) pass_over(directory, "cannot read this directory: " + error.message(), true);
    std::sort(entries.begin(), entries.end());
    for (const fs::directory_entry& entry : entries) list_entry(entry);
  }

  void list_entry(const fs::directory_entry& entry) {
    std::error_code error;
    if (entry.is_symlink(error)) return list_link(entry.path());
    const fs::file_status status = entry.symlink_status(error);
    if (status.type() == fs::file_type::regular) {
      found_.push_back({entry.path()});
    } else if (const std::string why = obstacle(entry.path(), status); !why.empty()) {
      pass_over(entry.path(), why, true);
    } else {
      list_directory(entry.path());
    }
  }

  void list_link(const fs::path& link) {
    std::error_code error;
    const fs::path target = fs::canonical(link, error);
    if (error) return pass_over(link, "cannot follow this link: " + error.message(), true);
    const fs::file_status status = fs::status(target, error);
    if (const std::string why = obstacle(target, status); !why.empty()) {
      return pass_over(link, "a link; " + why, true);
    }
    const bool within = is_below(target, root_);
    if (!within && links_ == Links::kWithin) {
      return pass_over(link, "a link out of the directory given is not followed without --follow",
                       !fs::is_directory(status) && is_called_a_trace(link));
    }
    if (!fs::is_directory(status)) {
      found_.push_back({link});
    } else if (within) {
      pass_over(link, "a link to a directory is not followed: it is read where it lies", false);
    } else {
      list_directory(link);
    }
  }

  fs::path root_;
  Links links_;
  std::set<std::pair<dev_t, ino_t>> seen_;  // directories
  std::vector<Input> found_;
};

/// The files of `paths`, those below a directory in order of path. What is passed over is listed
/// too, with the reason: links that are not followed, and whatever is no regular file or belongs to
/// the kernel (/proc, /sys, /dev but /dev/shm, and where else such are mounted). A path given may
/// be a link. Throws std::system_error when a path does not exist.
std::vector<Input> list_inputs(const std::vector<fs::path>& paths, Links links) {
  std::vector<Input> inputs;
  for (const fs::path& given : paths) {
    fs::path path = fs::absolute(given).lexically_normal();
    if (!fs::exists(path)) {
      throw std::system_error(std::make_error_code(std::errc::no_such_file_or_directory),
                              given.string());
    }
    const std::string why = obstacle(fs::canonical(path), fs::status(path));
    if (!why.empty() || !fs::is_directory(path)) {
      inputs.push_back({path, 0, why, !why.empty()});
      continue;
    }
    const Tree tree(path, links);
    inputs.insert(inputs.end(), tree.found().begin(), tree.found().end());
  }
  for (Input& input : inputs) {
    if (!input.not_read.empty()) continue;
    std::error_code ignored;
    auto size = fs::file_size(input.path, ignored);
    input.bytes = ignored ? 0 : static_cast<int64_t>(size);
  }
  return inputs;
}

/// Passes over a database that is written to, and the files that SQLite keeps beside it, whatever
/// their names here: who closes one of them drops all locks that its process has on it.
void pass_over_database(std::vector<Input>& inputs, const fs::path& database) {
  std::set<std::pair<dev_t, ino_t>> own;
  struct stat status {};
  for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
    const std::string file = database.string() + suffix;
    if (::stat(file.c_str(), &status) == 0) own.insert({status.st_dev, status.st_ino});
  }
  for (Input& input : inputs) {
    if (::stat(input.path.c_str(), &status) != 0) continue;
    if (own.contains({status.st_dev, status.st_ino})) {
      input.not_read = "of the database that is written to: not read";
    }
  }
}

class Importer {
 public:
  Importer(SQLite::Database& db, const IngestOptions& options) : session_(db, options) {}

  /// Also closes the interrupted ingests that these paths finish.
  IngestSummary run(const std::vector<fs::path>& paths, const std::vector<int64_t>& interrupted);

 private:
  void ingest_inputs(const std::vector<Input>& inputs);
  std::future<OpenedContent> open_ahead(const Input& input);
  void ingest_file(const Input& input, std::future<OpenedContent> opened);
  void ingest_archive(const OpenedContent& archive);
  void note(const std::string& file, bool is_error, const std::string& reason);

  IngestSession session_;
  ContentImporter contents_{session_};
};

IngestRequest request_of(std::vector<fs::path> paths, const IngestOptions& options) {
  for (fs::path& path : paths) path = fs::absolute(path);
  return {std::move(paths), options.run, options.follow};
}

IngestSummary Importer::run(const std::vector<fs::path>& paths,
                            const std::vector<int64_t>& interrupted) {
  std::vector<Input> inputs =
      list_inputs(paths, session_.options.follow ? Links::kAll : Links::kWithin);
  pass_over_database(inputs, session_.db.getFilename());
  session_.progress.files_total = static_cast<int64_t>(inputs.size());
  for (const Input& input : inputs) session_.progress.bytes_total += input.bytes;
  if (!session_.options.dry_run) {
    const int64_t id = open_ingest(session_.db, request_of(paths, session_.options));
    session_.runs.belong_to(id);
    ingest_inputs(inputs);
    session_.in_transaction([&] {
      for (int64_t old : interrupted) close_ingest(session_.db, old);
      close_ingest(session_.db, id);
    });
    session_.judge();
    make_durable(session_.db);
    return session_.summary;
  }
  session_.in_dry_run([&] { ingest_inputs(inputs); });
  return session_.summary;
}

/// The next file is read, and parsed when it seems to be new, while one is written.
std::future<OpenedContent> Importer::open_ahead(const Input& input) {
  if (!input.not_read.empty()) return {};
  const std::string path = input.path.string();
  const bool seems_known = session_.sources.any_stored_at(path, input.bytes);
  const bool on_other_thread = session_.options.jobs > 1 && input.bytes >= kWorthAThreadBytes;
  auto open = [path, run = session_.options.run, seems_known] {
    return open_start(open_content(path), path, path, run,
                      seems_known ? ParseAhead::kNo : ParseAhead::kYes);
  };
  return with_thread_error([&] {
    return std::async(on_other_thread ? std::launch::async : std::launch::deferred,
                      std::move(open));
  });
}

void Importer::ingest_inputs(const std::vector<Input>& inputs) {
  std::future<OpenedContent> next;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    session_.show_progress(input.path.string());
    int64_t bytes_before = session_.progress.bytes_done;
    std::future<OpenedContent> opened = next.valid() ? std::move(next) : open_ahead(input);
    if (i + 1 < inputs.size()) next = open_ahead(inputs[i + 1]);
    ingest_file(input, std::move(opened));
    ++session_.progress.files_done;
    session_.progress.bytes_done = bytes_before + input.bytes;
  }
  session_.settle();
}

void Importer::ingest_file(const Input& input, std::future<OpenedContent> opened) {
  if (!input.not_read.empty()) return note(input.path.string(), input.is_error, input.not_read);
  if (input.bytes >= kWorthAThreadBytes) session_.small.commit();
  try {
    OpenedContent content = opened.get();
    content.kind == ContentKind::kArchive ? ingest_archive(content) : void(contents_.take(content));
  } catch (const std::system_error& error) {
    note(input.path.string(), true, error.what());
  }
}

/// Counts a file of which nothing is read, and says why.
void Importer::note(const std::string& file, bool is_error, const std::string& reason) {
  ++session_.summary.files;
  session_.in_turn([&] { session_.add_finding(file, 0, is_error, reason, "", {}); });
}

void Importer::ingest_archive(const OpenedContent& archive) {
  const fs::path folder = fs::path(archive.file).parent_path();
  std::string broken_member;
  OpenedReader bytes(archive);
  std::string broken = for_each_member(
      bytes,
      [&](const ArchiveMember& member, std::unique_ptr<ContentReader> reader) {
        if (member.size_bytes >= kWorthAThreadBytes) session_.small.commit();
        OpenedContent content =
            open_start(std::move(reader), archive.file + "!" + member.path,
                       (folder / member.path).string(), session_.options.run, ParseAhead::kNo);
        if (!contents_.take(content)) broken_member = member.path;
      },
      [&](const std::string& member, const std::string& reason) {
        note(archive.file + "!" + member, true, "refused: " + reason);
      });
  const auto say = [&](bool is_error, const std::string& reason) {
    session_.in_turn([&] { session_.add_finding(archive.file, 0, is_error, reason, "", {}); });
  };
  if (!archive.reader->change().empty()) say(false, archive.reader->change());
  if (broken.empty()) return;
  if (!broken_member.empty()) broken += " in member " + broken_member + ", which is not ingested";
  say(true, broken);
}

/// Ends an ingest that cannot be finished: no run that it has written to passes any more.
IngestSummary give_up(SQLite::Database& db, const OpenIngest& open,
                      const std::vector<fs::path>& gone, const IngestOptions& options) {
  IngestSession session(db, options);
  session.in_transaction([&] {
    std::vector<std::string> runs = runs_of_ingest(db, open.id);
    for (const fs::path& path : gone) {
      const std::string reason = "gone before its ingest of " + open.started_at +
                                 " had ended, which was given up: what was not read of it is lost";
      if (runs.empty()) session.add_finding(path.string(), 0, true, reason, "", {});
      for (const std::string& run : runs) {
        session.add_finding_about(run, path.string(), reason + " to run " + run);
      }
    }
    close_ingest(db, open.id);
  });
  return session.summary;
}

IngestSummary resume_one(SQLite::Database& db, const OpenIngest& open,
                         const IngestOptions& options) {
  std::vector<fs::path> there, gone;
  for (const fs::path& path : open.request.paths) {
    std::error_code unreachable;
    (fs::exists(path, unreachable) ? there : gone).push_back(path);
  }
  IngestOptions as_begun = options;
  as_begun.run = open.request.run;
  as_begun.follow = open.request.follow;
  if (gone.empty()) return Importer(db, as_begun).run(there, {open.id});
  IngestSummary summary;
  if (!options.give_up) {
    summary.errors = 1;
    summary.findings.push_back({gone.front().string(), 0, true,
                                "is gone, and its ingest of " + open.started_at +
                                    " did not end: its runs stay INCOMPLETE until it is given up"});
    return summary;
  }
  if (!there.empty()) summary += Importer(db, as_begun).run(there, {});
  return summary += give_up(db, open, gone, as_begun);
}

}  // namespace

IngestSummary& IngestSummary::operator+=(const IngestSummary& other) {
  for (auto count :
       {&IngestSummary::files, &IngestSummary::new_sources, &IngestSummary::known_sources,
        &IngestSummary::rows, &IngestSummary::duplicates, &IngestSummary::conflicts,
        &IngestSummary::taken, &IngestSummary::report_pairs, &IngestSummary::log_events,
        &IngestSummary::metrics, &IngestSummary::errors, &IngestSummary::warnings,
        &IngestSummary::known_errors, &IngestSummary::known_warnings}) {
    this->*count += other.*count;
  }
  for (const Finding& finding : other.findings) {
    if (findings.size() < kMaxFindings) findings.push_back(finding);
  }
  return *this;
}

IngestSummary resume(SQLite::Database& db, const IngestOptions& options) {
  return ingest(db, {}, options);
}

IngestSummary ingest(SQLite::Database& db, const std::vector<std::filesystem::path>& paths,
                     const IngestOptions& options) {
  IngestSummary all;
  std::vector<int64_t> same;  // interrupted, and finished by these paths
  if (!options.dry_run) {
    for (const OpenIngest& open : interrupted_ingests(db)) {
      if (open.request == request_of(paths, options)) {
        same.push_back(open.id);
      } else {
        all += resume_one(db, open, options);
      }
    }
  }
  if (!paths.empty()) all += Importer(db, options).run(paths, same);
  return all;
}

}  // namespace greta
