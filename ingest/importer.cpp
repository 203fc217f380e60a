#include "ingest/importer.h"

#include <algorithm>
#include <system_error>

#include "common/sha256.h"
#include "db/database.h"
#include "ingest/content/reader.h"
#include "ingest/record/parser.h"
#include "ingest/record/stream.h"
#include "ingest/report_pairs.h"
#include "ingest/source_store.h"
#include "ingest/text.h"
#include "ingest/content/archive.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

/// Contents up to this size are read whole; documents and archive members must fit.
constexpr size_t kWholeBytes = 32u << 20;
/// Runs with more trace rows than this are judged when they are asked about, not at ingest.
constexpr int64_t kJudgeRows = 100'000;
constexpr size_t kHeadBytes = 64u << 10;

enum class Kind { kRecords, kJson, kTable, kDocument, kLog, kUnknown };

std::string lower_extension(const std::string& path) {
  std::string name = text::to_lower(path.substr(path.find_last_of('/') + 1));
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  size_t dot = name.find_last_of('.');
  return dot == std::string::npos ? "" : name.substr(dot);
}

std::string file_stem(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name.substr(0, name.find_last_of('.'));
}

/// What a content is, by its extension where that says it, else by its first lines.
Kind classify(const std::string& path, std::string_view head) {
  std::string extension = lower_extension(path);
  if (extension == ".jsonl" || extension == ".ndjson") return Kind::kRecords;
  if (extension == ".json") return Kind::kJson;
  if (extension == ".tsv" || extension == ".csv") return Kind::kTable;
  if (extension == ".md") return Kind::kDocument;
  if (extension == ".log") return Kind::kLog;
  if (extension == ".txt") return looks_like_log(head) ? Kind::kLog : Kind::kDocument;
  size_t start = head.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  if (start == std::string_view::npos) return Kind::kUnknown;
  std::string_view first = head.substr(start, head.find('\n', start) - start);
  if (is_record_line(first)) return Kind::kRecords;
  return looks_like_log(head) ? Kind::kLog : Kind::kUnknown;
}

/// Bytes already read, then the rest of a reader: lets a content be sniffed and then streamed.
class PrefixedReader : public ContentReader {
 public:
  PrefixedReader(std::string_view prefix, ContentReader& rest) : prefix_(prefix), rest_(rest) {}
  size_t read(char* buffer, size_t size) override {
    if (!prefix_.empty()) {
      size_t n = std::min(size, prefix_.size());
      std::copy_n(prefix_.data(), n, buffer);
      prefix_.remove_prefix(n);
      if (prefix_.empty()) damage_ = rest_.damage();
      return n;
    }
    size_t n = rest_.read(buffer, size);
    damage_ = rest_.damage();
    return n;
  }

 private:
  std::string_view prefix_;
  ContentReader& rest_;
};

struct Input {
  fs::path path;
  int64_t bytes = 0;
  std::string not_read = {};  // why it is not even opened
  bool is_error = false;
};

/// Files below a directory; what is passed over is listed too, with the reason.
void list_directory(const fs::path& directory, std::vector<Input>& found) {
  std::error_code error, ignored;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (!it->is_directory(ignored)) {
      found.push_back({it->path()});
    } else if (it->is_symlink(ignored)) {
      found.push_back({it->path(), 0, "a link to a directory is not followed"});
    } else {
      list_directory(it->path(), found);
    }
  }
  if (error)
    found.push_back({directory, 0, "cannot read this directory: " + error.message(), true});
}

/// One content to ingest: a file or an archive member.
struct Content {
  std::string file;           // as findings name it: path, or archive!member
  std::string identity_path;  // what its run is told from
  std::string raw_sha256;     // of the stored bytes; "" not computed or a member
  int64_t raw_bytes = -1;     // of a loose file
};

class Importer {
 public:
  Importer(SQLite::Database& db, const IngestOptions& options)
      : db_(db), options_(options), writer_(db), store_(db, writer_) {}

