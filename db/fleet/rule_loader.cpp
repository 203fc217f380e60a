#include "db/fleet/rule_loader.h"

#include <algorithm>

#include "db/clickhouse/error.h"
#include "db/fleet/record_writer.h"
#include "db/fleet/run_tables.h"
#include "db/fleet/shared_records.h"

namespace greta {
namespace {

/// Its own id where that is free.
constexpr const char* kAddTensor =
    "INSERT INTO tensor(id, ord, name, stage) SELECT CASE WHEN EXISTS (SELECT 1 FROM tensor"
    " WHERE id = ?1) THEN NULL ELSE ?1 END, ?2, ?3, ?4";
constexpr const char* kAddName =
    "INSERT INTO tensor_name(id, name, tensor_id, cause) SELECT CASE WHEN EXISTS (SELECT 1 FROM"
    " tensor_name WHERE id = ?1) THEN NULL ELSE ?1 END, ?2, ?3, ?4";

/// Of a column that is never NULL.
const std::string& text_of(const CellText& cell) {
  if (cell) return *cell;
  throw clickhouse::Error("a dictionary's name is NULL: its push is damaged");
}

}  // namespace

const Rules& RuleLoader::load(const Published& run) {
  const auto [known, is_new] = rules_.try_emplace(run.rules);
  if (!is_new) return known->second;
  Rules& rules = known->second;
  std::map<std::string, Rows> rows = fetch(run.rules, run.rules_records);
  add_causes(rows["cause"]);
  add_phases(rows["phase"], rules);
  add_tensors(rows["tensor"], rules);
  add_names(rows["tensor_name"], rows["tensor"], rules);
  add_tolerances(std::move(rows["tolerance"]), rules);
  return rules;
}

/// Rows of each dictionary, in the order of the file.
std::map<std::string, RuleLoader::Rows> RuleLoader::fetch(uint64_t number, uint64_t n_records) {
  std::vector<Record> all;
  for_each_record(server_, number, {},
                  [&](uint64_t, Record& record) { all.push_back(std::move(record)); });
  if (all.size() != n_records) {
    throw clickhouse::Error(server_.where() + " has " + std::to_string(all.size()) +
                            " records of a dictionary, not the " + std::to_string(n_records) +
                            " that were sent: no answer is made of fewer");
  }
  std::sort(all.begin(), all.end(), [](const Record& a, const Record& b) { return a.ord < b.ord; });
  require_same(number, all);
  std::map<std::string, Rows> rows;
  for (Record& record : all) rows[record.kind].push_back(std::move(record.cells));
  return rows;
}

/// Its push is the digest of what was sent.
void RuleLoader::require_same(uint64_t number, const std::vector<Record>& sorted) const {
  RecordWriter records;
  records.begin(0, 0);
  for (const std::string_view table : rule_tables()) {
    for (const Record& record : sorted) {
      if (record.kind == table) records.add_row(record.kind, record.ord, record.cells);
    }
  }
  if (push_of_rules(records) == number) return;
  throw clickhouse::Error(server_.where() +
                          " has another dictionary of names and tolerances than was sent (push " +
                          std::to_string(number) + " of its records): no answer is made of it");
}

void RuleLoader::add_causes(const Rows& rows) {
  for (const auto& cells : rows) {
    statements_("INSERT OR IGNORE INTO cause VALUES (?, ?)", text_of(cells.at(0)),
                text_of(cells.at(1)))
        .exec();
  }
}

void RuleLoader::add_phases(const Rows& rows, Rules& rules) {
  for (const auto& cells : rows) {
    const int64_t id = integer_of(cells.at(0));
    const std::string& name = text_of(cells.at(1));
    if (name == "prefill_last") rules.prefill_last = id;
    auto here = statements_.find_id("SELECT id FROM phase WHERE name = ?", name);
    if (!here) {
      statements_("INSERT INTO phase(name, side) VALUES (?, ?)", name, integer_of(cells.at(2)))
          .exec();
      here = db_.getLastInsertRowid();
    }
    rules.phases[id] = *here;
  }
}

void RuleLoader::add_tensors(const Rows& rows, Rules& rules) {
  for (const auto& cells : rows) {
    const int64_t id = integer_of(cells.at(0));
    auto here = statements_.find_id("SELECT id FROM tensor WHERE name = ?", text_of(cells.at(2)));
    if (!here) {
      statements_(kAddTensor, id, integer_of(cells.at(1)), text_of(cells.at(2)),
                  text_of(cells.at(3)))
          .exec();
      here = db_.getLastInsertRowid();
    }
    rules.tensors[id] = *here;
  }
}

void RuleLoader::add_names(const Rows& rows, const Rows& tensors, Rules& rules) {
  std::map<int64_t, const std::vector<CellText>*> tensor_of;
  for (const auto& cells : tensors) tensor_of[integer_of(cells.at(0))] = &cells;
  for (const auto& cells : rows) {
    const int64_t id = integer_of(cells.at(0)), of = integer_of(cells.at(2));
    const std::string& cause = text_of(cells.at(3));
    auto here =
        statements_.find_id("SELECT id FROM tensor_name WHERE name = ?", text_of(cells.at(1)));
    if (!here) {
      statements_(kAddName, id, text_of(cells.at(1)), mapped(rules.tensors, of, "trace point"),
                  cause)
          .exec();
      here = db_.getLastInsertRowid();
    }
    rules.names[id] = *here;
    const auto tensor = tensor_of.find(of);
    if (tensor == tensor_of.end())
      throw clickhouse::Error("a name of no trace point: its push is damaged");
    const std::vector<CellText>& t = *tensor->second;
    rules.name_rows.i64(id).i64(of).i64(integer_of(t.at(1)));
    rules.name_rows.text(text_of(t.at(2))).text(text_of(t.at(3))).text(cause);
    rules.name_rows.i64(integer_of(t.at(4))).text(t.at(5).value_or(""));
  }
}

void RuleLoader::add_tolerances(Rows rows, Rules& rules) {
  rules.tolerances = std::move(rows);
  for (const auto& cells : rules.tolerances) {
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i == 0 && cells[0]) {
        rules.tolerance_text +=
            std::to_string(mapped(rules.tensors, integer_of(cells[0]), "trace point"));
      } else {
        rules.tolerance_text += cells[i].value_or("");
      }
      rules.tolerance_text += '\n';
    }
  }
}

void RuleLoader::use_tolerance() {
  if (rules_.empty()) return;
  const Rules& first = rules_.begin()->second;
  for (const auto& [number, rules] : rules_) {
    if (rules.tolerance_text == first.tolerance_text) continue;
    throw clickhouse::Error(
        "the runs asked for were judged by other tolerances (`greta-db tolerance`): name runs"
        " that were judged by the same");
  }
  db_.exec("DELETE FROM tolerance");
  for (const auto& cells : first.tolerances) {
    SQLite::Statement& add =
        statements_("INSERT INTO tolerance(tensor_id, dtype, rel_l2) VALUES (?, ?, ?)");
    if (cells.at(0)) add.bind(1, mapped(first.tensors, integer_of(cells[0]), "trace point"));
    bind_cell(add, 2, cells.at(1), "TEXT");
    bind_cell(add, 3, cells.at(2), "REAL");
    add.exec();
  }
}

}  // namespace greta
