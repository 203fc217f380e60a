#include "db/merge.h"

#include <set>
#include <unordered_map>

#include "db/check.h"
#include "db/database.h"
#include "db/definitions.h"
#include "db/difference.h"
#include "db/forget.h"
#include "db/judge.h"
#include "db/row_statement.h"
#include "db/run_records.h"
#include "db/schema.h"
#include "db/trace_writer.h"

namespace greta {
namespace {

constexpr size_t kRowsPerBatch = 1024;

/// Rows on their way, with the samples and sketches that they borrow: those are never reallocated.
struct Batch {
  Batch() {
    rows.reserve(kRowsPerBatch);
    samples.reserve(kRowsPerBatch);
    sketches.reserve(kRowsPerBatch);
  }
  void clear() {
    rows.clear();
    samples.clear();
    sketches.clear();
  }
  std::vector<TraceRow> rows;
  std::vector<std::vector<float>> samples;
  std::vector<RowSketch> sketches;
};

/// Adds a row of db/sql/merge_rows.sql.
void add_row(Batch& batch, RowStatement& from) {
  constexpr int kFirstValue = 14, kSample = 26, kSketch = 27;
  TraceRow& row = batch.rows.emplace_back();
  from.read(0, row.run_id, row.prompt_id, row.phase_id, row.side, row.name_id, row.tensor_id,
            row.source_id, row.pos_id, row.layer, row.step, row.line, row.ptr, row.offset_bytes,
            row.context_id);
  read_values(from, kFirstValue, row);
  if (!from.is_null(kSample)) row.sample = batch.samples.emplace_back(from.floats(kSample));
  if (from.is_null(kSketch)) return;
  row.sketch = &batch.sketches.emplace_back(row_form(read_sketch(from, kSketch + 1)));
}

/// A commit.
struct Node {
  std::string sha;
  int64_t parents = 0;           ///< that have no place yet
  std::vector<size_t> children;  ///< as indexes
};

/// By time and SHA, so that an index tells which of two is the earlier.
std::vector<Node> read_graph(SQLite::Database& db) {
  std::vector<Node> nodes;
  std::unordered_map<std::string, size_t> index;
  SQLite::Statement shas(db, "SELECT sha FROM commit_node ORDER BY committed_at, sha");
  while (shas.executeStep()) {
    index.emplace(shas.getColumn(0).getString(), nodes.size());
    nodes.emplace_back().sha = shas.getColumn(0).getString();
  }
  SQLite::Statement edges(db, "SELECT parent, sha FROM commit_parent");
  while (edges.executeStep()) {
    const auto parent = index.find(edges.getColumn(0).getString());
    const auto child = index.find(edges.getColumn(1).getString());
    if (parent == index.end() || child == index.end()) continue;  // of a shallow clone
    nodes[parent->second].children.push_back(child->second);
    ++nodes[child->second].parents;
  }
  return nodes;
}

/// Sets commit_node.ord anew, so that parents come before children, and of commits that do not
/// follow from one another the earlier first. Commits that are their own ancestors come last.
void order_commits(SQLite::Database& db) {
  std::vector<Node> nodes = read_graph(db);
  std::set<size_t> ready;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].parents == 0) ready.insert(i);
  }
  SQLite::Statement place(db, "UPDATE commit_node SET ord = ?1 WHERE sha = ?2 AND ord <> ?1");
  int64_t ord = 0;
  const auto give_place = [&](const Node& node) {
    place.bind(1, ord++);
    place.bind(2, node.sha);
    place.exec();
    place.reset();
  };
  while (!ready.empty()) {
    const Node& node = nodes[*ready.begin()];
    ready.erase(ready.begin());
    give_place(node);
    for (const size_t child : node.children) {
      if (--nodes[child].parents == 0) ready.insert(child);
    }
  }
  for (const Node& node : nodes) {
    if (node.parents > 0) give_place(node);
  }
}

/// One merge of the database `other`, which is attached under that name and called `called`.
class Merge {
 public:
  Merge(SQLite::Database& db, std::string called) : db_(db), called_(std::move(called)) {}

  /// By a URI, so that nothing can write to the other file.
  MergeSummary run(const std::string& uri) {
    {
      SQLite::Statement attach(db_, "ATTACH ? AS other");
      attach.bind(1, uri);
      attach.exec();
    }
    try {
      run_file("db/sql/merge_maps.sql");
      SQLite::Transaction transaction(db_);  // deferred, so that the other file is not locked
      copy_all();
      transaction.commit();
    } catch (...) {
      db_.tryExec("DETACH other");
      throw;
    }
    db_.tryExec("DETACH other");
    judge_rest(db_);
    return summary_;
  }

