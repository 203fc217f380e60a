#include "db/fleet/fleet_file.h"

#include <sqlite3.h>

#include <algorithm>
#include <utility>

#include "common/stop_signal.h"
#include "db/judge.h"
#include "db/run_records.h"

namespace greta {
namespace {

using clickhouse::RowReader;

/// Rows that are asked for at once.
constexpr uint64_t kMostRowsAsked = 500'000;
/// Ids of a file are less than this, so that those of its runs do not meet.
constexpr int64_t kIdsOfARun = int64_t{1} << 40;

/// Every run has a row, or it would look like a directory level above others: this one, where its
/// rows are not fetched.
constexpr const char* kAddRow =
    "INSERT INTO trace_row(run_id, prompt_id, side, pos_id, layer, tensor_id, nth, phase_id, step,"
    " name_id, flags, source_id, line) VALUES (?, 0, 2, -1, 0, 0, 0, 0, -1, 0, 0, 0, 0)";
constexpr const char* kRemoveRow = "DELETE FROM trace_row WHERE run_id = ?";
constexpr const char* kNotePositions =
    "INSERT INTO traced_position SELECT run_id, prompt_id, side, pos_id,"
    " max(phase_id = (SELECT id FROM phase WHERE name = 'prefill_last'))"
    " FROM trace_row WHERE run_id = ? GROUP BY 1, 2, 3, 4";

/// With its own id where that is free.
constexpr const char* kAddTensor =
    "INSERT INTO tensor(id, ord, name, stage) SELECT CASE WHEN EXISTS (SELECT 1 FROM tensor"
    " WHERE id = ?1) THEN NULL ELSE ?1 END, ?2, ?3, ?4";
constexpr const char* kAddName =
    "INSERT INTO tensor_name(id, name, tensor_id, cause) SELECT CASE WHEN EXISTS (SELECT 1 FROM"
    " tensor_name WHERE id = ?1) THEN NULL ELSE ?1 END, ?2, ?3, ?4";

/// Position of a table in the order of loading: after the tables that it refers to.
size_t place_of(const std::string& table) {
  const std::vector<RecordTable>& tables = record_tables();
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const RecordTable& one) { return table == one.name; });
  return static_cast<size_t>(found - tables.begin());
}

/// An id here. Throws where it did not come along.
template <class Ids>
int64_t mapped_id(const Ids& ids, int64_t id, const char* what) {
  const auto found = ids.find(id);
  if (found != ids.end()) return found->second;
  throw clickhouse::Error("a run refers to a " + std::string(what) +
                          " that did not come with it: its push is damaged");
}

}  // namespace

/// Dictionaries of a file that pushed.
struct FleetFile::Rules {
  Ids tensors, names, phases;
};

struct FleetFile::Run {
  const Published* published = nullptr;
  const Rules* rules = nullptr;  ///< none: ids are of this database
  int64_t run_id = 0;
  int64_t offset = 0;  ///< of the ids of rows that nothing but this run has
  Ids runs;            ///< the run itself, and directory levels above it
  /// Directory levels, and their sources, that another run brought along; ids of the file.
  std::set<int64_t> known_runs;
  Ids known_sources;
  bool has_all_records = false, has_rows = false;

  int64_t mapped(Reference reference, int64_t id) const {
    if (rules == nullptr) return id;
    switch (reference) {
      case Reference::kOwn:
        return id + offset;
      case Reference::kRun:
        return mapped_id(runs, id, "run");
      case Reference::kSource:
        return known_sources.contains(id) ? known_sources.at(id) : id + offset;
      case Reference::kTensor:
        return mapped_id(rules->tensors, id, "trace point");
      case Reference::kName:
        return mapped_id(rules->names, id, "name of a trace point");
      case Reference::kPhase:
        return mapped_id(rules->phases, id, "phase");
      case Reference::kNone:
        break;
    }
    return id;
  }

  /// True if a record is of a directory level that is here already.
  bool has_come(const Record& record, const Columns& columns) const {
    const bool has_run = std::any_of(columns.begin(), columns.end(), [](const Column& column) {
      return column.reference == Reference::kRun;
    });
    for (size_t i = 0; i < std::min(columns.size(), record.cells.size()); ++i) {
      const Reference reference = columns[i].reference;
      if (reference == Reference::kRun && known_runs.contains(record.integer(i))) return true;
      if (reference == Reference::kSource && !has_run && known_sources.contains(record.integer(i)))
        return true;
    }
    return false;
  }
};

