#include "ingest/content_importer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "common/sha256.h"
#include "db/forget.h"
#include "db/transaction.h"
#include "ingest/document.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/rows.h"
#include "ingest/foreign_content.h"
#include "ingest/text.h"

namespace greta {
namespace {

std::string sha256_of_file(const std::filesystem::path& path) {
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

bool is_text(ContentKind kind) {
  return kind == ContentKind::kJson || kind == ContentKind::kTable ||
         kind == ContentKind::kDocument || kind == ContentKind::kLog;
}

/// True if it may state nothing of a run: of lines of JSON that is known once they are parsed.
bool may_be_mere_text(const OpenedContent& opened) {
  if (opened.kind != ContentKind::kRecords) return is_text(opened.kind);
  if (!opened.is_whole || opened.bytes.empty()) return false;
  if (!opened.records) return opened.bytes.size() < static_cast<size_t>(kWorthAThreadBytes);
  const auto& batches = opened.records->batches;
  return std::none_of(batches.begin(), batches.end(), [](const std::unique_ptr<RecordBatch>& one) {
    return one && !(one->rows.empty() && one->events.empty());
  });
}

}  // namespace

bool ContentImporter::take(const Content& content, ContentReader& reader, OpenedContent& opened) {
  ++session_.summary.files;
  set_trouble(reader.damage(), opened.is_whole && opened.bytes.empty(), reader.is_compressed());
  change_ = reader.change();
  if (reader.source_failed() && content.raw_bytes < 0) return false;
  const auto store = [&] { store_content(content, reader, opened); };
  if (opened.is_whole && opened.bytes.size() < static_cast<size_t>(kWorthAThreadBytes)) {
    session_.in_turn(store);
    return true;
  }
  session_.small.commit();
  std::optional<BulkJournal> bulk;
  if (!opened.is_whole && !session_.options.dry_run) bulk.emplace(session_.db);
  session_.in_transaction(store);
  return true;
}

void ContentImporter::store_content(Content content, ContentReader& reader, OpenedContent& opened) {
  if (opened.kind == ContentKind::kUnknown) {
    const std::string why = why_unread(opened.bytes);
    return session_.add_finding(content.file, 0, !why.empty(),
                                why.empty() ? "a file of no shape greta knows; not ingested" : why,
                                "", {});
  }
  if (opened.kind == ContentKind::kDatabase) {
    return session_.add_finding(
        content.file, 0, false,
        "a database of SQLite, not an artifact; not ingested. `greta-db merge"
        " FILE` takes what a database of greta holds",
        "", {});
  }
  const bool in_pieces = !opened.is_whole && is_read_in_pieces(opened.kind);
  if (in_pieces && (content.raw_bytes < 0 || reader.is_compressed())) {
    return session_.add_finding(content.file, 0, true,
                                "tensors of more than 32 MiB are read from a file of their own: not"
                                " packed, not in an archive; not ingested",
                                "", {});
  }
  if (!opened.is_whole && !in_pieces && opened.kind != ContentKind::kRecords) {
    return session_.add_finding(content.file, 0, true,
                                "larger than a document may be (32 MiB); not ingested", "", {});
  }
  std::optional<FileBytes> file;
  if (in_pieces) opened.sha256 = file.emplace(content.file).sha256();
  if (!identify(content, opened)) return;
  if (may_be_mere_text(opened)) return store_or_note(content, reader, opened);
  store_source(content, reader, opened, file);
}

/// A text that states nothing makes no run: what was written of it is undone, and it is noted.
void ContentImporter::store_or_note(const Content& content, ContentReader& reader,
                                    OpenedContent& opened) {
  IngestSummary& summary = session_.summary;
  const IngestCounts before = summary;
  const size_t findings_before = summary.findings.size();
  std::optional<FileBytes> no_file;
  session_.db.exec("SAVEPOINT text");
  const Use use = store_source(content, reader, opened, no_file);
  const bool is_stated = use >= (has_identity_ ? Use::kFacts : Use::kEvidence);
  if (!is_stated && summary.errors == before.errors) {
    session_.db.exec("ROLLBACK TO text");
    session_.forget();
    static_cast<IngestCounts&>(summary) = before;
    summary.findings.resize(findings_before);
    note_text(content, opened.bytes);
  }
  session_.db.exec("RELEASE text");
}

/// Keeps a text of which nothing is read, unless it is a copy of one of its run.
void ContentImporter::note_text(const Content& content, std::string_view bytes) {
  const std::string reason = trouble_.empty() ? kTextNotJudged : trouble_;
  const std::string name =
      content.identity_path.substr(content.identity_path.find_last_of('/') + 1);
  const std::string run = session_.run_named_by(content.file);
  bytes = kept_part(bytes);
  const bool is_copy = !run.empty() && session_.sources.is_noted(run, reason, name, bytes) &&
                       !session_.sources.find_finding(content.file, 0, reason);
  if (!is_copy) session_.add_finding(content.file, 0, false, reason, bytes, {});
}

/// Takes what is read of a content into its run. kEvidence where it is there already.
Use ContentImporter::store_source(Content content, ContentReader& reader, OpenedContent& opened,
                                  std::optional<FileBytes>& file) {
  run_id_ = session_.runs.find_or_add(identity_);
  SourceStore::SourceKey key{run_id_, identity_.leg, identity_.prompt, opened.sha256};
  if (file) {
    content.raw_sha256 = opened.sha256;
  } else if (content.raw_bytes >= 0 &&
             (opened.is_whole || session_.sources.any_stored_with_size(content.raw_bytes))) {
    content.raw_sha256 =
        opened.is_whole && !reader.is_compressed() ? opened.sha256 : sha256_of_file(content.file);
  }
  std::optional<int64_t> there;
  if (opened.is_whole || file) {
    there = session_.sources.find_source(key);
  } else if (!content.raw_sha256.empty()) {
    there = session_.sources.find_stored(key, content.raw_sha256, content.raw_bytes);
  }
  if (there) {
    take_known(*there, content);
    return Use::kEvidence;
  }
  session_.runs.change(run_id_);
  if (opened.kind == ContentKind::kRecords) return store_records(content, reader, opened);
  if (file) {
    const Use use = store_foreign(content, reader, opened, *file);
    if (!file->change().empty())
      session_.add_finding(content.file, 0, true, file->change(), "", {});
    return use;
  }
  if (is_foreign(opened.kind)) {
    MemoryBytes bytes(opened.bytes);
    return store_foreign(content, reader, opened, bytes);
  }
  return store_text(content, reader, opened);
}

Use ContentImporter::store_text(const Content& content, ContentReader& reader,
                                OpenedContent& opened) {
  opened.bytes = text::with_line_ends(std::move(opened.bytes));  // no second copy
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
  source.finish(opened.sha256, static_cast<int64_t>(bytes.size()), lines);
  return source.use();
}

const NameRules& ContentImporter::name_rules() {
  if (!name_rules_) name_rules_ = load_name_rules(session_.db);
  return *name_rules_;
}

/// What another tool wrote. A file that breaks midway leaves what was read before, and an error.
Use ContentImporter::store_foreign(const Content& content, ContentReader& reader,
                                   const OpenedContent& opened, Bytes& bytes) {
  if (forget_marked_source(session_.db, run_id_, identity_.leg, identity_.prompt, opened.sha256)) {
    session_.sources.forget();
  }
  const int64_t id =
      session_.sources.add_source({run_id_, identity_.leg, identity_.prompt, opened.sha256},
                                  "foreign", static_cast<int64_t>(bytes.size()));
  add_location(id, content, content.raw_sha256);
  ++session_.summary.new_sources;
  SourceContent source(session_, id, run_id_, identity_, content.file);
  if (!reader.damage().empty()) source.add_finding(0, true, reader.damage());
  ForeignRows rows(name_rules(), [&](RecordBatch& batch) {
    source.add_batch(batch);
    session_.show_progress(content.file);
  });
  try {
    read_foreign(opened.kind, content.identity_path, bytes, rows);
  } catch (const ForeignError& error) {
    rows.finish();
    source.add_finding(0, true, std::string("cannot be taken: ") + error.what());
  }
  if (opened.kind == ContentKind::kMsprobeConstruct) source.note_use(Use::kEvidence);
  source.set_shape(shape_of(opened.kind));
  source.finish(opened.sha256, static_cast<int64_t>(bytes.size()), rows.rows());
  return source.use();
}

Use ContentImporter::store_records(const Content& content, ContentReader& reader,
                                   OpenedContent& opened) {
  SourceStore::SourceKey key{run_id_, identity_.leg, identity_.prompt,
                             opened.is_whole ? opened.sha256 : "being read"};
  const bool is_empty = opened.is_whole && opened.bytes.empty() && reader.damage().empty();
  int64_t id = session_.sources.add_source(key, is_empty ? "empty" : "records", 0);
  session_.sources.add_location(id, content.file, "", content.raw_bytes);
  ++session_.summary.new_sources;
  if (is_empty) {
    add_location(id, content, content.raw_sha256);
    session_.add_finding(content.file, 0, false, trouble_, "", id);
    return Use::kNone;
  }
  SourceContent source(session_, id, run_id_, identity_, content.file);
  const IngestCounts before = session_.summary;
  const size_t findings_before = session_.summary.findings.size();
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
      static_cast<IngestCounts&>(session_.summary) = before;
      session_.summary.findings.resize(findings_before);
      --session_.summary.new_sources;
      take_known(*there, content);
      return Use::kEvidence;
    }
  }
  source.set_shape(shape.empty() ? "unknown" : shape);
  source.finish(end.sha256, end.bytes, end.lines);
  std::string raw = content.raw_sha256.empty() && content.raw_bytes == end.bytes
                        ? end.sha256
                        : content.raw_sha256;
  add_location(id, content, raw);
  return source.use();
}

