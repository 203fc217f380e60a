#include "ingest/importer.h"

#include <future>
#include <memory>
#include <system_error>
#include <utility>

#include "common/thread.h"
#include "db/database.h"
#include "ingest/content/archive.h"
#include "ingest/content/reader.h"
#include "ingest/content_importer.h"
#include "ingest/content_name.h"
#include "ingest/foreign/tensor_files.h"
#include "ingest/inputs.h"
#include "ingest/open_ingest.h"
#include "ingest/opened_content.h"
#include "ingest/session.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

/// A file whose turn is still to come.
struct OpenedFile {
  bool is_archive = false;  ///< then it is not opened
  std::unique_ptr<ContentReader> reader = {};
  OpenedContent content = {};
};

class Importer {
 public:
  Importer(SQLite::Database& db, const IngestOptions& options) : session_(db, options) {}

  /// Also closes the interrupted ingests that these paths finish.
  IngestSummary run(const std::vector<fs::path>& paths, const std::vector<int64_t>& interrupted);

 private:
  void ingest_inputs(const std::vector<Input>& inputs);
  std::future<OpenedFile> open_ahead(const Input& input);
  void ingest_file(const Input& input, std::future<OpenedFile> opened);
  void ingest_archive(const fs::path& path);

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
  session_.db.exec("BEGIN IMMEDIATE");
  try {
    ingest_inputs(inputs);
    session_.db.exec("ROLLBACK");
  } catch (...) {
    session_.db.tryExec("ROLLBACK");
    throw;
  }
  return session_.summary;
}

/// The next file is read, and parsed when it seems to be new, while one is written.
std::future<OpenedFile> Importer::open_ahead(const Input& input) {
  if (!input.not_read.empty()) return {};
  const bool seems_known = session_.sources.any_stored_at(input.path.string(), input.bytes);
  const bool on_other_thread = session_.options.jobs > 1 && input.bytes >= kWorthAThreadBytes;
  auto open = [path = input.path, seems_known]() -> OpenedFile {
    const bool is_named_tensors = tensor_file_named(lower_extension(path.string())).has_value();
    if (!is_named_tensors && is_archive(path)) return {.is_archive = true};
    OpenedFile file{.reader = open_content(path)};
    const bool is_large =
        file.reader->stored_bytes().value_or(0) > static_cast<int64_t>(kWholeBytes);
    file.content = open_start(*file.reader, path.string(), is_large,
                              seems_known ? ParseAhead::kNo : ParseAhead::kYes);
    return file;
  };
  return with_thread_error([&] {
    return std::async(on_other_thread ? std::launch::async : std::launch::deferred,
                      std::move(open));
  });
}

void Importer::ingest_inputs(const std::vector<Input>& inputs) {
  std::future<OpenedFile> next;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    session_.show_progress(input.path.string());
    int64_t bytes_before = session_.progress.bytes_done;
    std::future<OpenedFile> opened = next.valid() ? std::move(next) : open_ahead(input);
    if (i + 1 < inputs.size()) next = open_ahead(inputs[i + 1]);
    ingest_file(input, std::move(opened));
    ++session_.progress.files_done;
    session_.progress.bytes_done = bytes_before + input.bytes;
  }
  session_.settle();
}

void Importer::ingest_file(const Input& input, std::future<OpenedFile> opened) {
  if (!input.not_read.empty()) {
    ++session_.summary.files;
    return session_.in_turn([&] {
      session_.add_finding(input.path.string(), 0, input.is_error, input.not_read, "", {});
    });
  }
  if (input.bytes >= kWorthAThreadBytes) session_.small.commit();
  try {
    OpenedFile file = opened.get();
    if (file.is_archive) return ingest_archive(input.path);
    Content content{input.path.string(), input.path.string(), "",
                    file.reader->stored_bytes().value_or(input.bytes)};
    contents_.take(content, *file.reader, file.content);
  } catch (const std::system_error& error) {
    ++session_.summary.files;
    session_.in_turn(
        [&] { session_.add_finding(input.path.string(), 0, true, error.what(), "", {}); });
  }
}

void Importer::ingest_archive(const fs::path& path) {
  std::string archive = path.string();
  std::string broken_member;
  std::string change;
  std::string broken = for_each_member(
      path,
      [&](const ArchiveMember& member, ContentReader& reader) {
        Content content{archive + "!" + member.path, (path.parent_path() / member.path).string(),
                        "", -1};
        if (is_archive_name(member.path)) {
          ++session_.summary.files;
          session_.in_turn([&] {
            session_.add_finding(content.file, 0, true,
                                 "an archive inside an archive is not opened", "", {});
          });
          return;
        }
        if (member.size_bytes >= kWorthAThreadBytes) session_.small.commit();
        OpenedContent opened =
            open_start(reader, content.identity_path, /*is_large=*/false, ParseAhead::kNo);
        if (!contents_.take(content, reader, opened)) broken_member = member.path;
      },
      [&](const std::string& member, const std::string& reason) {
        ++session_.summary.files;
        session_.in_turn([&] {
          session_.add_finding(archive + "!" + member, 0, true, "refused: " + reason, "", {});
        });
      },
      &change);
  if (!change.empty()) {
    session_.in_turn([&] { session_.add_finding(archive, 0, false, change, "", {}); });
  }
  if (broken.empty()) return;
  if (!broken_member.empty()) broken += " in member " + broken_member + ", which is not ingested";
  session_.in_turn([&] { session_.add_finding(archive, 0, true, broken, "", {}); });
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