/// A table of SQLite as rows are put into it.
struct FleetFile::Insert {
  Columns columns;
  RowStatement statement;

  Insert(SQLite::Database& db, const std::string& table)
      : columns(table_columns(db, table)),
        statement(db, "INSERT OR IGNORE INTO " + table + "(" + names_of(columns) + ") VALUES (" +
                          parameter_marks(columns.size()) + ")") {}

  void bind(const Run& run, const Column& column, const FetchedValue& value) {
    const auto* id = std::get_if<int64_t>(&value);
    bind_value(statement, id ? FetchedValue(run.mapped(column.reference, *id)) : value,
               column.type);
  }
};

FleetFile::FleetFile(FleetServer& server, SQLite::Database&& db)
    : server_(server), db_(std::move(db)), statements_(db_) {
  sqlite3_db_config(db_.getHandle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db_.getHandle(), SQLITE_DBCONFIG_ENABLE_FKEY, 0, nullptr);
}

FleetFile::~FleetFile() = default;

int64_t FleetFile::run_id(size_t run) const { return by_push_.at(runs_[run].push).run_id; }

std::vector<FleetFile::Run*> FleetFile::runs_of(const std::vector<int64_t>& run_ids) {
  const std::set<int64_t> wanted(run_ids.begin(), run_ids.end());
  std::vector<Run*> found;
  for (auto& [push, run] : by_push_) {
    if (wanted.contains(run.run_id)) found.push_back(&run);
  }
  return found;
}

/// The dictionaries of a push, whose number says what they are.
const FleetFile::Rules& FleetFile::rules_of(uint64_t push) {
  const auto [known, is_new] = rules_.try_emplace(push);
  if (!is_new) return known->second;
  const std::vector<Record> records = shared_records(server_, push);
  if (push_of_rules(records) != push) {
    throw clickhouse::Error(server_.where() +
                            " has another dictionary of names and tolerances than was sent (push " +
                            std::to_string(push) + " of its records): no answer is made of it");
  }
  return known->second = put_rules(records);
}

/// Brings dictionaries along: what the database has already keeps its id.
FleetFile::Rules FleetFile::put_rules(const std::vector<Record>& records) {
  Rules rules;
  const auto with = [&](const std::string& kind, const auto& put) {
    for (const Record& record : records) {
      if (record.kind == kind) put(record);
    }
  };
  with("cause", [&](const Record& cause) { put_plainly({}, cause); });
  with("phase", [&](const Record& phase) {
    rules.phases[phase.integer(0)] =
        id_of_name("SELECT id FROM phase WHERE name = ?", phase.text(1),
                   statements_("INSERT INTO phase(name, side) VALUES (?, ?)", phase.text(1),
                               phase.integer(2)));
  });
  with("tensor", [&](const Record& tensor) {
    rules.tensors[tensor.integer(0)] =
        id_of_name("SELECT id FROM tensor WHERE name = ?", tensor.text(2),
                   statements_(kAddTensor, tensor.integer(0), tensor.integer(1), tensor.text(2),
                               tensor.text(3)));
  });
  with("tensor_name", [&](const Record& name) {
    rules.names[name.integer(0)] = id_of_name(
        "SELECT id FROM tensor_name WHERE name = ?", name.text(1),
        statements_(kAddName, name.integer(0), name.text(1),
                    mapped_id(rules.tensors, name.integer(2), "trace point"), name.text(3)));
  });
  return rules;
}

int64_t FleetFile::id_of_name(const char* find, const std::string& name, SQLite::Statement& add) {
  if (const auto here = statements_.find_id(find, name)) return *here;
  add.exec();
  return db_.getLastInsertRowid();
}

void FleetFile::add(std::vector<Published> runs, Records records) {
  runs_ = std::move(runs);
  SQLite::Transaction transaction(db_);
  for (const Published& one : runs_) {
    const int64_t offset = kIdsOfARun * static_cast<int64_t>(by_push_.size());
    Run& run = by_push_[one.push];
    run.published = &one;
    run.rules = &rules_of(one.rules);
    run.offset = offset;
  }
  fetch_records(runs_, true, records == Records::kAll);
  for (const auto& [push, run] : by_push_) statements_(kAddRow, run.run_id).exec();
  db_.exec("INSERT OR REPLACE INTO lineage_member SELECT * FROM run_lineage");
  fetch(kVerdictTable, runs_,
        [&](const Run& run, const Row& row) { put_row(run, kVerdictTable, row); });
  fetch(kChangeTable, runs_, [&](const Run& run, const Row& row) { put_change(run, row); });
  transaction.commit();
}

