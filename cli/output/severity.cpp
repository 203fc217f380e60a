#include "cli/output/severity.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <map>

#include "db/schema.h"

namespace greta {
namespace {

using Meanings = std::map<std::string, Meaning, std::less<>>;

Meanings read_meanings() {
  const std::map<std::string, Severity> severities{{"context", Severity::kContext},
                                                   {"good", Severity::kGood},
                                                   {"rounding", Severity::kRounding},
                                                   {"open", Severity::kOpen},
                                                   {"bad", Severity::kBad}};
  SQLite::Database memory(":memory:", SQLite::OPEN_READWRITE);
  SQLite::Statement rows(memory, sql_of_file("db/sql/severity.sql"));
  Meanings meanings;
  while (rows.executeStep()) {
    meanings[rows.getColumn(0).getString()] = {severities.at(rows.getColumn(1).getString()),
                                               rows.getColumn(2).getInt(),
                                               rows.getColumn(3).getString().at(0)};
  }
  return meanings;
}

}  // namespace

const Meaning& meaning_of(std::string_view word) {
  static const Meanings meanings = read_meanings();
  static const Meaning unknown;
  auto found = meanings.find(word);
  if (found == meanings.end()) found = meanings.find(word.substr(0, word.find(' ')));
  return found == meanings.end() ? unknown : found->second;
}

std::string colored(const Output& out, std::string_view text) {
  std::string result(text);
  if (!out.colors() || text == "-") return result;
  const Severity severity = meaning_of(text).severity;
  const bool good = severity == Severity::kGood || severity == Severity::kRounding;
  const bool bad = severity == Severity::kBad;
  return (good ? "\x1b[32m" : bad ? "\x1b[31m" : "\x1b[33m") + result + "\x1b[0m";
}

}  // namespace greta
