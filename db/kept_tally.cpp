#include "db/kept_tally.h"

#include <stdexcept>
#include <string>
#include <string_view>

#include "db/definitions.h"
#include "db/schema.h"
#include "db/with_views.h"

namespace greta {
namespace {

constexpr const char* kTallyColumns =
    "run_id, prompt_id, status, class, scope, cause, count, pairs, claimed, elsewhere,"
    " forward_layer, layer, tensor_id, name_id, pos_id, token_id, report_line";
constexpr int kTallyColumnCount = 17;

std::string insert_tally_sql() {
  std::string marks = "?";
  for (int i = 1; i < kTallyColumnCount; ++i) marks += ", ?";
  return std::string("INSERT INTO kept_tally(") + kTallyColumns + ") VALUES (" + marks + ")";
}

/// What the view verdict_part says of a run whose tally is kept. The views' own texts on top of
/// kept_tally_row: asked by its name, verdict_part would have the working out of tallies prepared,
/// too, which takes ten times as long.
std::string insert_verdict_sql(SQLite::Database& db) {
  return "WITH unsummed_tally AS (SELECT * FROM kept_tally_row), verdict_row AS (" +
         body_of("unkept_verdict_row") + "), part AS (" + body_of("verdict_part") +
         ") INSERT OR IGNORE INTO kept_verdict SELECT " + columns_of(db, "kept_verdict") +
         " FROM part WHERE run_id = ?";
}

TallyRows::Value value_of(const SQLite::Column& column) {
  if (column.isNull()) return {};
  if (column.isInteger()) return column.getInt64();
  return column.getString();
}

void bind_value(SQLite::Statement& statement, int i, const TallyRows::Value& value) {
  if (const auto* number = std::get_if<int64_t>(&value)) return statement.bind(i, *number);
  if (const auto* text = std::get_if<std::string>(&value)) return statement.bindNoCopy(i, *text);
  statement.bind(i);
}

/// What is compared with a report's table, where there is none: columns as comparison_graded has
/// them.
constexpr const char* kNoReport =
    "no_report AS (SELECT z.name AS axis, z.same_run AS same_run, NULL AS run_id,"
    " NULL AS other_run_id, NULL AS prompt_id, NULL AS status, NULL AS class, NULL AS scope,"
    " NULL AS cause, NULL AS compared, NULL AS elsewhere, NULL AS blamed, NULL AS forward_layer,"
    " NULL AS tensor_id, NULL AS layer, NULL AS blamed_name_id, NULL AS pos_id, NULL AS token_id,"
    " NULL AS report_line FROM axis z WHERE 0)";

/// The view unkept_tally but for what reports' tables list: without that there is half as much to
/// prepare.
std::string tally_of_rows() {
  constexpr std::string_view kListed =
      "CROSS JOIN comparison_graded s\n    WHERE v.evidence = 'report'";
  constexpr std::string_view kNothing = "CROSS JOIN no_report s\n    WHERE v.evidence = 'report'";
  std::string body = body_of("unkept_tally");
  const size_t at = body.find(kListed);
  if (at == std::string::npos) throw std::logic_error("unkept_tally reads no report's table");
  return body.replace(at, kListed.size(), kNothing);
}

std::string select_tally_sql(bool reports, const std::string& condition) {
  const std::string told =
      reports ? "" : std::string("WITH ") + kNoReport + ", told AS (" + tally_of_rows() + ") ";
  return with_views(told + "SELECT " + kTallyColumns + " FROM " +
                    (reports ? "unkept_tally" : "told") + " WHERE run_id = ?" + condition);
}

TallyRows take_rows(SQLite::Statement& rows, int64_t run_id) {
  TallyRows tally{run_id, {}};
  while (rows.executeStep()) {
    for (int i = 0; i < kTallyColumnCount; ++i) tally.values.push_back(value_of(rows.getColumn(i)));
  }
  rows.reset();  // ends its look at the file
  return tally;
}

}  // namespace

SQLite::Statement& TallyStatements::of_run(int64_t run_id) {
  report_.bind(1, run_id);
  const bool reports = report_.executeStep();
  report_.reset();
  std::optional<SQLite::Statement>& rows = reports ? reported_ : traced_;
  if (!rows) rows.emplace(db_, select_tally_sql(reports, condition_));
  rows->bind(1, run_id);
  return *rows;
}

TallyRows TallyReader::read(int64_t run_id) { return take_rows(rows_.of_run(run_id), run_id); }

TallyRows PromptTallyReader::read(int64_t run_id, int64_t prompt_id) {
  SQLite::Statement& rows = rows_.of_run(run_id);
  rows.bind(2, prompt_id);
  return take_rows(rows, run_id);
}

TallyKeeper::TallyKeeper(SQLite::Database& db)
    : tally_(db, insert_tally_sql()), verdict_(db, insert_verdict_sql(db)) {}

void TallyKeeper::keep(const TallyRows& tally) {
  for (size_t at = 0; at < tally.values.size(); at += kTallyColumnCount) {
    for (int i = 0; i < kTallyColumnCount; ++i) {
      bind_value(tally_, i + 1, tally.values[at + static_cast<size_t>(i)]);
    }
    tally_.exec();
    tally_.reset();
  }
  verdict_.bind(1, tally.run_id);
  verdict_.exec();
  verdict_.reset();
}

void keep_tally(SQLite::Database& db, int64_t run_id) {
  TallyKeeper(db).keep(TallyReader(db).read(run_id));
}

void forget_tally(SQLite::Database& db, int64_t run_id) {
  SQLite::Statement forget(db, "DELETE FROM kept_tally WHERE run_id = ?");
  forget.bind(1, run_id);
  forget.exec();
}

std::vector<int64_t> runs_without_tally(SQLite::Database& db, int64_t max_rows) {
  SQLite::Statement query(
      db,
      "SELECT r.id FROM unjudged_run u JOIN run r ON r.id = u.run_id WHERE r.status <> 'running'"
      " AND NOT EXISTS (SELECT 1 FROM trace_row WHERE run_id = r.id LIMIT 1 OFFSET ?1)");
  query.bind(1, max_rows);
  std::vector<int64_t> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getInt64());
  return ids;
}

}  // namespace greta