/// Compares records with what was sent: here where all of them are here, else by the server.
void FleetFile::fetch_records(const std::vector<Published>& runs, bool for_verdicts,
                              bool for_rows) {
  std::vector<std::string> kinds;
  for (const RecordTable& table : record_tables())
    if (table.for_verdicts ? for_verdicts : for_rows) kinds.emplace_back(table.name);
  for (const std::vector<Published>& asked : portions(runs)) {
    throw_if_stopped();
    std::map<uint64_t, std::vector<Record>> all;
    for_each_record(server_, asked_table(asked), kinds, [&](uint64_t push, Record& record) {
      found_[push][kRecordTable].add(record.hash());
      all[push].push_back(std::move(record));
    });
    if (for_rows) {
      require_all(server_, asked, found_, kRecordTable);
    } else {
      check_rows(server_, asked, kRecordTable);
    }
    for (const Published& one : asked) {
      Run& run = by_push_.at(one.push);
      std::vector<Record>& records = all[one.push];
      std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
        return std::pair(place_of(a.kind), a.ord) < std::pair(place_of(b.kind), b.ord);
      });
      for (const Record& record : records) put_record(run, record);
      run.has_all_records = for_rows;
    }
  }
}

/// Calls back with each row of a table, and compares them with what was sent.
template <class Take>
void FleetFile::fetch(size_t table, const std::vector<Published>& asked, const Take& take) {
  if (asked.empty()) return;
  const FleetTable& from = fleet_tables()[table];
  Row row;
  server_.select("SELECT push, " + from.names + " FROM " + server_.table(from.name) +
                     " WHERE push IN (SELECT push FROM asked)",
                 "push, " + from.names,
                 [&](RowReader& reader) {
                   const uint64_t push = reader.u64();
                   found_[push][table].add(read_row(reader, from.columns, row));
                   take(by_push_.at(push), row);
                 },
                 {asked_table(asked)});
  require_all(server_, asked, found_, table);
}

void FleetFile::add_commits() {
  SQLite::Transaction transaction(db_);
  for (const Record& record : shared_records(server_, kCommitsPush)) put_plainly({}, record);
  transaction.commit();
}

void FleetFile::add_rows(const std::vector<int64_t>& run_ids) {
  SQLite::Transaction transaction(db_);
  const std::vector<Run*> asked_for = runs_of(run_ids);
  std::vector<Published> lacking_records, lacking_rows;
  for (Run* run : asked_for) {
    if (run->has_rows) continue;
    if (!run->has_all_records) lacking_records.push_back(*run->published);
    lacking_rows.push_back(*run->published);
    run->has_rows = true;
    statements_(kRemoveRow, run->run_id).exec();
  }
  fetch_records(lacking_records, false, true);
  for (const std::vector<Published>& asked : portions(lacking_rows, kMostRowsAsked)) {
    throw_if_stopped();
    for (const size_t table :
         {kTraceRowTable, kSketchTable, kSampleTable, kDifferenceTable, kDifferencePartTable}) {
      fetch(table, asked, [&](const Run& run, const Row& row) { put_row(run, table, row); });
    }
  }
  for (const Published& one : lacking_rows)
    statements_(kNotePositions, by_push_.at(one.push).run_id).exec();
  transaction.commit();
}

void FleetFile::compare_with_baselines() {
  std::vector<std::pair<int64_t, int64_t>> open;
  std::vector<int64_t> both;
  {
    SQLite::Statement pairs(
        db_,
        "SELECT b.run_id, b.baseline_id FROM lineage b WHERE b.baseline_id IS NOT NULL AND NOT"
        " EXISTS (SELECT 1 FROM run_change c WHERE c.run_id = b.run_id AND c.baseline_id ="
        " b.baseline_id)");
    while (pairs.executeStep()) {
      open.emplace_back(pairs.getColumn(0).getInt64(), pairs.getColumn(1).getInt64());
      both.insert(both.end(), {open.back().first, open.back().second});
    }
  }
  add_rows(both);
  for (const auto& [run, baseline] : open) {
    throw_if_stopped();
    judge_change(db_, run, baseline);
  }
}