  IngestSummary run(const std::vector<fs::path>& paths);

 private:
  std::vector<Input> list(const std::vector<fs::path>& paths);
  void ingest_inputs(const std::vector<Input>& inputs);
  void ingest_file(const Input& input);
  void ingest_archive(const fs::path& path);
  void ingest_content(const Content& content, ContentReader& reader);

  void store_whole(const Content& content, ContentReader& reader, Kind kind,
                   const std::string& bytes);
  void store_records(const Content& content, ContentReader& reader, std::string known_sha256);
  void store_json(int64_t source_id, const std::string& bytes);
  void store_tables(int64_t source_id, const std::vector<Table>& tables, bool is_report);
  void store_document(int64_t source_id, const Document& document);
  void store_log(int64_t source_id, const std::string& bytes);
  void write_batch(int64_t source_id, RecordBatch& batch);
  void drop_hashes(int64_t source_id, RecordBatch& batch);

  bool identify(const Content& content, std::string_view head, const std::string& sha256);
  void find(const std::string& file, int64_t line, bool is_error, const std::string& reason,
            std::string_view raw, std::optional<int64_t> source_id);
  void set_trouble(const std::string& damage, bool is_empty, bool is_compressed);
  void known(int64_t source_id, const Content& content);
  void progress(const std::string& current);
  void settle_and_judge();

  template <class Body>
  void in_transaction(Body&& body);

  SQLite::Database& db_;
  const IngestOptions& options_;
  TraceWriter writer_;
  SourceStore store_;
  IngestSummary summary_;
  IngestProgress progress_;
  std::set<std::string> undated_;  // date segments already warned about

  // of the content at hand
  RunIdentity identity_;
  bool has_identity_ = true;  // by path or document, not by content
  std::string trouble_;       // damage, or that it is empty
  bool trouble_is_error_ = false;
  int64_t run_id_ = 0;
  std::string file_;
  std::string broken_member_;
  std::string shape_;
  int64_t lines_ = 0, rows_ = 0, duplicates_ = 0, conflicts_ = 0;
  std::vector<int64_t> prompts_, contexts_;
  std::vector<PhaseId> phases_;
  std::vector<TensorId> names_;
};

/// Undone by an exception, and in a dry run at the end of it all.
template <class Body>
void Importer::in_transaction(Body&& body) {
  db_.exec(options_.dry_run ? "SAVEPOINT content" : "BEGIN IMMEDIATE");
  try {
    body();
    db_.exec(options_.dry_run ? "RELEASE content" : "COMMIT");
  } catch (...) {
    db_.tryExec(options_.dry_run ? "ROLLBACK TO content; RELEASE content" : "ROLLBACK");
    writer_.forget();
    throw;
  }
}

void Importer::find(const std::string& file, int64_t line, bool is_error, const std::string& reason,
                    std::string_view raw, std::optional<int64_t> source_id) {
  if (!store_.add_finding(source_id, file, line, is_error, reason, raw)) return;
  ++(is_error ? summary_.errors : summary_.warnings);
  if (summary_.findings.size() < IngestSummary::kMaxFindings) {
    summary_.findings.push_back({file, line, is_error, reason});
  }
}

void Importer::progress(const std::string& current) {
  progress_.current = current;
  progress_.rows = summary_.rows;
  if (options_.progress) options_.progress(progress_);
}

std::vector<Input> Importer::list(const std::vector<fs::path>& paths) {
  std::vector<Input> inputs;
  for (const fs::path& given : paths) {
    fs::path path = fs::absolute(given).lexically_normal();
    if (!fs::exists(path)) {
      throw std::system_error(std::make_error_code(std::errc::no_such_file_or_directory),
                              given.string());
    }
    if (!fs::is_directory(path)) {
      inputs.push_back({path});
      continue;
    }
    std::vector<Input> found;
    list_directory(path, found);
    std::sort(found.begin(), found.end(),
              [](const Input& a, const Input& b) { return a.path < b.path; });
    inputs.insert(inputs.end(), found.begin(), found.end());
  }
  for (Input& input : inputs) {
    std::error_code ignored;
    auto size = fs::file_size(input.path, ignored);
    input.bytes = ignored || !input.not_read.empty() ? 0 : static_cast<int64_t>(size);
    progress_.bytes_total += input.bytes;
  }
  progress_.files_total = static_cast<int64_t>(inputs.size());
  return inputs;
}

