// A database made of the rows that a test spells out, and what its views say about them.
#pragma once
#include <gtest/gtest.h>

#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/database.h"
#include "db/statements.h"
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
  std::optional<double> mean = {};
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

  std::string rows(const std::string& sql) { return queries_.text_of(sql); }

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
  void store_vector(int64_t id, const std::vector<float>& values, bool derived) {
    double bucket[32] = {}, sum_sq = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = static_cast<double>(values[i]);
      bucket[i % 16] += x;
      bucket[16 + (5 * i + 3) % 16] += i % 2 == 0 ? x : -x;
      sum_sq += x * x;
    }
    SQLite::Statement& sketch = prepared_(
        "INSERT INTO sketch VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,"
        " ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
    bind_all(sketch, id, values.size(), derived, sum_sq);
    for (int i = 0; i < 32; ++i) sketch.bind(5 + i, bucket[i]);
    sketch.exec();
    if (!derived) return;
    SQLite::Statement& sample = prepared_("INSERT INTO sample VALUES (?, ?, ?)");
    bind_all(sample, id, values.size());
    sample.bind(3, values.data(), static_cast<int>(values.size() * sizeof(float)));
    sample.exec();
  }

  void add_row(const Row& row) {
    const int64_t run_id = current_run();
    const int64_t prompt = prompt_id(row.prompt.empty() ? prompt_ : row.prompt);
    const int64_t name = tensor_name_id(row.tensor), phase = phase_id(row.phase);
    const int64_t source = trace_source();
    std::optional<int64_t> vector_id, hash;
    if (row.hash) hash = static_cast<int64_t>(*row.hash);
    if (!row.sample.empty() || !row.sketch_values.empty()) {
      vector_id = ++last_vector_id_;
      store_vector(*vector_id, row.sample.empty() ? row.sketch_values : row.sample,
                   !row.sample.empty());
    }
    // The writer's bookkeeping: which of the rows of its side at a place, and which positions there
    // are.
    static const std::string place =
        " run_id = ?1 AND prompt_id = ?2 AND side = (SELECT side FROM phase WHERE id = ?5)"
        " AND pos_id = ?3 AND layer = ?4"
        " AND tensor_id = (SELECT tensor_id FROM tensor_name WHERE id = ?7)";
    static const std::string to_crowd =
        "UPDATE trace_row SET crowded = 1 WHERE ?6 IS ?6 AND" + place;
    SQLite::Statement& crowd = prepared_(to_crowd.c_str());
    bind_all(crowd, run_id, prompt, row.pos_id, row.layer_id, phase, row.step_id, name);
    crowd.exec();
    static const std::string to_insert =
        "INSERT INTO trace_row(run_id, prompt_id, pos_id, layer, phase_id, step, name_id, token_id,"
        " logical_tok_idx, n, hash, mean, nan, inf, flags, vector_id, source_id, line, side,"
        " tensor_id, nth, crowded)"
        " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,"
        "  (SELECT side FROM phase WHERE id = ?5), (SELECT tensor_id FROM tensor_name WHERE id = "
        "?7),"
        "  (SELECT count(*) FROM trace_row WHERE" +
        place +
        "),"
        "  EXISTS (SELECT 1 FROM trace_row WHERE" +
        place + "))";
    SQLite::Statement& insert = prepared_(to_insert.c_str());
    bind_all(insert, run_id, prompt, row.pos_id, row.layer_id, phase, row.step_id, name,
             row.token_id, row.logical_idx, row.n, hash, row.mean, row.nan_count, row.inf_count,
             row.flags, vector_id, source, ++last_line_);
    insert.exec();
    SQLite::Statement& position = prepared_(
        "INSERT INTO traced_position VALUES (?1, ?2, (SELECT side FROM phase WHERE id = ?4), ?3,"
        " ?4 = (SELECT id FROM phase WHERE name = 'prefill_last'))"
        " ON CONFLICT DO UPDATE SET demands = max(demands, excluded.demands)");
    bind_all(position, run_id, prompt, row.pos_id, phase);
    position.exec();
  }

  KeptQueries& queries_;
  Statements prepared_{db};  // of rows, which some tests add by the thousand
  int64_t run_id_ = 0, source_id_ = 0, last_vector_id_ = 0, last_line_ = 0;
  std::string prompt_ = "p0";
};

}  // namespace greta