void FleetFile::check_rows_of(const std::vector<int64_t>& run_ids) {
  std::vector<Published> runs;
  for (const Run* run : runs_of(run_ids))
    if (!run->has_rows) runs.push_back(*run->published);
  for (const std::vector<Published>& asked : portions(runs)) check_rows(server_, asked);
}

FleetFile::Insert& FleetFile::insert(const std::string& table) {
  std::unique_ptr<Insert>& to = inserts_[table];
  if (!to) to = std::make_unique<Insert>(db_, table);
  return *to;
}

void FleetFile::put_row(const Run& run, size_t table, const Row& row) {
  Insert& to = insert(fleet_tables()[table].name);
  size_t next = 0;
  for (const Column& column : to.columns) {
    if (column.reference == Reference::kRun) {
      to.statement.bind(run.run_id);
    } else {
      to.bind(run, column, row[next++]);
    }
  }
  to.statement.run();
}

/// How a run compares with its baseline, where that is here as it was then.
void FleetFile::put_change(const Run& run, const Row& row) {
  const auto baseline = run_of_identity_.find(std::get<std::string_view>(row[0]));
  if (baseline == run_of_identity_.end()) return;
  static const std::string is_as_it_was = "SELECT " + extent_sql("?1") + " = ?2";
  const std::string extent(std::get<std::string_view>(row[1]));
  if (statements_.find_id(is_as_it_was.c_str(), baseline->second, extent) != 1) return;
  Insert& to = insert("run_change");
  to.statement.bind(run.run_id);
  to.statement.bind(baseline->second);
  for (size_t i = 2; i < row.size(); ++i) to.bind(run, to.columns[i], row[i]);
  to.statement.run();
}

void FleetFile::put_record(Run& run, const Record& record) {
  if (record.kind == "run") return put_run(run, record);
  if (record.kind == "source") {  // that of a directory level may be here already
    put_plainly(run, record);
    const int64_t there = record.integer(0);
    const auto here = statements_.find_id(
        "SELECT id FROM source WHERE run_id = ? AND leg = ? AND prompt = ? AND sha256 = ?",
        run.mapped(Reference::kRun, record.integer(1)), record.text(2), record.text(3),
        record.text(4));
    if (here && *here != there + run.offset) run.known_sources[there] = *here;
    return;
  }
  if (record.kind == "noise_floor") {  // the latest measurement of a place stands
    statements_(
        "DELETE FROM noise_floor WHERE tensor_id = ? AND layer = ? AND model_sha256 = ?"
        " AND dtype = ? AND backend = ? AND measured_at < ?",
        run.mapped(Reference::kTensor, record.integer(0)), record.integer(1), record.text(2),
        record.text(3), record.text(4), record.text(8))
        .exec();
  } else if (run.has_come(record, insert(record.kind).columns)) {
    return;
  }
  put_plainly(run, record);
}

void FleetFile::put_run(Run& run, Record record) {
  const int64_t there = record.integer(0);
  const bool is_level = there != run.published->origin;
  const auto known = is_level
                         ? statements_.find_id("SELECT id FROM run WHERE name = ?", record.text(1))
                         : std::nullopt;
  if (known) {
    run.runs[there] = *known;
    run.known_runs.insert(there);
    return;
  }
  // its own id where that is free: runs of one file stay in their order
  const bool is_free = !statements_.find_id("SELECT 1 FROM run WHERE id = ?", there);
  const int64_t id =
      is_free ? there : statements_.find_id("SELECT max(id) + 1 FROM run").value_or(1);
  run.runs[there] = id;
  record.cells.at(0) = std::to_string(id);
  if (!is_level) {
    record.cells.at(1) = free_run_name(db_, run.published->run);
    run.run_id = id;
    run_of_identity_[run.published->identity] = id;
  }
  put_plainly({}, record);
}

void FleetFile::put_plainly(const Run& run, const Record& record) {
  Insert& to = insert(record.kind);
  if (record.cells.size() != to.columns.size()) {
    throw clickhouse::Error("a record of " + record.kind +
                            " has other columns: its push is damaged");
  }
  for (size_t i = 0; i < to.columns.size(); ++i)
    to.bind(run, to.columns[i], record.value(i, to.columns[i].type));
  to.statement.run();
}

}  // namespace greta
