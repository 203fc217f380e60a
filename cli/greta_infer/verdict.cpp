#include "cli/greta_infer/verdict.h"

#include <stdexcept>

#include "cli/greta_infer/commands.h"
#include "db/database.h"

namespace greta {
namespace {

/// "CAUSE at layer 0, q_pre_rope, prompt p0_short" of four columns; "" without a cause.
std::string where(SQLite::Statement& row, int cause, int layer, int tensor, int prompt) {
  if (row.isColumnNull(cause)) return "";
  std::string text = row.getColumn(cause).getString();
  if (!row.isColumnNull(layer)) text += " at layer " + row.getColumn(layer).getString();
  if (!row.isColumnNull(tensor)) text += ", " + row.getColumn(tensor).getString();
  if (!row.isColumnNull(prompt)) text += ", prompt " + row.getColumn(prompt).getString();
  return text;
}

}  // namespace

InferVerdict read_verdict(const std::filesystem::path& database, const std::string& run) {
  SQLite::Database db = open_for_reading(database);
  SQLite::Statement row(
      db,
      "SELECT verdict, numeric_verdict, coverage, pairs, first_fail, layer, tensor, prompt,"
      " numeric_first_fail, numeric_layer, numeric_tensor, numeric_prompt"
      " FROM run_verdict WHERE run = ?");
  row.bind(1, run);
  if (!row.executeStep()) throw std::runtime_error(database.string() + " has no run " + run);
  InferVerdict verdict;
  verdict.strict = row.getColumn(0).getString();
  verdict.numeric = row.getColumn(1).getString();
  verdict.coverage = row.getColumn(2).getString();
  verdict.pairs = row.getColumn(3).getInt64();
  verdict.strict_where = where(row, 4, 5, 6, 7);
  verdict.numeric_where = where(row, 8, 9, 10, 11);
  return verdict;
}

std::string verdict_line(const InferVerdict& verdict) {
  const auto part = [](const std::string& name, const std::string& place) {
    return place.empty() ? name : name + " (" + place + ")";
  };
  return "strict " + part(verdict.strict, verdict.strict_where) + ", numeric " +
         part(verdict.numeric, verdict.numeric_where) + ", " + std::to_string(verdict.pairs) +
         " pairs, coverage " + verdict.coverage;
}

}  // namespace greta