IngestSummary Importer::run(const std::vector<fs::path>& paths) {
  std::vector<Input> inputs = list(paths);
  if (!options_.dry_run) {
    ingest_inputs(inputs);
    make_durable(db_);
    return summary_;
  }
  db_.exec("BEGIN IMMEDIATE");
  try {
    ingest_inputs(inputs);
    db_.exec("ROLLBACK");
  } catch (...) {
    db_.tryExec("ROLLBACK");
    throw;
  }
  return summary_;
}

void Importer::ingest_inputs(const std::vector<Input>& inputs) {
  for (const Input& input : inputs) {
    progress(input.path.string());
    int64_t bytes_before = progress_.bytes_done;
    ingest_file(input);
    ++progress_.files_done;
    progress_.bytes_done = bytes_before + input.bytes;
  }
  settle_and_judge();
}

void Importer::ingest_file(const Input& input) {
  if (!input.not_read.empty()) {
    ++summary_.files;
    return in_transaction(
        [&] { find(input.path.string(), 0, input.is_error, input.not_read, "", {}); });
  }
  try {
    if (is_archive(input.path)) return ingest_archive(input.path);
    Content content{input.path.string(), input.path.string(), "", input.bytes};
    auto reader = open_content(input.path);
    ingest_content(content, *reader);
  } catch (const std::system_error& error) {
    ++summary_.files;
    in_transaction([&] { find(input.path.string(), 0, true, error.what(), "", {}); });
  }
}

void Importer::ingest_archive(const fs::path& path) {
  std::string archive = path.string();
  broken_member_.clear();
  std::string broken = for_each_member(
      path,
      [&](const ArchiveMember& member, ContentReader& reader) {
        Content content{archive + "!" + member.path, (path.parent_path() / member.path).string(),
                        "", -1};
        if (is_archive_name(member.path)) {
          ++summary_.files;
          in_transaction([&] {
            find(content.file, 0, false, "an archive inside an archive is not opened", "", {});
          });
          return;
        }
        ingest_content(content, reader);
      },
      [&](const std::string& member, const std::string& reason) {
        ++summary_.files;
        in_transaction(
            [&] { find(archive + "!" + member, 0, true, "refused: " + reason, "", {}); });
      });
  if (broken.empty()) return;
  if (!broken_member_.empty()) broken += " in member " + broken_member_ + ", which is not ingested";
  in_transaction([&] { find(archive, 0, true, broken, "", {}); });
}

