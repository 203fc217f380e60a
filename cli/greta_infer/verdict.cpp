#include "cli/greta_infer/verdict.h"

#include <stdexcept>

#include "cli/warehouse/origin.h"
#include "cli/warehouse/verdict.h"
#include "db/database.h"

namespace greta {
namespace {

std::string line_of(const RunVerdict& run, const Headline& head, const Origin& origin) {
  std::string text = head.text();
  if (!head.fail.cause.empty()) text += ": " + fail_text(head.fail);
  if (!origin.text().empty()) text += " (" + origin.text() + ")";
  text += ", " + run.show("pairs") + " pairs, coverage " + run.show("coverage");
  if (!head.disputed()) return text + "; strict and numeric alike";
  text += "; " + std::string(gate_name(head.other_gate())) + " " + head.other;
  if (!head.other_fail.cause.empty()) text += " " + place_text(head.other_fail);
  if (head.verdict == "FAIL" && !head.excuse.empty()) text += " (" + head.excuse + ")";
  return text;
}

}  // namespace

const std::string& InferVerdict::by(std::string_view gate) const {
  return gate.empty() ? verdict : gate == "strict" ? strict : numeric;
}

InferVerdict read_verdict(const std::filesystem::path& database, const std::string& run) {
  SQLite::Database db = open_for_reading(database);
  QueryPool statements(db);
  Query id(statements, "SELECT id FROM run WHERE name = ?");
  id.bind(1, run);
  if (!id.step()) throw std::runtime_error(database.string() + " has no run " + run);
  const int64_t run_id = id.integer(0);
  RunQuery query(statements, run_id,
                 "SELECT " + std::string(kVerdictColumns) + " FROM run_verdict WHERE run_id = ?");
  if (!query.step()) throw std::runtime_error(database.string() + " has no run " + run);
  const RunVerdict verdict(query);
  const Headline head(verdict);
  const Origin origin = origin_at(statements, run_id, head.fail, head.gate);
  return {.verdict = head.verdict,
          .strict = std::string(verdict.at(Gate::kStrict)),
          .numeric = std::string(verdict.at(Gate::kNumeric)),
          .headline = head.text(),
          .fail = head.fail,
          .line = line_of(verdict, head, origin)};
}

}  // namespace greta
