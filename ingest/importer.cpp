#include "ingest/importer.h"

#include <algorithm>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "common/sha256.h"
#include "common/thread.h"
#include "db/bulk_journal.h"
#include "db/database.h"
#include "db/forget.h"
#include "db/judge.h"
#include "db/kept_tally.h"
#include "ingest/content/archive.h"
#include "ingest/content/reader.h"
#include "ingest/document.h"
#include "ingest/inputs.h"
#include "ingest/open_ingest.h"
#include "ingest/opened_content.h"
#include "ingest/run_identity.h"
#include "ingest/session.h"
#include "ingest/source_content.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

/// A smaller content is parsed faster than a thread starts, and shares its transaction.
constexpr int64_t kWorthAThreadBytes = 16 << 10;

/// One content to ingest: a file or an archive member.
struct Content {
  std::string file;           // as findings name it: path, or archive!member
  std::string identity_path;  // what its run is told from
  std::string raw_sha256;     // of the stored bytes; "" not computed or a member
  int64_t raw_bytes = -1;     // of a loose file
};

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
  void ingest_content(const Content& content, ContentReader& reader, OpenedContent& opened);

  void store_content(Content content, ContentReader& reader, OpenedContent& opened);
  void store_document(const Content& content, ContentReader& reader, const OpenedContent& opened);
  void store_records(const Content& content, ContentReader& reader, OpenedContent& opened);
  ParsedRecords stream_into(SourceContent& source, const Content& content, ContentReader& reader,
                            const OpenedContent& opened);

  bool identify(const Content& content, std::string_view head, const std::string& sha256);
  void set_trouble(const std::string& damage, bool is_empty, bool is_compressed);
  void take_known(int64_t source_id, const Content& content);
  void add_location(int64_t source_id, const Content& content, const std::string& raw_sha256);
  void settle_and_judge();

  IngestSession session_;

  // of the content at hand
  RunIdentity identity_;
  bool has_identity_ = true;  // by path or document, not by content
  std::string trouble_;       // damage, or that it is empty
  bool trouble_is_error_ = false;
  std::string change_;  // ContentReader::change
  int64_t run_id_ = 0;
  std::string broken_member_;
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
    if (is_archive(path)) return {.is_archive = true};
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
  settle_and_judge();
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
    ingest_content(content, *file.reader, file.content);
  } catch (const std::system_error& error) {
    ++session_.summary.files;
    session_.in_turn(
        [&] { session_.add_finding(input.path.string(), 0, true, error.what(), "", {}); });
  }
}