 private:
  int run_file(const char* path) { return db_.exec(sql_of_file(path)); }
  int64_t count(const std::string& what) {
    return db_.execAndGet("SELECT count(*) FROM " + what).getInt64();
  }

  void copy_all() {
    run_file("db/sql/merge_runs.sql");
    add_runs();
    TraceWriter writer(db_);
    enter_names(writer);
    run_file("db/sql/merge_dictionaries.sql");
    forget_what_is_whole_there();
    run_file("db/sql/merge_sources.sql");
    refuse_conflicts();
    summary_.new_runs = count("temp.merge_run WHERE is_new");
    summary_.new_sources = count("temp.merge_source WHERE is_new");
    summary_.known_sources = count("temp.merge_source WHERE NOT is_new");
    summary_.pins_left = count("other.pinned_baseline");
    summary_.waivers_left = count("other.waiver");
    if (summary_.new_sources > 0) copy_rows(writer);
    copy_differences();
    if (run_file("db/sql/merge_rest.sql") > 0) order_commits(db_);
    db_.exec(std::string(kSetStatus) + "(SELECT id FROM temp.merge_run)");
  }

  /// New runs, under names that are free here.
  void add_runs() {
    Statements sql(db_);
    SQLite::Statement runs(db_,
                           "SELECT o.id, o.name FROM other.run o JOIN temp.merge_run m"
                           " ON m.other_id = o.id WHERE m.is_new ORDER BY o.id");
    while (runs.executeStep()) {
      const int64_t other_id = runs.getColumn(0);
      const std::string there = runs.getColumn(1), here = free_run_name(db_, there);
      sql("INSERT INTO main.run(name, experiment, family, variant, date, commit_sha, synthetic,"
          " mode, dtype, seed, hash_algo, status, started_at, finished_at)"
          " SELECT ?, experiment, family, variant, date, commit_sha, synthetic, mode, dtype, seed,"
          " hash_algo, status, started_at, finished_at FROM other.run WHERE id = ?",
          here, other_id)
          .exec();
      sql("UPDATE temp.merge_run SET id = ? WHERE other_id = ?", db_.getLastInsertRowid(), other_id)
          .exec();
      if (here != there) summary_.renamed.emplace_back(there, here);
    }
  }

  /// Names of trace points, where greta does not know them as the writer enters them.
  void enter_names(TraceWriter& writer) {
    Statements sql(db_);
    SQLite::Statement names(db_,
                            "SELECT n.name, k.name, n.cause FROM other.tensor_name n"
                            " JOIN other.tensor k ON k.id = n.tensor_id ORDER BY n.id");
    while (names.executeStep()) {
      const TensorId canonical = writer.tensor_id(names.getColumn(1).getString());
      sql("INSERT OR IGNORE INTO main.tensor_name(name, tensor_id, cause) VALUES (?, ?, ?)",
          names.getColumn(0).getString(), canonical.tensor_id, names.getColumn(2).getString())
          .exec();
    }
  }

  /// Sources that were forgotten in part here come whole from there.
  void forget_what_is_whole_there() {
    SQLite::Statement whole(
        db_,
        "SELECT x.run_id, x.leg, x.prompt, s.sha256 FROM main.source x"
        " JOIN temp.merge_run m ON m.id = x.run_id JOIN other.source s ON s.run_id = m.other_id"
        " AND s.leg = x.leg AND s.prompt = x.prompt AND x.sha256 = ? || s.sha256"
        " WHERE instr(x.sha256, ?) = 1");
    whole.bind(1, kForgottenInPart);
    whole.bind(2, kForgottenInPart);
    std::vector<NewSource> found;
    while (whole.executeStep()) {
      found.push_back({whole.getColumn(0).getInt64(), whole.getColumn(1).getString(),
                       whole.getColumn(2).getString(), whole.getColumn(3).getString(), "", 0});
    }
    whole.reset();
    for (const NewSource& one : found) {
      forget_marked_source(db_, one.run_id, one.leg, one.prompt, one.sha256);
    }
  }

  void refuse_conflicts() {
    SQLite::Statement conflict(db_, sql_of_file("db/sql/merge_refusal.sql"));
    if (conflict.executeStep()) {
      throw DatabaseError(called_ + ": " + conflict.getColumn(0).getString());
    }
  }