/// Fills identity_; false when a path that says nothing holds a content that is known already.
bool Importer::identify(const Content& content, std::string_view head, const std::string& sha256) {
  identity_ = identify_run(content.identity_path);
  has_identity_ = true;
  if (!options_.run.empty()) {
    identity_ = identify_run(options_.run + "/" + identity_.leg + "/x");
    RunIdentity of_file = identify_run(content.identity_path);
    identity_.leg = of_file.leg;
    identity_.prompt = of_file.prompt;
    if (identity_.experiment.empty()) identity_.experiment = options_.run;
    return true;
  }
  if (!identity_.experiment.empty()) return true;
  if (identity_.date_segment.empty()) {
    if (auto there = store_.find_content(sha256)) {
      known(*there, content);
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
void Importer::known(int64_t source_id, const Content& content) {
  ++summary_.known_sources;
  if (!trouble_.empty() && !store_.has_location(source_id, identity_.relative_path)) {
    find(content.file, 0, trouble_is_error_, trouble_, "", source_id);
  }
  store_.add_location(source_id, content.file, content.raw_sha256, content.raw_bytes);
}

void Importer::set_trouble(const std::string& damage, bool is_empty, bool is_compressed) {
  trouble_is_error_ = !damage.empty();
  trouble_ = trouble_is_error_ ? damage
             : !is_empty       ? ""
             : is_compressed   ? "a valid gzip of nothing"
                               : "an empty file";
}

std::string sha256_of_file(const fs::path& path) {
  Sha256 sha;
  auto reader = std::make_unique<std::vector<char>>(1u << 20);
  FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return "";
  for (size_t n; (n = std::fread(reader->data(), 1, reader->size(), file)) > 0;)
    sha.update(reader->data(), n);
  std::fclose(file);
  return sha.hex();
}

void Importer::ingest_content(const Content& given, ContentReader& reader) {
  ++summary_.files;
  Content content = given;
  file_ = content.file;
  lines_ = rows_ = duplicates_ = conflicts_ = 0;
  shape_.clear();
  std::string bytes;
  bytes.resize(kHeadBytes);
  size_t filled = 0;
  // Read whole what fits; what does not is streamed from here on.
  bool is_large = content.raw_bytes > static_cast<int64_t>(kWholeBytes);
  size_t limit = is_large ? kHeadBytes : kWholeBytes + 1;
  for (size_t n = 1; n > 0 && filled < limit; filled += n) {
    if (filled == bytes.size()) bytes.resize(std::min(bytes.size() * 4, limit));
    n = reader.read(bytes.data() + filled, bytes.size() - filled);
  }
  bytes.resize(filled);
  bool is_whole = filled < limit;
  std::string_view head = std::string_view(bytes).substr(0, kHeadBytes);
  Kind kind = classify(content.identity_path, head);

  set_trouble(reader.damage(), is_whole && bytes.empty(), reader.is_compressed());

  if (reader.source_failed() && content.raw_bytes < 0) {  // the archive breaks in this member
    broken_member_ = content.file.substr(content.file.find('!') + 1);
    return;
  }

  std::optional<BulkJournal> bulk;
  if (!is_whole && !options_.dry_run) bulk.emplace(db_);
  in_transaction([&] {
    if (kind == Kind::kUnknown) {
      return find(content.file, 0, false, "a file of no shape greta knows; not ingested", "", {});
    }
    if (!is_whole && kind != Kind::kRecords) {
      return find(content.file, 0, true, "larger than a document may be (32 MiB); not ingested", "",
                  {});
    }
    std::string sha256;
    if (is_whole) sha256 = Sha256::hex_of(bytes);
    if (!identify(content, head, sha256)) return;
    run_id_ = store_.run_id(identity_);
    SourceStore::SourceKey key{run_id_, identity_.leg, identity_.prompt, sha256};
    if (content.raw_bytes >= 0 && (is_whole || store_.any_stored_with_size(content.raw_bytes))) {
      content.raw_sha256 =
          is_whole && !reader.is_compressed() ? sha256 : sha256_of_file(content.file);
    }
    if (!is_whole) {
      if (!content.raw_sha256.empty()) {
        if (auto there = store_.find_stored(key, content.raw_sha256, content.raw_bytes))
          return known(*there, content);
      }
      PrefixedReader whole(bytes, reader);
      return store_records(content, whole, "");
    }
    if (auto there = store_.find_source(key)) return known(*there, content);
    store_whole(content, reader, kind, bytes);
  });
}

void Importer::store_whole(const Content& content, ContentReader& reader, Kind kind,
                           const std::string& bytes) {
  struct NoMore : ContentReader {
    size_t read(char*, size_t) override { return 0; }
    void say(const std::string& damage) { damage_ = damage; }
  } nothing;
  nothing.say(reader.damage());
  std::string sha256 = Sha256::hex_of(bytes);

  if (kind == Kind::kRecords) {
    PrefixedReader whole(bytes, nothing);
    if (bytes.empty() && reader.damage().empty()) {
      int64_t id =
          store_.add_source({run_id_, identity_.leg, identity_.prompt, sha256}, "empty", 0);
      store_.add_location(id, content.file, content.raw_sha256, content.raw_bytes);
      ++summary_.new_sources;
      return find(content.file, 0, false, trouble_, "", id);
    }
    return store_records(content, whole, sha256);
  }

  int64_t id = store_.add_source({run_id_, identity_.leg, identity_.prompt, sha256}, "document",
                                 static_cast<int64_t>(bytes.size()));
  store_.add_location(id, content.file, content.raw_sha256, content.raw_bytes);
  ++summary_.new_sources;
  lines_ = std::count(bytes.begin(), bytes.end(), '\n') + (!bytes.empty() && bytes.back() != '\n');
  if (!reader.damage().empty()) find(content.file, 0, true, reader.damage(), "", id);
  switch (kind) {
    case Kind::kJson:
      store_json(id, bytes);
      break;
    case Kind::kTable: {
      shape_ = "table";
      Table table =
          read_delimited(bytes, lower_extension(content.identity_path) == ".csv" ? ',' : '\t');
      store_tables(id, {table}, false);
      break;
    }
    case Kind::kLog:
      store_log(id, bytes);
      break;
    default:
      store_document(id, read_document(bytes));
  }
  if (bytes.empty() && kind != Kind::kJson) find(content.file, 0, false, "an empty file", "", id);
  store_.finish_source(id, sha256, shape_, static_cast<int64_t>(bytes.size()), lines_, rows_,
                       duplicates_, conflicts_);
}

void Importer::store_records(const Content& content, ContentReader& reader,
                             std::string known_sha256) {
  SourceStore::SourceKey key{run_id_, identity_.leg, identity_.prompt,
                             known_sha256.empty() ? "being read" : known_sha256};
  int64_t id = store_.add_source(key, "records", 0);
  ++summary_.new_sources;
  prompts_.clear(), contexts_.clear(), phases_.clear(), names_.clear();
  RecordParser parser(
      {identity_.leg,
       identity_.prompt.empty() ? file_stem(content.identity_path) : identity_.prompt,
       {}});
  int64_t bytes_before = progress_.bytes_done;
  auto on_bytes = [&](int64_t bytes) {
    if (content.raw_bytes > 0)
      progress_.bytes_done = bytes_before + std::min(bytes, content.raw_bytes);
    progress(content.file);
  };
  IngestSummary before = summary_;
  // A small content is parsed faster than a thread starts.
  bool threaded = options_.jobs > 1 && known_sha256.empty();
  StreamEnd end = stream_records(
      reader, parser, threaded, [&](RecordBatch& batch) { write_batch(id, batch); }, on_bytes);
  if (!end.damage.empty())
    find(content.file, end.tail.empty() ? 0 : end.lines, true, end.damage, end.tail, id);
  if (parser.phase_conflict()) {
    find(content.file, 0, false,
         "lines of the other phase in a " + identity_.leg + " directory; the lines are believed",
         "", id);
  }
  key.sha256 = end.sha256;
  if (known_sha256.empty()) {
    auto there = has_identity_ ? store_.find_source(key) : store_.find_content(end.sha256);
    if (there) {  // only its end told: undo all of it but the location
      set_trouble(end.damage, false, false);
      writer_.forget();
      db_.exec(options_.dry_run ? "ROLLBACK TO content" : "ROLLBACK; BEGIN IMMEDIATE");
      summary_ = std::move(before);
      --summary_.new_sources;
      return known(*there, content);
    }
  }
  shape_ = parser.shape().empty() ? "unknown" : parser.shape();
  store_.finish_source(id, end.sha256, shape_, end.bytes, end.lines, rows_, duplicates_,
                       conflicts_);
  std::string raw = content.raw_sha256.empty() && content.raw_bytes == end.bytes
                        ? end.sha256
                        : content.raw_sha256;
  store_.add_location(id, content.file, raw, content.raw_bytes);
}

void Importer::write_batch(int64_t source_id, RecordBatch& batch) {
  for (const PromptSymbol& symbol : batch.prompts)
    prompts_.push_back(store_.prompt_id(run_id_, symbol));
  for (const std::string& name : batch.phases) phases_.push_back(writer_.phase_id(name));
  for (const std::string& name : batch.names) names_.push_back(writer_.tensor_id(name));
  for (const RowContext& context : batch.contexts)
    contexts_.push_back(writer_.add_context(context));
  for (const RunEvent& event : batch.events)
    store_.add_run_event(source_id, run_id_, identity_, event);
  if (!batch.hash_algo.empty() && !store_.use_hash_algo(run_id_, batch.hash_algo))
    drop_hashes(source_id, batch);
  for (TraceRow& row : batch.rows) {
    const PhaseId& phase = phases_[static_cast<size_t>(row.phase_id)];
    const TensorId& tensor = names_[static_cast<size_t>(row.name_id)];
    row.run_id = run_id_;
    row.prompt_id = prompts_[static_cast<size_t>(row.prompt_id)];
    row.phase_id = phase.id;
    row.side = phase.side;
    row.name_id = tensor.name_id;
    row.tensor_id = tensor.tensor_id;
    if (row.context_id) row.context_id = contexts_[static_cast<size_t>(*row.context_id)];
    row.source_id = source_id;
  }
  WriteCounts counts = writer_.write(batch.rows);
  for (const Readout& r : batch.readouts) {
    if (store_.add_readout(source_id, run_id_, prompts_[static_cast<size_t>(r.prompt_id)],
                           phases_[static_cast<size_t>(r.phase_id)].side,
                           names_[static_cast<size_t>(r.name_id)].name_id, r))
      continue;
    find(file_, r.line, false,
         "another readout of this step is there and is kept; this one is " + text_of(r), "",
         source_id);
  }
  for (const LineFinding& f : batch.findings)
    find(file_, f.line, f.is_error, f.reason, f.raw, source_id);
  for (int64_t line : counts.conflict_lines) {
    find(file_, line, false, "a row with this key but other content is there; both are kept", "",
         source_id);
  }
  int64_t conflicts = static_cast<int64_t>(counts.conflict_lines.size());
  lines_ += batch.lines;
  rows_ += static_cast<int64_t>(batch.rows.size());
  duplicates_ += counts.duplicates;
  conflicts_ += conflicts;
  summary_.rows += counts.inserted;
  summary_.duplicates += counts.duplicates;
  summary_.conflicts += conflicts;
}

/// The run's rows are hashed by another algorithm: these stay comparable by sample and sketch.
void Importer::drop_hashes(int64_t source_id, RecordBatch& batch) {
  for (TraceRow& row : batch.rows) {
    if (!row.hash) continue;
    find(file_, row.line, false,
         "hash " + std::to_string(*row.hash) + " is by " + batch.hash_algo +
             ", not by what hashes this run; the row is kept without it",
         "", source_id);
    row.hash.reset();
    row.flags |= kFlagRejectedField;
  }
}

void Importer::store_json(int64_t source_id, const std::string& bytes) {
  JsonFacts facts = read_json_facts(bytes, file_stem(file_));
  shape_ = facts.kind.empty() ? "json" : facts.kind;
  if (!facts.error.empty()) return find(file_, 0, true, facts.error, bytes, source_id);
  summary_.metrics += store_.add_json_facts(source_id, run_id_, identity_, facts);
  if (!identity_.date_segment.empty() && identity_.date.empty() && !facts.timestamp.empty() &&
      undated_.insert(identity_.date_segment).second) {
    find(file_, 0, false,
         "directory " + identity_.date_segment +
             " is not a date; the earliest timestamp gives the date of its runs",
         "", source_id);
  }
}

void Importer::store_tables(int64_t source_id, const std::vector<Table>& tables, bool is_report) {
  for (const Table& table : tables) {
    store_.add_table(source_id, table);
    auto pairs = report_pairs(table);
    if (!pairs) continue;
    is_report = true;
    for (const ReportPair& pair : *pairs) store_.add_report_pair(source_id, run_id_, pair);
    summary_.report_pairs += static_cast<int64_t>(pairs->size());
  }
  if (!is_report) return;
  shape_ = "report";
  store_.add_report(source_id, run_id_, identity_.relative_path);
}

void Importer::store_document(int64_t source_id, const Document& document) {
  shape_ = "document";
  bool judges = false;
  for (const DocumentClaim& c : document.claims) {
    store_.add_claim(source_id, run_id_, c.line, c.kind, c.value, c.text);
    judges |= c.kind == "verdict";
  }
  for (const auto& [name, count] : document.counts) {
    store_.add_claim(source_id, run_id_, 0, name, std::to_string(count), "");
  }
  if (!document.commit.empty())
    store_.add_attribute(run_id_, "commit", document.commit, AttributeRank::kDocument,
                         identity_.leg, source_id);
  if (!document.date.empty())
    store_.add_attribute(run_id_, "document_date", document.date, AttributeRank::kDocument,
                         identity_.leg, source_id);
  if (!document.title.empty())
    store_.add_attribute(run_id_, "title", document.title, AttributeRank::kDocument, identity_.leg,
                         source_id);
  store_tables(source_id, document.tables, judges);
  if (!document.valid_utf8) find(file_, 0, false, "not valid UTF-8", "", source_id);

  RecordParser parser({identity_.leg, identity_.prompt, document.prompt_names});
  RecordBatch batch;
  prompts_.clear(), contexts_.clear(), phases_.clear(), names_.clear();
  for (const FencedLine& line : document.json_lines) {
    if (!is_record_line(line.text)) continue;
    std::string padded = line.text + std::string(RecordParser::kPaddingBytes, ' ');
    parser.parse({padded.data(), line.text.size()}, padded.size(), line.line, batch);
  }
  if (batch.lines == 0) return;
  int64_t lines = lines_;
  write_batch(source_id, batch);
  lines_ = lines;
  if (!parser.shape().empty()) shape_ = parser.shape();
}

void Importer::store_log(int64_t source_id, const std::string& bytes) {
  shape_ = "log";
  LogParser parser;
  std::vector<LogEvent> events;
  int64_t line_no = 0, last_line = 0, seq = 0;
  for (std::string_view line : text::split_lines(bytes)) {
    events.clear();
    parser.add_line(line, ++line_no, events);
    for (const LogEvent& event : events) {
      seq = event.line == last_line ? seq + 1 : 0;
      last_line = event.line;
      store_.add_log_event(source_id, run_id_, identity_.prompt, event, seq);
      ++summary_.log_events;
    }
  }
  LogFacts facts = parser.facts();
  for (const auto& [name, value] : facts.facts) {
    std::optional<double> number;
    if (char* end = nullptr; !value.empty()) {
      double parsed = std::strtod(value.c_str(), &end);
      if (*end == '\0') number = parsed;
    }
    store_.add_metric(source_id, run_id_, identity_.leg, identity_.prompt, name, number, value);
    ++summary_.metrics;
  }
  if (facts.prompt_tokens && !identity_.prompt.empty()) {
    store_.set_prompt_length(run_id_, identity_.prompt, *facts.prompt_tokens);
  }
  if (!facts.valid_utf8) find(file_, 0, false, "not valid UTF-8; kept as it is", "", source_id);
}

void Importer::settle_and_judge() {
  in_transaction([&] {
    for (const std::string& experiment : store_.take_unsettled()) store_.settle(experiment);
  });
  progress("");
  for (int64_t id : runs_without_tally(db_, kJudgeRows)) {
    in_transaction([&] { keep_tally(db_, id); });
  }
}

}  // namespace

IngestSummary ingest(SQLite::Database& db, const std::vector<std::filesystem::path>& paths,
                     const IngestOptions& options) {
  return Importer(db, options).run(paths);
}

}  // namespace greta