void Importer::ingest_archive(const fs::path& path) {
  std::string archive = path.string();
  broken_member_.clear();
  std::string change;
  std::string broken = for_each_member(
      path,
      [&](const ArchiveMember& member, ContentReader& reader) {
        Content content{archive + "!" + member.path, (path.parent_path() / member.path).string(),
                        "", -1};
        if (is_archive_name(member.path)) {
          ++session_.summary.files;
          session_.in_turn([&] {
            session_.add_finding(content.file, 0, false,
                                 "an archive inside an archive is not opened", "", {});
          });
          return;
        }
        if (member.size_bytes >= kWorthAThreadBytes) session_.small.commit();
        OpenedContent opened =
            open_start(reader, content.identity_path, /*is_large=*/false, ParseAhead::kNo);
        ingest_content(content, reader, opened);
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
  if (!broken_member_.empty()) broken += " in member " + broken_member_ + ", which is not ingested";
  session_.in_turn([&] { session_.add_finding(archive, 0, true, broken, "", {}); });
}

/// Fills identity_; false when a path that says nothing holds a content that is known already.
bool Importer::identify(const Content& content, std::string_view head, const std::string& sha256) {
  identity_ = identify_run(content.identity_path);
  has_identity_ = true;
  if (!session_.options.run.empty()) {
    identity_ = identify_run(session_.options.run + "/" + identity_.leg + "/x");
    RunIdentity of_file = identify_run(content.identity_path);
    identity_.leg = of_file.leg;
    identity_.prompt = of_file.prompt;
    if (identity_.experiment.empty()) identity_.experiment = session_.options.run;
    return true;
  }
  if (!identity_.experiment.empty()) return true;
  if (identity_.date_segment.empty()) {
    if (auto there = session_.sources.find_content(sha256)) {
      take_known(*there, content);
      return false;
    }
    Document document = read_document(head);
    identity_.experiment = document.experiment;
    if (!document.experiment.empty()) return true;
  }
  // Nothing names this run: its file does, with its content, so that two such files never merge.
  has_identity_ = false;
  identity_.experiment = file_stem(content.identity_path);
  if (identity_.date_segment.empty()) identity_.dims["case"] = Sha256::hex_of(head).substr(0, 8);
  return true;
}

/// What is wrong with this file, though its content is known, is said unless it is a copy of one
/// that it was said of.
void Importer::take_known(int64_t source_id, const Content& content) {
  ++session_.summary.known_sources;
  session_.count_known_findings(source_id);
  if (!trouble_.empty() && !session_.sources.has_location(source_id, identity_.relative_path)) {
    session_.add_finding(content.file, 0, trouble_is_error_, trouble_, "", source_id);
  }
  add_location(source_id, content, content.raw_sha256);
}

/// Also says that the file changed while it was read: what is on the disk is then another.
void Importer::add_location(int64_t source_id, const Content& content,
                            const std::string& raw_sha256) {
  session_.sources.add_location(source_id, content.file, change_.empty() ? raw_sha256 : "",
                                content.raw_bytes);
  if (change_.empty()) return;
  session_.add_finding(content.file, 0, false, change_, "", source_id);
}

void Importer::set_trouble(const std::string& damage, bool is_empty, bool is_compressed) {
  trouble_is_error_ = !damage.empty();
  trouble_ = trouble_is_error_ ? damage
             : !is_empty       ? ""
             : is_compressed   ? "a valid gzip of nothing"
                               : "an empty file";
}

std::string sha256_of_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return "";
  Sha256 sha;
  std::vector<char> buffer(1u << 20);
  do {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    sha.update(buffer.data(), static_cast<size_t>(file.gcount()));
  } while (file);
  return sha.hex();
}

void Importer::ingest_content(const Content& content, ContentReader& reader,
                              OpenedContent& opened) {
  ++session_.summary.files;
  set_trouble(reader.damage(), opened.is_whole && opened.bytes.empty(), reader.is_compressed());
  change_ = reader.change();
  if (reader.source_failed() && content.raw_bytes < 0) {  // the archive breaks in this member
    broken_member_ = content.file.substr(content.file.find('!') + 1);
    return;
  }
  const auto store = [&] { store_content(content, reader, opened); };
  if (opened.is_whole && opened.bytes.size() < static_cast<size_t>(kWorthAThreadBytes)) {
    return session_.in_turn(store);
  }
  session_.small.commit();
  std::optional<BulkJournal> bulk;
  if (!opened.is_whole && !session_.options.dry_run) bulk.emplace(session_.db);
  session_.in_transaction(store);
}

void Importer::store_content(Content content, ContentReader& reader, OpenedContent& opened) {
  if (opened.kind == ContentKind::kUnknown) {
    return session_.add_finding(content.file, 0, false,
                                "a file of no shape greta knows; not ingested", "", {});
  }
  if (!opened.is_whole && opened.kind != ContentKind::kRecords) {
    return session_.add_finding(content.file, 0, true,
                                "larger than a document may be (32 MiB); not ingested", "", {});
  }
  std::string_view head = std::string_view(opened.bytes).substr(0, kHeadBytes);
  if (!identify(content, head, opened.sha256)) return;
  run_id_ = session_.runs.run_id(identity_);
  SourceStore::SourceKey key{run_id_, identity_.leg, identity_.prompt, opened.sha256};
  if (content.raw_bytes >= 0 &&
      (opened.is_whole || session_.sources.any_stored_with_size(content.raw_bytes))) {
    content.raw_sha256 =
        opened.is_whole && !reader.is_compressed() ? opened.sha256 : sha256_of_file(content.file);
  }
  std::optional<int64_t> there;
  if (opened.is_whole) {
    there = session_.sources.find_source(key);
  } else if (!content.raw_sha256.empty()) {
    there = session_.sources.find_stored(key, content.raw_sha256, content.raw_bytes);
  }
  if (there) return take_known(*there, content);
  if (opened.kind == ContentKind::kRecords) return store_records(content, reader, opened);
  store_document(content, reader, opened);
}

void Importer::store_document(const Content& content, ContentReader& reader,
                              const OpenedContent& opened) {
  const std::string& bytes = opened.bytes;
  // What it states of a run that was forgotten is to come back, and nothing to be there twice.
  if (forget_marked_source(session_.db, run_id_, identity_.leg, identity_.prompt, opened.sha256)) {
    session_.sources.forget();
  }
  int64_t id =
      session_.sources.add_source({run_id_, identity_.leg, identity_.prompt, opened.sha256},
                                  "document", static_cast<int64_t>(bytes.size()));
  add_location(id, content, content.raw_sha256);
  ++session_.summary.new_sources;
  int64_t lines =
      std::count(bytes.begin(), bytes.end(), '\n') + (!bytes.empty() && bytes.back() != '\n');
  SourceContent source(session_, id, run_id_, identity_, content.file);
  if (!reader.damage().empty()) source.add_finding(0, true, reader.damage());
  switch (opened.kind) {
    case ContentKind::kJson:
      source.add_json(bytes);
      break;
    case ContentKind::kTable:
      source.add_delimited(bytes, lower_extension(content.identity_path) == ".csv" ? ',' : '\t');
      break;
    case ContentKind::kLog:
      source.add_log(bytes);
      break;
    default:
      source.add_document(read_document(bytes));
  }
  if (bytes.empty() && opened.kind != ContentKind::kJson)
    source.add_finding(0, false, "an empty file");
  source.finish(opened.sha256, static_cast<int64_t>(bytes.size()), lines);
}

void Importer::store_records(const Content& content, ContentReader& reader, OpenedContent& opened) {
  SourceStore::SourceKey key{run_id_, identity_.leg, identity_.prompt,
                             opened.is_whole ? opened.sha256 : "being read"};
  const bool is_empty = opened.is_whole && opened.bytes.empty() && reader.damage().empty();
  int64_t id = session_.sources.add_source(key, is_empty ? "empty" : "records", 0);
  session_.sources.add_location(id, content.file, "", content.raw_bytes);
  ++session_.summary.new_sources;
  if (is_empty) {
    add_location(id, content, content.raw_sha256);
    return session_.add_finding(content.file, 0, false, trouble_, "", id);
  }
  SourceContent source(session_, id, run_id_, identity_, content.file);
  const IngestSummary before = session_.summary;
  if (opened.records) {
    for (auto& batch : opened.records->batches) {
      source.add_batch(*batch);
      batch.reset();
    }
  } else {
    opened.records = stream_into(source, content, reader, opened);
  }
  const auto& [batches, end, shape, phase_conflict] = *opened.records;
  if (!end.damage.empty()) {
    source.add_finding(end.tail.empty() ? 0 : end.lines, true, end.damage, end.tail);
  }
  if (phase_conflict) {
    source.add_finding(
        0, false,
        "lines of the other phase in a " + identity_.leg + " directory; the lines are believed");
  }
  key.sha256 = end.sha256;
  change_ = reader.change();
  if (!opened.is_whole) {
    auto there = has_identity_ ? session_.sources.find_source(key)
                               : session_.sources.find_content(end.sha256);
    if (there) {  // only its end told: undo all of it but the location
      set_trouble(end.damage, false, false);
      session_.forget();
      session_.db.exec(session_.options.dry_run ? "ROLLBACK TO content"
                                                : "ROLLBACK; BEGIN IMMEDIATE");
      session_.summary = before;
      --session_.summary.new_sources;
      return take_known(*there, content);
    }
  }
  source.set_shape(shape.empty() ? "unknown" : shape);
  source.finish(end.sha256, end.bytes, end.lines);
  std::string raw = content.raw_sha256.empty() && content.raw_bytes == end.bytes
                        ? end.sha256
                        : content.raw_sha256;
  add_location(id, content, raw);
}

/// Writes the batches while they are parsed; the result has none of them.
ParsedRecords Importer::stream_into(SourceContent& source, const Content& content,
                                    ContentReader& reader, const OpenedContent& opened) {
  RecordParser parser(record_source(content.identity_path));
  OpenedReader all(opened, reader);
  int64_t bytes_before = session_.progress.bytes_done;
  auto on_bytes = [&](int64_t bytes) {
    if (content.raw_bytes > 0)
      session_.progress.bytes_done = bytes_before + std::min(bytes, content.raw_bytes);
    session_.show_progress(content.file);
  };
  const bool threaded =
      session_.options.jobs > 1 && static_cast<int64_t>(opened.bytes.size()) >= kWorthAThreadBytes;
  ParsedRecords parsed;
  parsed.end = stream_records(
      all, parser, threaded, [&](RecordBatch& batch) { source.add_batch(batch); }, on_bytes);
  parsed.shape = parser.shape();
  parsed.phase_conflict = parser.phase_conflict();
  return parsed;
}

void Importer::settle_and_judge() {
  session_.in_transaction([&] {
    for (const std::string& experiment : session_.runs.take_unsettled())
      session_.runs.settle(experiment);
  });
  session_.show_progress("");
  if (session_.options.dry_run) return;
  judge(session_.db, runs_without_tally(session_.db), session_.options.jobs);
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
        &IngestSummary::report_pairs, &IngestSummary::log_events, &IngestSummary::metrics,
        &IngestSummary::errors, &IngestSummary::warnings, &IngestSummary::known_errors,
        &IngestSummary::known_warnings}) {
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