/// Writes the batches while they are parsed; the result has none of them.
ParsedRecords ContentImporter::stream_into(SourceContent& source, const Content& content,
                                           ContentReader& reader, const OpenedContent& opened) {
  RecordParser parser(record_source(opened.identity, content.identity_path));
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

/// Fills identity_; false when a path that says nothing holds a content that is known already.
bool ContentImporter::identify(const Content& content, OpenedContent& opened) {
  const std::string_view head = std::string_view(opened.bytes).substr(0, kHeadBytes);
  const ContentKind kind = opened.kind;
  identity_ = opened.identity;
  has_identity_ = true;
  if (!session_.options.run.empty()) {
    identity_ = identify_run(session_.options.run + "/" + identity_.leg + "/x");
    identity_.leg = opened.identity.leg;
    identity_.prompt = opened.identity.prompt;
    if (is_foreign(kind)) identity_.prompt = place_in_run(content.identity_path);
    if (identity_.experiment.empty()) identity_.experiment = session_.options.run;
    return true;
  }
  if (is_foreign(kind)) {
    const std::string path =
        std::filesystem::absolute(content.identity_path).lexically_normal().string();
    identity_ = identify_foreign(path, is_own_run(kind, path));
    return true;
  }
  if (const std::optional<RunEvent> start = row_format_start(head)) {
    return identify_by(*start, content, opened.sha256);
  }
  if (!identity_.experiment.empty()) return true;
  if (identity_.date_segment.empty()) {
    if (auto there = session_.sources.find_content(opened.sha256)) {
      take_known(*there, content);
      return false;
    }
    identity_.experiment = experiment_of_title(head);
    if (!identity_.experiment.empty()) return true;
  }
  // Nothing names this run: its file does, with its content, so that two such files never merge.
  has_identity_ = false;
  identity_.experiment = file_stem(content.identity_path);
  if (identity_.date_segment.empty()) identity_.dims["case"] = Sha256::hex_of(head).substr(0, 8);
  return true;
}

/// Of a content that names its run: it is the only one of it, so that two runs never merge.
bool ContentImporter::identify_by(const RunEvent& start, const Content& content,
                                  const std::string& sha256) {
  has_identity_ = false;
  const auto there =
      sha256.empty() ? std::nullopt : session_.sources.find_content(sha256);  // "": not read yet
  if (there) {
    take_known(*there, content);
    return false;
  }
  const std::string path = identity_.relative_path;
  const std::string name = session_.runs.free_name_of(start);
  if (name.empty()) {
    session_.add_finding(content.file, 1, true,
                         "the database has a run " + start.run + " already; not ingested", "", {});
    return false;
  }
  identity_ = identity_of(start, name);
  identity_.relative_path = path;
  return true;
}

/// What is wrong with this file, though its content is known, is said unless it is a copy of one
/// that it was said of.
void ContentImporter::take_known(int64_t source_id, const Content& content) {
  ++session_.summary.known_sources;
  ++session_.summary.taken;
  session_.count_known_findings(source_id);
  if (!trouble_.empty() && !session_.sources.has_location(source_id, identity_.relative_path)) {
    session_.add_finding(content.file, 0, trouble_is_error_, trouble_, "", source_id);
  }
  add_location(source_id, content, content.raw_sha256);
}

/// Also says that the file changed while it was read: what is on the disk is then another.
void ContentImporter::add_location(int64_t source_id, const Content& content,
                                   const std::string& raw_sha256) {
  if (session_.sources.add_location(source_id, content.file, change_.empty() ? raw_sha256 : "",
                                    content.raw_bytes)) {
    session_.runs.change(session_.sources.run_of(source_id));
    session_.runs.refresh_status(source_id);
  }
  if (change_.empty()) return;
  session_.add_finding(content.file, 0, false, change_, "", source_id);
}

void ContentImporter::set_trouble(const std::string& damage, bool is_empty, bool is_compressed) {
  trouble_is_error_ = !damage.empty();
  trouble_ = trouble_is_error_ ? damage
             : !is_empty       ? ""
             : is_compressed   ? "a valid gzip of nothing"
                               : "an empty file";
}

}  // namespace greta
