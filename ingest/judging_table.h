#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/table.h"

/// Tables of pairs that are not written as the file's name has it: pure functions of any bytes,
/// linear in them.
namespace greta {

/// Amid the lines of any text: one that is the head of a table that judges pairs (report_columns,
/// status_columns), its cells apart by tabs, commas or semicolons, and the lines below it up to a
/// blank one, of which the first has as many cells.
std::vector<Table> read_judging_tables(std::span<const std::string_view> lines);

/// Whether the rows of a table amid text are what one run is made of, as its first column says, and
/// not many runs; not where status_columns judge it.
bool lists_parts_of_a_run(const Table& table);

/// Of a column of such a table, whether it is of another run than the one at hand: "before".
bool is_of_another_run(std::string_view column);

/// What is between the cells of a table in a file of that name: a tab or a comma, unless its head
/// has none of it and another.
char delimiter_of_table(const std::string& path, std::string_view text);

/// The text with '|', '-' and '+' for the characters that draw boxes: itself where there are none,
/// else what `made` holds then.
std::string_view with_plain_boxes(std::string_view text, std::string& made);

}  // namespace greta
