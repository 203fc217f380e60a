#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "cli/greta_db/commands.h"
#include "cli/warehouse/known_value.h"
#include "cli/warehouse/sql_query.h"
#include "common/completion.h"
#include "common/utf8.h"
#include "db/database.h"
#include "db/definitions.h"
#include "db/judge.h"
#include "db/run_records.h"
#include "db/transaction.h"

namespace greta {
namespace {

struct ToleranceArguments {
  std::string tensor, dtype, rel_l2;
  bool all = false;
};

/// The rows that greta ships, as `shipped`.
std::string with_shipped() {
  return "WITH shipped(tensor_id, dtype, rel_l2) AS (" + shipped_rows("tolerance") + ") ";
}

/// The tensor's id and the dtype, NULL for any, of the place that the arguments name.
struct ToleranceRow {
  Value tensor_id, dtype;
};

ToleranceRow place_of(SQLite::Database& db, const ToleranceArguments& a) {
  ToleranceRow place{nullptr, nullptr};
  if (!a.tensor.empty()) {
    check_known(db, NameOf::kTensor, a.tensor);
    Query id(db,
             "SELECT coalesce((SELECT tensor_id FROM tensor_name WHERE name = ?1),"
             " (SELECT id FROM tensor WHERE name = ?1))");
    id.bind(1, a.tensor).step();
    place.tensor_id = id.integer(0);
  }
  if (!a.dtype.empty()) place.dtype = a.dtype;
  return place;
}

std::string words_of(const ToleranceArguments& a) {
  return (a.tensor.empty() ? "any tensor" : utf8::printable(a.tensor)) + ", " +
         (a.dtype.empty() ? "any dtype" : utf8::printable(a.dtype));
}

/// A remark where neither a run nor a shipped tolerance is of this dtype: it may be misspelled, or
/// its first run is to come.
std::string remark_on(SQLite::Database& db, const ToleranceArguments& a) {
  Query known(db, with_shipped() +
                      "SELECT 1 FROM shipped WHERE dtype = ?1"
                      " UNION SELECT 1 FROM run WHERE dtype = ?1");
  return a.dtype.empty() || known.bind(1, a.dtype).step() ? "" : "; no run is of this dtype yet";
}

std::optional<double> rel_l2_at(SQLite::Database& db, const ToleranceRow& place,
                                const std::string& table) {
  Query query(db, with_shipped() + "SELECT rel_l2 FROM " + table +
                      " WHERE tensor_id IS ?1 AND dtype IS ?2 LIMIT 1");
  query.bind(1, place.tensor_id).bind(2, place.dtype);
  if (!query.step()) return std::nullopt;
  return query.cell(0).real;
}

int64_t kept_verdicts(SQLite::Database& db) {
  return db.execAndGet("SELECT count(DISTINCT run_id) FROM verdict").getInt64();
}

/// What is left of the runs whose verdict was kept is judged again.
void judge_again(Options& options, SQLite::Database& db, int64_t n_kept) {
  options.out.write(std::to_string(n_kept) +
                    (n_kept == 1 ? " kept verdict is" : " kept verdicts are") +
                    " worked out again\n");
  options.out.flush();
  if (n_kept > 0) judge_rest(db);
}

std::string text_of(std::optional<double> rel_l2) {
  return rel_l2 ? shortest_real(*rel_l2) : "none";
}

int list_tolerances(Options& options, const ToleranceArguments&) {
  SQLite::Database db = open_for_reading(options.database);
  Query query(
      db,
      with_shipped() +
          "SELECT ifnull(t.name, '*') AS tensor, ifnull(o.dtype, '*') AS dtype, o.rel_l2 AS rel_l2,"
          " o.shipped AS shipped, CASE WHEN o.rel_l2 IS NULL THEN 'removed' WHEN o.shipped IS NULL"
          " THEN 'added' WHEN o.rel_l2 = o.shipped THEN 'shipped' ELSE 'changed' END AS state"
          " FROM (SELECT a.tensor_id AS tensor_id, a.dtype AS dtype, a.rel_l2 AS rel_l2,"
          " (SELECT s.rel_l2 FROM shipped s WHERE s.tensor_id IS a.tensor_id AND s.dtype IS "
          "a.dtype)"
          " AS shipped FROM tolerance a UNION ALL SELECT s.tensor_id, s.dtype, NULL, s.rel_l2"
          " FROM shipped s WHERE NOT EXISTS (SELECT 1 FROM tolerance a WHERE a.tensor_id IS"
          " s.tensor_id AND a.dtype IS s.dtype)) o LEFT JOIN tensor t ON t.id = o.tensor_id"
          " ORDER BY o.tensor_id IS NULL, o.tensor_id, o.dtype IS NULL, o.dtype");
  print_query(query, options.out, options.format);
  return kExitDone;
}

/// Throws UsageError for what is no distance.
double distance_of(const std::string& text) {
  double value = -1;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end || !std::isfinite(value) || value < 0) {
    throw UsageError("'" + text + "' is no relative L2 distance: give 0 or more, as 1e-4");
  }
  if (value > 1) {
    throw UsageError("'" + text +
                     "' would excuse everything: a row of zeros is 1 away from any other");
  }
  return value;
}

/// Makes it what `wanted` says of its place, or takes it away when that is nothing; `remark` ends
/// what is said of it.
template <typename Wanted>
int change_tolerance(Options& options, const ToleranceArguments& a, const Wanted& wanted,
                     const char* remark) {
  SQLite::Database db = open_for_writing(options.database);
  const ToleranceRow place = place_of(db, a);
  std::optional<double> before, after;
  int64_t n_kept = 0;
  in_transaction(db, [&] {
    before = rel_l2_at(db, place, "tolerance");
    after = wanted(db, place);
    if (before == after) return;
    n_kept = kept_verdicts(db);
    Query(db, "DELETE FROM tolerance WHERE tensor_id IS ?1 AND dtype IS ?2")
        .bind(1, place.tensor_id)
        .bind(2, place.dtype)
        .step();
    if (!after) return;
    Query(db, "INSERT INTO tolerance(tensor_id, dtype, rel_l2) VALUES (?, ?, ?)")
        .bind(1, place.tensor_id)
        .bind(2, place.dtype)
        .bind(3, *after)
        .step();
  });
  options.out.write(words_of(a) + ": " + text_of(before) + " before, " + text_of(after) + " now" +
                    remark + remark_on(db, a) + "\n");
  if (before != after) judge_again(options, db, n_kept);
  return kExitDone;
}

int set_tolerance(Options& options, const ToleranceArguments& a) {
  const std::optional<double> rel_l2 = distance_of(a.rel_l2);
  return change_tolerance(
      options, a, [&](SQLite::Database&, const ToleranceRow&) { return rel_l2; }, "");
}

int reset_all(Options& options) {
  SQLite::Database db = open_for_writing(options.database);
  int64_t n_kept = 0, n_rows = 0;
  in_transaction(db, [&] {
    n_rows = db.execAndGet(with_shipped() +
                           "SELECT (SELECT count(*) FROM (SELECT * FROM tolerance EXCEPT SELECT *"
                           " FROM shipped)) + (SELECT count(*) FROM (SELECT * FROM shipped EXCEPT"
                           " SELECT * FROM tolerance))")
                 .getInt64();
    if (n_rows == 0) return;
    n_kept = kept_verdicts(db);
    db.exec("DELETE FROM tolerance");
    db.exec("INSERT INTO tolerance(tensor_id, dtype, rel_l2) " + shipped_rows("tolerance"));
  });
  options.out.write(n_rows == 0 ? "every tolerance is as shipped already\n"
                                : "every tolerance is as shipped again\n");
  if (n_rows > 0) judge_again(options, db, n_kept);
  return kExitDone;
}

int reset_tolerance(Options& options, const ToleranceArguments& a) {
  if (a.all && (!a.tensor.empty() || !a.dtype.empty())) {
    throw UsageError("--all stands alone");
  }
  if (a.all) return reset_all(options);
  if (a.tensor.empty() && a.dtype.empty()) {
    throw UsageError("give --tensor, --dtype or both, or --all");
  }
  return change_tolerance(
      options, a,
      [](SQLite::Database& db, const ToleranceRow& place) {
        return rel_l2_at(db, place, "shipped");
      },
      ", as shipped");
}

void add_place(CLI::App& command, ToleranceArguments& a) {
  add_option(command, "--tensor NAME", a.tensor, "Of this trace point (any)")
      ->check(offers_rows("SELECT name FROM tensor_name"));
  add_option(command, "--dtype NAME", a.dtype, "Of runs of this dtype (any)")
      ->check(offers_rows("SELECT DISTINCT dtype FROM tolerance WHERE dtype IS NOT NULL"))
      ->transform(canonical_dtype);
}

}  // namespace

void add_tolerance_command(CLI::App& app, Options& options) {
  CLI::App* command = app.add_subcommand(
      "tolerance", "Up to which relative L2 distance a difference counts as rounding");
  command->require_subcommand(1);
  CLI::App* list = command->add_subcommand("list", "Every tolerance, and which are not as shipped");
  add_action(*list, options, list_tolerances);
  CLI::App* set = command->add_subcommand(
      "set",
      "Change or add one; the most specific counts: tensor and dtype, tensor, dtype, neither");
  ToleranceArguments& changed = add_action(*set, options, set_tolerance);
  add_place(*set, changed);
  add_option(*set, "rel_l2 REL_L2", changed.rel_l2, "Relative L2 distance, as 1e-4")->required();
  CLI::App* reset = command->add_subcommand("reset", "Make one, or all, as shipped");
  ToleranceArguments& again = add_action(*reset, options, reset_tolerance);
  add_place(*reset, again);
  reset->add_flag("--all", again.all, "Every one");
}

}  // namespace greta
