#pragma once
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "ingest/table.h"

/// Claims of failure: a known key with a known value, in any case, as "verdict: FAIL". The keys are
/// verdict, result, veredicto, resultado, status, estado (is_failure_word, false), exit_code (not
/// 0), ok and passed (false, fewer than all), and failed (true, more than 0). Everything else is
/// text that is not judged. Pure functions of any bytes, linear in them.
namespace greta {

/// True if a word in lower case says that something failed: "failed", "fallo", "drift", "error".
bool is_failure_word(std::string_view word);

/// True if `key` is such a key and `value` says that it failed. A word that goes on as a sentence
/// says so in capitals only: "FAILED at layer 3", but not "failed to reproduce".
bool claims_failure(std::string_view key, std::string_view value);

/// True for a line "key: value" or "key=value", behind list marks and one [TAG], and for a line
/// with such a field among its words, "[GRETA] verdict=FAIL".
bool line_claims_failure(std::string_view line);

/// The first claim of a table's row, as "key: value": a cell below a column that is a key, or the
/// second of two cells. Columns do not count with `only_pairs`: amid text they are of many runs.
std::string row_claim(const Table& header, const TableRow& row, bool only_pairs);

/// True for an object whose "passed" and "skipped" are less than its "total".
bool has_fewer_than_total(const nlohmann::json& object);
inline constexpr const char* kFewerThanTotal = "passed: fewer than total";

/// Calls `on_claim` with "key: value" for each claim in `value`, which `key` holds, and in all that
/// it holds itself; with kFewerThanTotal for an object that has_fewer_than_total. Its nesting must
/// be bounded.
void for_each_failure(std::string_view key, const nlohmann::json& value,
                      const std::function<void(const std::string& claim)>& on_claim);

}  // namespace greta
