// A database made of the rows that a test spells out, and what its views say about them.
#pragma once
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cctype>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "db/database.h"
#include "db/judge.h"
#include "db/schema.h"
#include "db/statements.h"
#include "db/stored_sketch.h"
#include "tests/queries/empty_database.h"
#include "tests/query_text.h"

namespace greta {

struct RunSpec {
  std::string name = "r";
  std::string experiment = "e";
  std::optional<std::string> mode = {}, dtype = {}, date = {}, commit = {};
  std::string hash_algo = "greta-1";
  std::string status = "unknown";
};

/// One trace row. The setters return a changed copy, so that a row reads as one line.
struct Row {
  std::string tensor = {}, phase = {}, prompt = {};  // prompt "": the warehouse's current one
  int64_t layer_id = 0, pos_id = 37, step_id = 0;
  std::optional<uint64_t> hash = {};
  std::optional<int64_t> n = 4, token_id = {}, logical_idx = {}, nan_count = 0, inf_count = 0;
  std::optional<double> max = {}, mean = {};
  int64_t flags = 0;
  std::vector<float> sample = {};         // kept, and its derived sketch with it
  std::vector<float> sketch_values = {};  // sketched whole, not kept

  Row at(int64_t pos) const { return with(&Row::pos_id, pos); }
  Row step(int64_t value) const { return with(&Row::step_id, value); }
  Row in(std::string value) const { return with(&Row::phase, std::move(value)); }
  Row of(std::string value) const { return with(&Row::prompt, std::move(value)); }
  Row token(int64_t value) const { return with(&Row::token_id, std::optional(value)); }
  Row logical(int64_t value) const { return with(&Row::logical_idx, std::optional(value)); }
  Row length(std::optional<int64_t> value) const { return with(&Row::n, value); }
  Row nans(std::optional<int64_t> value) const { return with(&Row::nan_count, value); }
  Row infs(std::optional<int64_t> value) const { return with(&Row::inf_count, value); }
  Row up_to(double value) const { return with(&Row::max, std::optional(value)); }
  Row averaging(double value) const { return with(&Row::mean, std::optional(value)); }
  Row flagged(int64_t value) const { return with(&Row::flags, value); }
  Row sampled(std::vector<float> values) const { return with(&Row::sample, std::move(values)); }
  Row sketched(std::vector<float> values) const {
    return with(&Row::sketch_values, std::move(values));
  }

 private:
  template <class T>
  Row with(T Row::*field, T value) const {
    Row copy = *this;
    copy.*field = std::move(value);
    return copy;
  }
};

inline Row prefill(std::string tensor, int64_t layer, std::optional<uint64_t> hash = {}) {
  return {.tensor = std::move(tensor), .phase = "prefill_last", .layer_id = layer, .hash = hash};
}

inline Row decode(std::string tensor, int64_t layer, std::optional<uint64_t> hash = {}) {
  return {.tensor = std::move(tensor),
          .phase = "decode0",
          .layer_id = layer,
          .step_id = 1,
          .hash = hash};
}

/// A row of a report's table; line counts from 1.
struct ReportRow {
  std::string prompt = {};
  std::optional<int64_t> layer = {};
  std::optional<std::string> tensor = {};
  std::string status = {};  // MATCH, DRIFT, MISSING
  std::optional<std::string> cause = {}, details = {};
  std::optional<int64_t> token_id = {}, pos_id = {};
};

class Warehouse {
  // Before `db` and `queries_`, which refer to one of them.
  EmptyDatabases::Lent lent_;
  std::unique_ptr<PreparedDatabase> own_;

 public:
  Warehouse() : lent_(EmptyDatabases::lend()), db(lent_->db), queries_(lent_->queries) {}
  explicit Warehouse(const std::filesystem::path& file)
      : own_(std::make_unique<PreparedDatabase>(open_for_writing(file))),
        db(own_->db),
        queries_(own_->queries) {}
  Warehouse(const Warehouse&) = delete;
  ~Warehouse() {
    if (lent_ && checked_) expect_kept_is_what_the_views_say();
  }