  void copy_rows(TraceWriter& writer) {
    run_file("db/sql/merge_contexts.sql");
    Batch batch;
    const auto write = [&] {
      const WriteCounts counts = writer.write(batch.rows);
      summary_.rows += counts.inserted;
      summary_.duplicates += counts.duplicates;
      summary_.conflicts += static_cast<int64_t>(counts.conflict_lines.size());
      batch.clear();
    };
    RowStatement rows(db_, sql_of_file("db/sql/merge_rows.sql"));
    int64_t taken = 0;
    for (; rows.step(); ++taken) {
      add_row(batch, rows);
      if (batch.rows.size() == kRowsPerBatch) write();
    }
    write();
    const int64_t there = count(
        "other.trace_row t JOIN temp.merge_run r ON r.other_id = t.run_id WHERE r.has_new"
        " AND NOT EXISTS (SELECT 1 FROM temp.merge_source s WHERE s.other_id = t.source_id"
        " AND (NOT s.is_new OR t.line <= s.from_line))");
    if (there == taken) return;
    throw DatabaseError(called_ + " is damaged: " + std::to_string(there - taken) +
                        " trace rows of it belong to nothing; nothing was merged");
  }

  /// Each says of which hashes it speaks, so that it cannot be of other rows than here.
  void copy_differences() {
    RowStatement there(db_,
                       "SELECT r.id, q.id, x.pos_id, x.layer, t.id, x.prefill_hash, x.decode_hash,"
                       " x.n, x.differing, x.first_at, x.last_at, x.rel_l2, x.max_abs,"
                       " x.max_abs_at, x.max_ulp, x.heads, x.segments, x.id FROM other.difference x"
                       " JOIN temp.merge_run r ON r.other_id = x.run_id"
                       " JOIN temp.merge_prompt q ON q.other_id = x.prompt_id"
                       " JOIN temp.merge_tensor t ON t.other_id = x.tensor_id"),
        insert(db_, kInsertDifference), drop_parts(db_, kDropDifferenceParts),
        parts(db_,
              "INSERT INTO main.difference_part SELECT ?, segment, share_ppm"
              " FROM other.difference_part WHERE difference_id = ?");
    while (there.step()) {
      for (int i = 0; i < kDifferenceValues; ++i) insert.bind_column(there, i);
      if (insert.step()) {
        const int64_t id = insert.integer(0);
        drop_parts.bind(id);
        drop_parts.run();
        parts.bind(id);
        parts.bind(there.integer(kDifferenceValues));
        parts.run();
      }
      insert.reset();
    }
    there.reset();
  }

  SQLite::Database& db_;
  std::string called_;
  MergeSummary summary_;
};

/// What a damaged file has lost would be missed by nobody once it is merged.
void refuse_damaged(SQLite::Database& opened, const std::filesystem::path& other,
                    const std::string& called) {
  std::vector<std::string> problems;
  if (std::string line = opened.execAndGet("PRAGMA quick_check(1)").getString(); line != "ok") {
    problems.push_back("integrity: " + line);
  } else {
    problems = check_content(opened);
  }
  if (problems.empty()) return;
  const std::string what = problems.front() + (problems.size() > 1 ? ", and more" : "");
  if (!called.empty()) {
    throw DatabaseError("what came from " + called + " is damaged (" + what +
                        "): nothing was merged");
  }
  throw DatabaseError(other.string() + " is damaged (" + what +
                      "): nothing was merged; `greta-db --db " + other.string() +
                      " check` says what");
}

/// Throws unless the other file can be merged; returns by which name.
std::string check_other(SQLite::Database& db, const std::filesystem::path& other,
                        const std::string& called) {
  SQLite::Database opened = open_unchanged(other);
  int64_t version = opened.execAndGet("PRAGMA user_version").getInt64();
  if (version != kSchemaVersion) {
    throw DatabaseError(other.string() + " has schema version " + std::to_string(version) +
                        ", not " + std::to_string(kSchemaVersion) + ": `greta-db --db " +
                        other.string() + " check` brings it forward");
  }
  if (const auto differences = definition_differences(opened); any_table(differences)) {
    throw DefinitionError(other.string() + " is not as greta makes it (" + text_of(differences) +
                          "): nothing was merged");
  }
  refuse_damaged(opened, other, called);
  if (opened.execAndGet("SELECT count(*) FROM ingest").getInt64() > 0) {
    throw DatabaseError(other.string() + " has an ingest that did not end: `greta-db --db " +
                        other.string() + " ingest --resume` finishes it");
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(db.getFilename(), other, ignored)) {
    throw DatabaseError(other.string() + " is the database itself: name another one to merge");
  }
  const std::string& name = opened.getFilename();
  const bool is_uri = name.starts_with("file:");  // of one beside which nothing can be written
  return is_uri ? name : uri_of(std::filesystem::absolute(other)) + "?mode=ro";
}

}  // namespace

MergeSummary merge(SQLite::Database& db, const std::filesystem::path& other,
                   const std::string& called) {
  const std::string uri = check_other(db, other, called);
  return Merge(db, called.empty() ? other.string() : called).run(uri);
}

}  // namespace greta
