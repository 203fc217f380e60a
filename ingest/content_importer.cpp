#include "ingest/content_importer.h"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <utility>

#include "common/sha256.h"
#include "db/forget.h"
#include "db/transaction.h"
#include "ingest/document.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/rows.h"
#include "ingest/text.h"

namespace greta {
namespace {

/// The rules of a database, in their order. Throws std::invalid_argument, naming it, for a rule
/// that is no pattern.
NameRules load_name_rules(SQLite::Database& db) {
  NameRules rules;
  SQLite::Statement query(db, "SELECT pattern, tensor FROM name_rule ORDER BY ord, id");
  while (query.executeStep()) {
    const std::string pattern = query.getColumn(0).getString();
    try {
      rules.add(pattern, query.getColumn(1).getString());
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument("name rule '" + pattern + "': " + error.what());
    }
  }
  return rules;
}

struct Refusal {
  bool is_error;
  std::string reason;
};

/// Why nothing of a content is looked at.
std::optional<Refusal> refusal_of(const OpenedContent& content) {
  const bool in_pieces = !content.is_whole && is_read_in_pieces(content.foreign);
  if (content.kind == ContentKind::kUnknown) {
    const std::string why = why_unread(content.bytes);
    if (!why.empty()) return Refusal{true, why};
    return Refusal{false, "a file of no shape greta knows; not ingested"};
  }
  if (content.kind == ContentKind::kDatabase) {
    return Refusal{
        false,
        "a database of SQLite, not an artifact; not ingested. `greta-db merge FILE` takes"
        " what a database of greta holds"};
  }
  if (content.kind == ContentKind::kArchive) {
    return Refusal{true, "an archive inside an archive is not opened"};
  }
  if (in_pieces && (content.raw_bytes() < 0 || content.reader->is_compressed())) {
    return Refusal{true,
                   "tensors of more than 32 MiB are read from a file of their own: not packed, not"
                   " in an archive; not ingested"};
  }
  if (!content.is_whole && !in_pieces && content.kind != ContentKind::kRecords) {
    return Refusal{true, "larger than a document may be (32 MiB); not ingested"};
  }
  return std::nullopt;
}

/// True if it may state nothing of a run: of lines of JSON that is known once they are parsed.
bool may_be_mere_text(const OpenedContent& content) {
  if (content.kind != ContentKind::kRecords) return content.kind != ContentKind::kForeign;
  if (!content.is_whole || content.bytes.empty()) return false;
  if (!content.records) return content.bytes.size() < static_cast<size_t>(kWorthAThreadBytes);
  const auto& batches = content.records->batches;
  return std::none_of(batches.begin(), batches.end(), [](const std::unique_ptr<RecordBatch>& one) {
    return one && !(one->rows.empty() && one->events.empty());
  });
}

SourceStore::SourceKey key_of(const OpenedContent& content, int64_t run_id) {
  return {run_id, content.identity.leg, content.identity.prompt, content.sha256};
}

}  // namespace

bool ContentImporter::take(OpenedContent& content) {
  ++session_.summary.files;
  if (content.reader->source_failed() && content.raw_bytes() < 0) return false;
  const auto store = [&] { store_content(content); };
  if (content.is_whole && content.bytes.size() < static_cast<size_t>(kWorthAThreadBytes)) {
    session_.in_turn(store);
    return true;
  }
  session_.small.commit();
  std::optional<BulkJournal> bulk;
  if (!content.is_whole && !session_.options.dry_run) bulk.emplace(session_.db);
  session_.in_transaction(store);
  return true;
}

void ContentImporter::store_content(OpenedContent& content) {
  if (const auto refusal = refusal_of(content)) {
    return session_.add_finding(content.file, 0, refusal->is_error, refusal->reason, "", {});
  }
  if (!content.is_whole && content.kind != ContentKind::kRecords) {
    content.pieces = std::make_unique<FileBytes>(content.file);
    content.sha256 = content.pieces->sha256();
  }
  if (!tell_run(content)) return;
  may_be_mere_text(content) ? store_or_note(content) : void(store_source(content));
}

/// Lets the content itself say what its path does not; false when nothing of it is left to take.
bool ContentImporter::tell_run(OpenedContent& content) {
  RunIdentity& identity = content.identity;
  if (!session_.options.run.empty() || content.kind == ContentKind::kForeign) return true;
  const std::string_view head = std::string_view(content.bytes).substr(0, kHeadBytes);
  if (const std::optional<RunEvent> start = row_format_start(head)) {
    // It is the only content of its run, so that two runs never merge.
    content.is_of_named_run = false;
    if (is_known(content)) return false;
    const std::string name = session_.runs.free_name_of(*start);
    if (name.empty()) {
      session_.add_finding(content.file, 1, true,
                           "the database has a run " + start->run + " already; not ingested", "",
                           {});
      return false;
    }
    const std::string path = identity.relative_path;
    identity = identity_of(*start, name);
    identity.relative_path = path;
    return true;
  }
  if (!identity.experiment.empty()) return true;
  if (identity.date_segment.empty()) {
    if (is_known(content)) return false;
    identity.experiment = experiment_of_title(head);
    if (!identity.experiment.empty()) return true;
  }
  // Nothing names this run: its file does, with its content, so that two such files never merge.
  content.is_of_named_run = false;
  identity.experiment = file_stem(content.identity_path);
  if (identity.date_segment.empty()) identity.dims["case"] = Sha256::hex_of(head).substr(0, 8);
  return true;
}

/// True if some run has these very bytes, which are then located.
bool ContentImporter::is_known(const OpenedContent& content) {
  if (content.sha256.empty()) return false;  // not read yet
  const auto there = session_.sources.find_content(content.sha256);
  if (there) take_known(*there, content);
  return there.has_value();
}

/// A text that states nothing makes no run: what was written of it is undone, and it is noted.
void ContentImporter::store_or_note(OpenedContent& content) {
  IngestSummary& summary = session_.summary;
  const IngestCounts before = summary;
  const size_t findings_before = summary.findings.size();
  session_.db.exec("SAVEPOINT text");
  const bool is_stated =
      store_source(content) >= (content.is_of_named_run ? Use::kFacts : Use::kEvidence);
  if (!is_stated && summary.errors == before.errors) {
    session_.db.exec("ROLLBACK TO text");
    session_.forget();
    static_cast<IngestCounts&>(summary) = before;
    summary.findings.resize(findings_before);
    note_text(content);
  }
  session_.db.exec("RELEASE text");
}

/// Keeps a text of which nothing is read, unless it is a copy of one of its run.
void ContentImporter::note_text(const OpenedContent& content) {
  const std::string trouble = content.trouble(),
                    reason = trouble.empty() ? kTextNotJudged : trouble;
  const std::string name =
      content.identity_path.substr(content.identity_path.find_last_of('/') + 1);
  const std::string run = session_.run_named_by(content.file);
  const std::string_view bytes = kept_part(content.bytes);
  const bool is_copy = !run.empty() && session_.sources.is_noted(run, reason, name, bytes) &&
                       !session_.sources.find_finding(content.file, 0, reason);
  if (!is_copy) session_.add_finding(content.file, 0, false, reason, bytes, {});
}

/// Takes what is read of a content into its run. kEvidence where it is there already.
Use ContentImporter::store_source(OpenedContent& content) {
  const int64_t run_id = session_.runs.find_or_add(content.identity);
  const bool is_as_stored =
      content.pieces || (content.is_whole && !content.reader->is_compressed());
  const bool may_be_stored =
      content.is_whole || session_.sources.any_stored_with_size(content.raw_bytes());
  if (content.raw_bytes() >= 0 && is_as_stored) {
    content.raw_sha256 = content.sha256;
  } else if (content.raw_bytes() >= 0 && may_be_stored) {
    content.raw_sha256 = FileBytes(content.file).sha256();
  }
  const SourceStore::SourceKey key = key_of(content, run_id);
  std::optional<int64_t> there;
  if (!content.sha256.empty()) {
    there = session_.sources.find_source(key);
  } else if (!content.raw_sha256.empty()) {
    there = session_.sources.find_stored(key, content.raw_sha256, content.raw_bytes());
  }
  if (there) {
    take_known(*there, content);
    return Use::kEvidence;
  }
  session_.runs.change(run_id);
  ++session_.summary.new_sources;
  return content.kind == ContentKind::kRecords ? store_records(content, run_id)
                                               : store_document(content, run_id);
}

/// A text, or what another tool wrote.
Use ContentImporter::store_document(OpenedContent& content, int64_t run_id) {
  const SourceStore::SourceKey key = key_of(content, run_id);
  // What it states of a run that was forgotten is to come back, and nothing to be there twice.
  if (forget_marked_source(session_.db, run_id, key.leg, key.prompt, key.sha256)) {
    session_.sources.forget();
  }
  const auto bytes =
      static_cast<int64_t>(content.pieces ? content.pieces->size() : content.bytes.size());
  const int64_t id = session_.sources.add_source(
      key, content.kind == ContentKind::kForeign ? "foreign" : "document", bytes);
  add_location(id, content);
  SourceContent source(session_, id, run_id, content.identity, content.file);
  if (!content.reader->damage().empty()) source.add_finding(0, true, content.reader->damage());
  int64_t lines = 0;
  if (content.kind == ContentKind::kForeign) {
    lines = read_foreign_rows(content, source);
  } else {
    read_text(content, source);
    const std::string& text = content.bytes;
    lines = std::count(text.begin(), text.end(), '\n') + (!text.empty() && text.back() != '\n');
  }
  source.finish(content.sha256, bytes, lines);
  return source.use();
}

void ContentImporter::read_text(OpenedContent& content, SourceContent& source) {
  content.bytes = text::with_line_ends(std::move(content.bytes));  // no second copy
  switch (content.kind) {
    case ContentKind::kJson:
      return source.add_json(content.bytes);
    case ContentKind::kTable:
      return source.add_delimited(content.bytes,
                                  lower_extension(content.identity_path) == ".csv" ? ',' : '\t');
    case ContentKind::kLog:
      return source.add_log(content.bytes);
    default:
      source.add_document(read_document(content.bytes));
  }
}

/// Rows of another tool's file; their number. One that breaks midway leaves what was read before,
/// and an error.
int64_t ContentImporter::read_foreign_rows(OpenedContent& content, SourceContent& source) {
  if (!name_rules_) name_rules_ = load_name_rules(session_.db);
  ForeignRows rows(*name_rules_, [&](RecordBatch& batch) {
    source.add_batch(batch);
    session_.show_progress(content.file);
  });
  MemoryBytes whole(content.bytes);
  Bytes& bytes = content.pieces ? static_cast<Bytes&>(*content.pieces) : whole;
  try {
    read_foreign(content.foreign, content.identity_path, bytes, rows);
  } catch (const ForeignError& error) {
    rows.finish();
    source.add_finding(0, true, std::string("cannot be taken: ") + error.what());
  }
  if (content.foreign == ForeignKind::kMsprobeConstruct) source.note_use(Use::kEvidence);
  source.set_shape(shape_of(content.foreign));
  const std::string change = content.pieces ? content.pieces->change() : "";
  if (!change.empty()) session_.add_finding(content.file, 0, true, change, "", {});
  return rows.rows();
}

Use ContentImporter::store_records(OpenedContent& content, int64_t run_id) {
  SourceStore::SourceKey key = key_of(content, run_id);
  if (!content.is_whole) key.sha256 = "being read";
  const bool is_empty = content.is_empty() && content.reader->damage().empty();
  const int64_t id = session_.sources.add_source(key, is_empty ? "empty" : "records", 0);
  session_.sources.add_location(id, content.file, "", content.raw_bytes());
  if (is_empty) {
    add_location(id, content);
    session_.add_finding(content.file, 0, false, content.trouble(), "", id);
    return Use::kNone;
  }
  SourceContent source(session_, id, run_id, content.identity, content.file);
  const IngestCounts before = session_.summary;
  const size_t findings_before = session_.summary.findings.size();
  if (content.records) {
    for (auto& batch : content.records->batches) {
      source.add_batch(*batch);
      batch.reset();
    }
  } else {
    content.records = stream_into(source, content);
  }
  const auto& [batches, end, shape, phase_conflict] = *content.records;
  if (!end.damage.empty()) {
    source.add_finding(end.tail.empty() ? 0 : end.lines, true, end.damage, end.tail);
  }
  if (phase_conflict) {
    source.add_finding(0, false,
                       "lines of the other phase in a " + content.identity.leg +
                           " directory; the lines are believed");
  }
  key.sha256 = end.sha256;
  if (!content.is_whole) {
    const auto there = content.is_of_named_run ? session_.sources.find_source(key)
                                               : session_.sources.find_content(end.sha256);
    if (there) {  // only its end told: undo all of it but the location
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
  if (content.raw_sha256.empty() && content.raw_bytes() == end.bytes) {
    content.raw_sha256 = end.sha256;
  }
  add_location(id, content);
  return source.use();
}

/// Writes the batches while they are parsed; the result has none of them.
ParsedRecords ContentImporter::stream_into(SourceContent& source, const OpenedContent& content) {
  RecordParser parser(record_source(content));
  OpenedReader all(content);
  const int64_t bytes_before = session_.progress.bytes_done;
  const auto on_bytes = [&](int64_t bytes) {
    if (content.raw_bytes() > 0) {
      session_.progress.bytes_done = bytes_before + std::min(bytes, content.raw_bytes());
    }
    session_.show_progress(content.file);
  };
  const bool threaded =
      session_.options.jobs > 1 && static_cast<int64_t>(content.bytes.size()) >= kWorthAThreadBytes;
  ParsedRecords parsed;
  parsed.end = stream_records(
      all, parser, threaded, [&](RecordBatch& batch) { source.add_batch(batch); }, on_bytes);
  parsed.shape = parser.shape();
  parsed.phase_conflict = parser.phase_conflict();
  return parsed;
}

/// What is wrong with this file, though its content is known, is said unless it is a copy of one
/// that it was said of.
void ContentImporter::take_known(int64_t source_id, const OpenedContent& content) {
  ++session_.summary.known_sources;
  ++session_.summary.taken;
  session_.count_known_findings(source_id);
  const std::string trouble = content.trouble();
  if (!trouble.empty() &&
      !session_.sources.has_location(source_id, content.identity.relative_path)) {
    session_.add_finding(content.file, 0, !content.reader->damage().empty(), trouble, "",
                         source_id);
  }
  add_location(source_id, content);
}

/// Also says that the file changed while it was read: what is on the disk is then another.
void ContentImporter::add_location(int64_t source_id, const OpenedContent& content) {
  const std::string& change = content.reader->change();
  if (session_.sources.add_location(
          source_id, content.file, change.empty() ? content.raw_sha256 : "", content.raw_bytes())) {
    session_.runs.change(session_.sources.run_of(source_id));
    session_.runs.refresh_status(source_id);
  }
  if (!change.empty()) session_.add_finding(content.file, 0, false, change, "", source_id);
}

}  // namespace greta