  /// Adds a run, which the calls that follow write to. Without one, they write to RunSpec{}.
  int64_t run(const RunSpec& spec = {}) {
    SQLite::Statement& insert = prepared_(
        "INSERT INTO run(name, experiment, mode, dtype, date, commit_sha,"
        " hash_algo, status) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
    bind_all(insert, spec.name, spec.experiment, spec.mode, spec.dtype, spec.date, spec.commit,
             spec.hash_algo, spec.status);
    insert.exec();
    run_id_ = db.getLastInsertRowid();
    source_id_ = 0;
    sketch_ids_.forget();
    return run_id_;
  }

  /// Rows without a prompt of their own belong to `name` from now on.
  void use_prompt(std::string name) { prompt_ = std::move(name); }

  template <class... Rows>
  void add(const Rows&... rows) {
    (add_row(rows), ...);
  }

  // Pairs of prefill_last and decode0 rows at position 37.
  void match(const std::string& tensor, int64_t layer) {
    add(prefill(tensor, layer, 1), decode(tensor, layer, 1));
  }
  /// Differs, with nothing to measure by how much.
  void drift(const std::string& tensor, int64_t layer) {
    add(prefill(tensor, layer, 1), decode(tensor, layer, 2));
  }
  /// Differs by 0.1 %.
  void rounding(const std::string& tensor, int64_t layer) {
    add(prefill(tensor, layer, 1).sketched({1000, 0, 0, 0}),
        decode(tensor, layer, 2).sketched({999, 0, 0, 0}));
  }
  /// Differs by 50 %.
  void divergent(const std::string& tensor, int64_t layer) {
    add(prefill(tensor, layer, 1).sketched({2, 0, 0, 0}),
        decode(tensor, layer, 2).sketched({1, 0, 0, 0}));
  }
  void incomparable(const std::string& tensor, int64_t layer) {
    add(prefill(tensor, layer), decode(tensor, layer));
  }

  /// Equal sketches, and nothing else.
  void close(const std::string& tensor, int64_t layer) {
    add(prefill(tensor, layer).sketched({2, 0}), decode(tensor, layer).sketched({2, 0}));
  }
  void nonfinite(const std::string& tensor, int64_t layer) {
    add(prefill(tensor, layer, 1).nans(1), decode(tensor, layer, 1).nans(1));
  }
  void ambiguous(const std::string& tensor, int64_t layer) {
    add(prefill(tensor, layer, 1), prefill(tensor, layer, 2), decode(tensor, layer, 1));
  }
  /// Decode lost it.
  void missing(const std::string& tensor, int64_t layer) { add(prefill(tensor, layer, 1)); }

  /// Several of these: "match x_in 0; drift attn_out 3". "none" adds nothing.
  void pairs(const std::string& told) {
    static const std::map<std::string, void (Warehouse::*)(const std::string&, int64_t)> kStates = {
        {"match", &Warehouse::match},
        {"drift", &Warehouse::drift},
        {"rounding", &Warehouse::rounding},
        {"divergent", &Warehouse::divergent},
        {"incomparable", &Warehouse::incomparable},
        {"close", &Warehouse::close},
        {"nonfinite", &Warehouse::nonfinite},
        {"ambiguous", &Warehouse::ambiguous},
        {"missing", &Warehouse::missing}};
    std::istringstream all(told);
    for (std::string one; std::getline(all, one, ';');) {
      std::istringstream words(one);
      std::string state, tensor;
      int64_t layer = 0;
      words >> state >> tensor >> layer;
      if (state != "none") (this->*kStates.at(state))(tensor, layer);
    }
  }

  /// Declares every (prompt, side, layer, tensor) that the run has rows of.
  void plan_what_is_there() {
    db.exec(
        "INSERT INTO plan SELECT DISTINCT run_id, prompt_id, side, layer, tensor_id"
        " FROM trace_row WHERE side < 2 AND run_id = " +
        std::to_string(current_run()));
  }
  void plan(const std::string& prompt, int side, int64_t layer, const std::string& tensor) {
    SQLite::Statement insert(
        db, "INSERT INTO plan SELECT ?, ?, ?, ?, tensor_id FROM tensor_name WHERE name = ?");
    bind_all(insert, current_run(), prompt_id(prompt), side, layer, tensor);
    insert.exec();
  }

  /// A document that judges the run. Stage as in report.stage: 1000000 final, N for vN.
  int64_t report(const std::string& path, int64_t stage, const std::vector<ReportRow>& rows) {
    int64_t source = add_source(path, "report");
    db.exec("INSERT INTO report VALUES (" + std::to_string(source) + ", " +
            std::to_string(current_run()) + ", " + std::to_string(stage) + ")");
    int64_t line = 0;
    for (const ReportRow& row : rows) {
      SQLite::Statement& insert = prepared_(
          "INSERT INTO report_pair(source_id, line, run_id, prompt_id, layer, name_id, token_id,"
          " pos_id, status, cause, details) VALUES (?, ?, ?, ?, ?,"
          " (SELECT id FROM tensor_name WHERE name = ?), ?, ?, ?, ?, ?)");
      bind_all(insert, source, ++line, current_run(), prompt_id(row.prompt), row.layer, row.tensor,
               row.token_id, row.pos_id, row.status, row.cause, row.details);
      insert.exec();
    }
    return source;
  }
  void claim(int64_t source, int64_t line, const std::string& verdict) {
    SQLite::Statement& insert = prepared_(
        "INSERT INTO report_claim(source_id, run_id, line, kind, value, text)"
        " VALUES (?, ?, ?, 'verdict', ?, ?)");
    bind_all(insert, source, current_run(), line, verdict, "RESULT: " + verdict);
    insert.exec();
  }

  /// What it says when everything is judged. A question about the table `verdict` or `run_change`
  /// itself is asked as things are: see kept().
  std::string rows(const std::string& sql) {
    judge();
    return queries_.text_of(sql);
  }
  /// What it says as it is, judged or not.
  std::string kept(const std::string& sql) { return queries_.text_of(sql); }

  /// Judges what is not, as judge_rest() does, with statements that stay prepared.
  void judge() {
    for (const int64_t run_id : unjudged_runs(db)) {
      greta::forget_verdict(db, run_id);
      queries_.run(sql_of_file("db/sql/judge_run.sql"), run_id);
    }
    for (const std::string& pair :
         lines_of("SELECT l.run_id || ' ' || l.baseline_id FROM lineage l WHERE l.baseline_id IS"
                  " NOT NULL AND NOT EXISTS (SELECT 1 FROM run_change c WHERE c.run_id = l.run_id"
                  " AND c.baseline_id = l.baseline_id)")) {
      const size_t blank = pair.find(' ');
      queries_.run(sql_of_file("db/sql/judge_change.sql"), std::stoll(pair.substr(0, blank)),
                   std::stoll(pair.substr(blank)));
    }
  }

  /// For tests that write by hand what judging keeps.
  void leave_unchecked() { checked_ = false; }

  int64_t prompt_id(const std::string& name) {
    const int64_t run_id = current_run();
    prepared_("INSERT OR IGNORE INTO prompt(run_id, name) VALUES (?, ?)", run_id, name).exec();
    return *prepared_.find_id("SELECT id FROM prompt WHERE run_id = ? AND name = ?", run_id, name);
  }

  int64_t current_run() { return run_id_ > 0 ? run_id_ : run(); }

  int64_t add_source(const std::string& path, const std::string& shape) {
    prepared_("INSERT INTO source(run_id, sha256, shape, bytes) VALUES (?, ?, ?, 0)", current_run(),
              path, shape)
        .exec();
    const int64_t id = db.getLastInsertRowid();
    prepared_("INSERT INTO source_location(source_id, path) VALUES (?, ?)", id, path).exec();
    return id;
  }

  int64_t trace_source() {
    if (source_id_ == 0)
      source_id_ = add_source("trace" + std::to_string(current_run()), "stage_trace");
    return source_id_;
  }

  SQLite::Database& db;

 private:
  /// So every test ends: when all is judged, the tables `verdict` and `run_change` have the rows
  /// that the views work out.
  void expect_kept_is_what_the_views_say() noexcept {
    try {
      if (sqlite3_get_autocommit(db.getHandle()) == 0) return;
      judge();
      for (const std::string& run : lines_of("SELECT id FROM run")) {
        const std::string verdict =
            difference("verdict WHERE run_id = ?1", "db/sql/judge_run.sql", std::stoll(run));
        EXPECT_EQ(verdict, "");
        if (!verdict.empty()) return;  // of many runs one is enough
      }
      for (const std::string& pair :
           lines_of("SELECT DISTINCT run_id || ' ' || baseline_id FROM run_change")) {
        const size_t blank = pair.find(' ');
        EXPECT_EQ(difference("run_change WHERE run_id = ?1 AND baseline_id = ?2",
                             "db/sql/judge_change.sql", std::stoll(pair.substr(0, blank)),
                             std::stoll(pair.substr(blank))),
                  "");
      }
    } catch (const std::exception& e) {
      ADD_FAILURE() << "what is kept cannot be compared with the views: " << e.what();
    }
  }

  /// Rows that are kept and that the statement which keeps them does not work out, and the other
  /// way round.
  std::string difference(const std::string& table, const char* file, int64_t first,
                         int64_t second = 0) {
    const std::string kept = "SELECT * FROM " + table, keep = sql_of_file(file),
                      now = "SELECT * FROM (" + keep.substr(keep.find("SELECT")) + ")";
    const std::string lost = queries_.run(now + " EXCEPT " + kept, first, second),
                      extra = queries_.run(kept + " EXCEPT " + now, first, second);
    return (lost.empty() ? "" : "worked out: " + lost + "\n") +
           (extra.empty() ? "" : "kept: " + extra);
  }

  std::vector<std::string> lines_of(const std::string& sql) {
    std::vector<std::string> lines;
    std::istringstream text(queries_.text_of(sql));
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  template <class... Values>
  static void bind_all(SQLite::Statement& statement, const Values&... values) {
    int index = 0;
    (bind_one(statement, ++index, values), ...);
  }
  template <class T>
  static void bind_one(SQLite::Statement& statement, int index, const std::optional<T>& value) {
    if (value) bind_one(statement, index, *value);
  }
  template <class T>
  static void bind_one(SQLite::Statement& statement, int index, const T& value) {
    if constexpr (std::is_integral_v<T>) {
      statement.bind(index, static_cast<int64_t>(value));
    } else {
      statement.bind(index, value);
    }
  }

  int64_t tensor_name_id(const std::string& name) {
    const auto known = prepared_.find_id("SELECT id FROM tensor_name WHERE name = ?", name);
    if (known) return *known;
    std::string cause = name;
    for (char& c : cause) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    SQLite::Statement tensor(db,
                             "INSERT INTO tensor(id, ord, name, stage) SELECT id, id, ?, 'unknown'"
                             " FROM (SELECT max(max(id) + 1, 1000) AS id FROM tensor)");
    tensor.bind(1, name);
    tensor.exec();
    SQLite::Statement insert(
        db, "INSERT INTO tensor_name(name, tensor_id, cause) VALUES (?, last_insert_rowid(), ?)");
    bind_all(insert, name, cause + "_DRIFT");
    insert.exec();
    return tensor_name_id(name);
  }

  int64_t phase_id(const std::string& name) {
    const auto known = prepared_.find_id("SELECT id FROM phase WHERE name = ?", name);
    if (known) return *known;
    db.exec("INSERT INTO phase(name, side) VALUES ('" + name + "', 2)");
    return db.getLastInsertRowid();
  }

  /// A count-sketch by maps of our own: the views only need that both rows went through the same.
  /// Returns its id; equal ones of a run are one.
  int64_t store_sketch(const std::vector<float>& values, bool derived) {
    RowSketch made{.n = static_cast<int64_t>(values.size()), .derived = derived};
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = static_cast<double>(values[i]);
      made.bucket[i % 16] += x;
      made.bucket[16 + (5 * i + 3) % 16] += i % 2 == 0 ? x : -x;
      made.sum_sq += x * x;
    }
    const StoredSketch stored = stored_form(made);
    int64_t& id = sketch_ids_.of(current_run(), stored);
    if (id != 0) return id;
    SQLite::Statement& sketch = prepared_(
        "INSERT INTO sketch VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    bind_all(sketch, stored.n, stored.derived, stored.sum_sq, stored.scale);
    for (int i = 0; i < 32; ++i) sketch.bind(5 + i, stored.bucket[static_cast<size_t>(i)]);
    sketch.exec();
    return id = db.getLastInsertRowid();
  }

  int64_t store_sample(const std::vector<float>& values) {
    SQLite::Statement& sample = prepared_("INSERT INTO sample(n, data) VALUES (?, ?)");
    bind_all(sample, values.size());
    sample.bind(2, values.data(), static_cast<int>(values.size() * sizeof(float)));
    sample.exec();
    return db.getLastInsertRowid();
  }

  void add_row(const Row& row) {
    const int64_t run_id = current_run();
    const int64_t prompt = prompt_id(row.prompt.empty() ? prompt_ : row.prompt);
    const int64_t name = tensor_name_id(row.tensor), phase = phase_id(row.phase);
    const int64_t source = trace_source();
    std::optional<int64_t> sample_id, sketch_id, hash;
    if (row.hash) hash = static_cast<int64_t>(*row.hash);
    if (!row.sample.empty()) sample_id = store_sample(row.sample);
    if (!row.sample.empty() || !row.sketch_values.empty()) {
      sketch_id =
          store_sketch(row.sample.empty() ? row.sketch_values : row.sample, !row.sample.empty());
    }
    // By hand: triggers note which positions there are, and which of several rows stands.
    SQLite::Statement& insert = prepared_(
        "INSERT INTO trace_row(run_id, prompt_id, pos_id, layer, phase_id, step, name_id, token_id,"
        " logical_tok_idx, n, hash, max, mean, nan, inf, flags, sample_id, sketch_id, source_id, "
        "line,"
        " side, tensor_id, nth)"
        " SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
        "  ?19, ?20, h.side, n.tensor_id, (SELECT count(*) FROM trace_row t WHERE t.run_id = ?1 AND"
        "   t.prompt_id = ?2 AND t.side = h.side AND t.pos_id = ?3 AND t.layer = ?4"
        "   AND t.tensor_id = n.tensor_id)"
        " FROM phase h, tensor_name n WHERE h.id = ?5 AND n.id = ?7");
    bind_all(insert, run_id, prompt, row.pos_id, row.layer_id, phase, row.step_id, name,
             row.token_id, row.logical_idx, row.n, hash, row.max, row.mean, row.nan_count,
             row.inf_count, row.flags, sample_id, sketch_id, source, ++last_line_);
    insert.exec();
  }

  KeptQueries& queries_;
  bool checked_ = true;
  Statements prepared_{db};  // of rows, which some tests add by the thousand
  SketchIds sketch_ids_;
  int64_t run_id_ = 0, source_id_ = 0, last_line_ = 0;
  std::string prompt_ = "p0";
};

struct WarehouseTest : testing::Test {
  Warehouse w;
};

}  // namespace greta
