#include "db/fleet/fleet_file.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "common/stop_signal.h"
#include "db/database.h"
#include "db/fleet/row_text.h"
#include "db/fleet/run_tables.h"
#include "db/kept_diff.h"
#include "db/kept_tally.h"
#include "db/run_name.h"
#include "db/schema.h"

namespace greta {
namespace {

using clickhouse::RowReader;
using clickhouse::RowWriter;

/// Runs that a server is asked about at once: it holds their groups in memory.
constexpr uint64_t kMostRowsAsked = 500'000;
constexpr size_t kMostRunsAsked = 1000;

/// Tables that verdicts, and what they are compared with, do not need.
constexpr const char* kNotForVerdicts[] = {"row_context", "trace_repeat", "readout",    "plan",
                                           "log_event",   "document_row", "noise_floor"};
/// Of these, that there is a row.
constexpr const char* kOneRowOf = "plan";

constexpr const char* kRowColumns =
    "push, prompt_id, side, pos_id, layer, tensor_id, nth, crowded, phase_id, step, name_id,"
    " token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan_count, inf_count, nz_count, "
    "flags,"
    " sketch_n, sketch_derived, sum_sq, sketch, sample_n, sample, ptr, offset_bytes, context_id,"
    " source_id, line";
constexpr const char* kDifferenceFields =
    "push, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash, n, differing, first_at,"
    " last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads, segments, shares";

int64_t text_number(const CellText& cell) { return cell ? std::stoll(*cell) : 0; }

std::string marks(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += i == 0 ? "?" : ", ?";
  return text;
}

/// "run_id, name" apart.
std::vector<std::string> split_columns(const std::string& columns) {
  std::vector<std::string> names;
  for (size_t at = 0; at < columns.size();) {
    const size_t end = std::min(columns.find(", ", at), columns.size());
    names.push_back(columns.substr(at, end - at));
    at = end + 2;
  }
  return names;
}

using Ids = std::unordered_map<int64_t, int64_t>;

/// What ids of a column refer to.
enum class Reference { kNone, kRun, kPrompt, kSource, kContext, kTensor, kName, kPhase, kNothing };

Reference reference_of(const std::string& column) {
  const auto ends = [&](const char* suffix) { return column.ends_with(suffix); };
  if (column == "run_id" || column == "run_b_id") return Reference::kRun;
  if (ends("prompt_id")) return Reference::kPrompt;
  if (column == "source_id") return Reference::kSource;
  if (column == "context_id") return Reference::kContext;
  if (ends("tensor_id")) return Reference::kTensor;
  if (ends("name_id")) return Reference::kName;
  if (column == "phase_id") return Reference::kPhase;
  if (column == "vector_id") return Reference::kNothing;  // sketches come with all rows
  return Reference::kNone;
}

/// A table as records are put into it.
struct Target {
  std::vector<std::string> types;
  std::vector<Reference> references;
  bool has_id = false;
  bool has_run = false;
  std::unique_ptr<SQLite::Statement> insert;
};

/// Ids of the dictionaries of a file that pushed.
struct Rules {
  Ids tensors, names, phases;
  std::string tolerance;
  // of the file's own ids
  int64_t prefill_last = -1;
  RowWriter name_rows;
};

/// Ids of one push.
struct Push {
  const Published* published = nullptr;
  int64_t run_id = 0;
  Rules* rules = nullptr;
  Ids runs, prompts, sources, contexts;
  std::set<int64_t> known_runs, known_sources;  // of levels that another run brought along
  bool has_rest = false, has_rows = false;
};

}  // namespace

struct FleetFile::Loader {
  Loader(FleetServer& server_, SQLite::Database& db_) : server(server_), db(db_) {}

  FleetServer& server;
  SQLite::Database& db;
  std::map<uint64_t, std::unique_ptr<Rules>> rules;
  std::map<uint64_t, Push> pushes;
  std::map<std::string, Target> targets;
  std::map<std::string, int64_t> run_of_identity;
  std::vector<std::pair<Push*, Record>> diffs;
  bool has_vectors = false;
  int64_t next_vector = 1;
  std::vector<int64_t> pushed;  ///< run ids, in order

  Target& target(const std::string& table) {
    Target& one = targets[table];
    if (one.insert) return one;
    const std::string columns = columns_of(db, table);
    const std::vector<std::string> names = split_columns(columns);
    one.types = column_types(db, table);
    for (const std::string& name : names) {
      one.references.push_back(reference_of(name));
      one.has_run = one.has_run || name == "run_id";
    }
    one.has_id = names.front() == "id";
    one.insert =
        std::make_unique<SQLite::Statement>(db, "INSERT OR IGNORE INTO " + table + "(" + columns +
                                                    ") VALUES (" + marks(names.size()) + ")");
    return one;
  }

  static int64_t mapped(const Ids& ids, int64_t id, const char* what) {
    const auto found = ids.find(id);
    if (found != ids.end()) return found->second;
    throw clickhouse::Error("a run refers to a " + std::string(what) +
                            " that did not come with it: its push is damaged");
  }

  int64_t mapped(Push& push, Reference reference, int64_t id) {
    switch (reference) {
      case Reference::kRun:
        return mapped(push.runs, id, "run");
      case Reference::kPrompt:
        return id <= 0 ? id : mapped(push.prompts, id, "prompt");
      case Reference::kSource:
        return mapped(push.sources, id, "source");
      case Reference::kContext:
        return mapped(push.contexts, id, "context");
      case Reference::kTensor:
        return mapped(push.rules->tensors, id, "trace point");
      case Reference::kName:
        return mapped(push.rules->names, id, "name of a trace point");
      case Reference::kPhase:
        return mapped(push.rules->phases, id, "phase");
      default:
        return id;
    }
  }

  /// Puts a record in; returns the id that SQLite gave it, 0 when it was there.
  int64_t put(Push& push, const std::string& table, const std::vector<CellText>& cells,
              std::optional<int64_t> own_id = {}) {
    Target& to = target(table);
    if (cells.size() < to.types.size())
      throw clickhouse::Error("a record of " + table + " lacks columns: its push is damaged");
    to.insert->reset();
    for (size_t i = 0; i < to.types.size(); ++i) {
      const int parameter = static_cast<int>(i) + 1;
      const CellText& cell = cells[i];
      const Reference reference = to.references[i];
      if (i == 0 && to.has_id) {
        own_id ? to.insert->bind(parameter, *own_id) : to.insert->bind(parameter);
      } else if (reference == Reference::kNothing) {
        to.insert->bind(parameter);
      } else if (reference == Reference::kContext && push.contexts.empty()) {
        to.insert->bind(parameter);  // contexts were not asked for
      } else if (reference != Reference::kNone && cell) {
        to.insert->bind(parameter, mapped(push, reference, text_number(cell)));
      } else {
        bind_cell(*to.insert, parameter, cell, to.types[i]);
      }
    }
    return to.insert->exec() > 0 ? db.getLastInsertRowid() : 0;
  }

  // ---- dictionaries

  void load_rules(uint64_t number, uint64_t records) {
    auto [known, is_new] = rules.try_emplace(number);
    if (!is_new) return;
    known->second = std::make_unique<Rules>();
    Rules& one = *known->second;
    std::vector<Record> all;
    for_each_record(server, number, {},
                    [&](uint64_t, Record& record) { all.push_back(std::move(record)); });
    std::sort(all.begin(), all.end(),
              [](const Record& a, const Record& b) { return a.ord < b.ord; });
    std::map<std::string, std::vector<std::vector<CellText>>> rows;
    for (Record& record : all) rows[record.kind].push_back(std::move(record.cells));
    const uint64_t n = all.size();
    if (n != records) {
      throw clickhouse::Error(server.where() + " has " + std::to_string(n) +
                              " records of a dictionary, not the " + std::to_string(records) +
                              " that were sent: no answer is made of fewer");
    }
    Statement find_tensor(db, "SELECT id FROM tensor WHERE name = ?");
    Statement find_name(db, "SELECT id FROM tensor_name WHERE name = ?");
    Statement find_phase(db, "SELECT id FROM phase WHERE name = ?");
    std::map<int64_t, const std::vector<CellText>*> tensors;
    for (const auto& cells : rows["cause"]) {
      Statement add(db, "INSERT OR IGNORE INTO cause VALUES (?, ?)");
      add.text(*cells.at(0)).text(*cells.at(1)).exec();
    }
    for (const auto& cells : rows["phase"]) {
      const int64_t id = text_number(cells.at(0));
      if (*cells.at(1) == "prefill_last") one.prefill_last = id;
      auto here = find_phase.id(*cells.at(1));
      if (!here) {
        Statement add(db, "INSERT INTO phase(name, side) VALUES (?, ?)");
        add.text(*cells.at(1)).number(text_number(cells.at(2))).exec();
        here = db.getLastInsertRowid();
      }
      one.phases[id] = *here;
    }
    for (const auto& cells : rows["tensor"]) {
      const int64_t id = text_number(cells.at(0));
      tensors[id] = &cells;
      auto here = find_tensor.id(*cells.at(2));
      if (!here) here = add_tensor(id, cells);
      one.tensors[id] = *here;
    }
    for (const auto& cells : rows["tensor_name"]) {
      const int64_t id = text_number(cells.at(0)), of = text_number(cells.at(2));
      auto here = find_name.id(*cells.at(1));
      if (!here) {
        Statement taken(db, "SELECT 1 FROM tensor_name WHERE id = ?");
        Statement add(db,
                      "INSERT INTO tensor_name(id, name, tensor_id, cause) VALUES (?, ?, ?, ?)");
        add.number_or_null(taken.number(id).id() ? std::nullopt : std::optional(id));
        add.text(*cells.at(1))
            .number(mapped(one.tensors, of, "trace point"))
            .text(*cells.at(3))
            .exec();
        here = db.getLastInsertRowid();
      }
      one.names[id] = *here;
      const auto tensor = tensors.find(of);
      if (tensor == tensors.end())
        throw clickhouse::Error("a name of no trace point: a push is damaged");
      const std::vector<CellText>& t = *tensor->second;
      one.name_rows.i64(id).i64(of).i64(text_number(t.at(1))).text(*t.at(2)).text(*t.at(3));
      one.name_rows.text(*cells.at(3)).i64(text_number(t.at(4))).text(t.at(5).value_or(""));
    }
    for (const auto& cells : rows["tolerance"]) {
      for (size_t i = 0; i < cells.size(); ++i) {
        const CellText cell = i == 0 && cells[0]
                                  ? CellText(std::to_string(
                                        mapped(one.tensors, text_number(cells[0]), "trace point")))
                                  : cells[i];
        one.tolerance += cell ? *cell : "";
        one.tolerance += '\n';
      }
    }
    tolerance_rows[number] = rows["tolerance"];
  }

  int64_t add_tensor(int64_t id, const std::vector<CellText>& cells) {
    Statement taken(db, "SELECT 1 FROM tensor WHERE id = ?");
    Statement add(db, "INSERT INTO tensor(id, ord, name, stage) VALUES (?, ?, ?, ?)");
    add.number_or_null(taken.number(id).id() ? std::nullopt : std::optional(id));
    add.number(text_number(cells.at(1))).text(*cells.at(2)).text(*cells.at(3)).exec();
    return db.getLastInsertRowid();
  }

  std::map<uint64_t, std::vector<std::vector<CellText>>> tolerance_rows;

  /// The tolerances by which all runs here were judged.
  void use_tolerance() {
    if (rules.empty()) return;
    const Rules& first = *rules.begin()->second;
    for (const auto& [number, one] : rules) {
      if (one->tolerance == first.tolerance) continue;
      throw clickhouse::Error(
          "the runs asked for were judged by other tolerances (`greta-db tolerance`): name runs"
          " that were judged by the same");
    }
    db.exec("DELETE FROM tolerance");
    for (const auto& cells : tolerance_rows.begin()->second) {
      SQLite::Statement add(db, "INSERT INTO tolerance(tensor_id, dtype, rel_l2) VALUES (?, ?, ?)");
      if (cells.at(0)) add.bind(1, mapped(first.tensors, text_number(cells[0]), "trace point"));
      bind_cell(add, 2, cells.at(1), "TEXT");
      bind_cell(add, 3, cells.at(2), "REAL");
      add.exec();
    }
  }

  /// A statement with few words.
  class Statement {
   public:
    Statement(SQLite::Database& of, const char* sql) : statement_(of, sql) {}
    Statement& text(const std::string& value) {
      statement_.bind(++at_, value);
      return *this;
    }
    Statement& number(int64_t value) {
      statement_.bind(++at_, value);
      return *this;
    }
    Statement& number_or_null(std::optional<int64_t> value) {
      if (value) return number(*value);
      statement_.bind(++at_);
      return *this;
    }
    void exec() { statement_.exec(); }
    std::optional<int64_t> id() {
      std::optional<int64_t> found;
      if (statement_.executeStep()) found = statement_.getColumn(0).getInt64();
      statement_.reset();
      at_ = 0;
      return found;
    }
    std::optional<int64_t> id(const std::string& value) {
      text(value);
      return id();
    }

   private:
    SQLite::Statement statement_;
    int at_ = 0;
  };

  // ---- runs

  /// Makes the rows of `run` first, in their order: ids ascend as in the files they are from.
  void add_runs(const std::vector<Published>& runs) {
    for (const Published& one : runs) {
      Push& push = pushes[one.push];
      push.published = &one;
      load_rules(one.rules, one.rules_records);
      push.rules = rules.at(one.rules).get();
    }
  }

  void put_push(Push& push, std::vector<Record>& records) {
    std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
      return std::pair(place_of(a.kind), a.ord) < std::pair(place_of(b.kind), b.ord);
    });
    for (const Record& record : records) put_record(push, record);
  }

  static size_t place_of(const std::string& kind) {
    const auto tables = run_tables();
    for (size_t i = 0; i < tables.size(); ++i) {
      if (kind == tables[i].name) return i;
    }
    return tables.size();
  }

  void put_record(Push& push, const Record& record) {
    const std::vector<CellText>& cells = record.cells;
    if (record.kind == "run") return put_run(push, cells);
    if (record.kind == "prompt") {
      const int64_t id = put(push, record.kind, cells);
      push.prompts[text_number(cells.at(0))] = id != 0 ? id : find_prompt(push, cells);
      return;
    }
    if (record.kind == "source") return put_source(push, cells);
    if (record.kind == "row_context") {
      push.contexts[text_number(cells.at(0))] = put(push, record.kind, cells);
      return;
    }
    if (record.kind == "kept_diff") {
      diffs.emplace_back(&push, record);
      return;
    }
    if (record.kind == "noise_floor") return put_noise(push, cells);
    const Target& to = target(record.kind);
    for (size_t i = 0; i < to.references.size(); ++i) {
      // what another run has brought along is here
      if (!cells[i]) continue;
      if (to.references[i] == Reference::kRun && push.known_runs.contains(text_number(cells[i])))
        return;
      if (!to.has_run && to.references[i] == Reference::kSource &&
          push.known_sources.contains(text_number(cells[i])))
        return;
    }
    put(push, record.kind, cells);
  }

  void put_run(Push& push, const std::vector<CellText>& cells) {
    const int64_t there = text_number(cells.at(0));
    const bool is_it = there == push.published->origin;
    std::vector<CellText> named = cells;
    if (is_it) {
      named.at(1) = free_run_name(db, push.published->run);
    } else if (Statement level(db, "SELECT id FROM run WHERE name = ?");
               const auto known = level.id(*cells.at(1))) {
      push.runs[there] = *known;
      push.known_runs.insert(there);
      return;
    }
    // its own where that is free: runs of one file stay in their order
    Statement taken(db, "SELECT 1 FROM run WHERE id = ?");
    const bool is_free = !taken.number(there).id();
    const int64_t id = put(push, "run", named, is_free ? std::optional(there) : std::nullopt);
    push.runs[there] = id;
    if (!is_it) return;
    push.run_id = id;
    run_of_identity[push.published->identity] = id;
  }

  int64_t find_prompt(Push& push, const std::vector<CellText>& cells) {
    Statement find(db, "SELECT id FROM prompt WHERE run_id = ? AND name = ?");
    find.number(mapped(push.runs, text_number(cells.at(1)), "run")).text(*cells.at(2));
    return find.id().value_or(0);
  }

  void put_source(Push& push, const std::vector<CellText>& cells) {
    const int64_t there = text_number(cells.at(0));
    int64_t id = put(push, "source", cells);
    if (id == 0) {
      Statement find(
          db, "SELECT id FROM source WHERE run_id = ? AND leg = ? AND prompt = ? AND sha256 = ?");
      find.number(mapped(push.runs, text_number(cells.at(1)), "run"));
      find.text(*cells.at(2)).text(*cells.at(3)).text(*cells.at(4));
      id = find.id().value_or(0);
      push.known_sources.insert(there);
    }
    push.sources[there] = id;
  }

  /// The latest measurement of a place stands.
  void put_noise(Push& push, const std::vector<CellText>& cells) {
    Statement older(db,
                    "DELETE FROM noise_floor WHERE tensor_id = ? AND layer = ? AND model_sha256 = ?"
                    " AND dtype = ? AND backend = ? AND measured_at < ?");
    older.number(mapped(push.rules->tensors, text_number(cells.at(0)), "trace point"));
    older.number(text_number(cells.at(1))).text(*cells.at(2)).text(*cells.at(3)).text(*cells.at(4));
    older.text(*cells.at(8)).exec();
    put(push, "noise_floor", cells);
  }

  /// How runs compare with others that are here, as they are here.
  void put_diffs() {
    Statement content(db,
                      "SELECT 1 FROM (SELECT count(*) || ':' || ifnull(sum(s.rows), 0) AS x FROM"
                      " source s WHERE s.run_id = ?) WHERE x = ?");
    Statement prompt(db, "SELECT id FROM prompt WHERE run_id = ? AND name = ?");
    const std::vector<std::string> names = split_columns(columns_of(db, "kept_diff"));
    for (auto& [push, record] : diffs) {
      std::vector<CellText>& cells = record.cells;
      if (cells.size() != names.size() + 1 || !cells[0]) continue;
      const auto a = run_of_identity.find(*cells[0]);
      if (a == run_of_identity.end()) continue;
      if (!content.number(a->second).text(cells.back().value_or("")).id()) continue;
      bool is_whole = true;
      for (size_t i = 0; i < names.size(); ++i) {
        if (!names[i].ends_with("prompt_id") || !cells[i]) continue;
        const auto id = prompt.number(a->second).text(*cells[i]).id();
        is_whole = is_whole && id;
        cells[i] = std::to_string(id.value_or(0));
      }
      if (!is_whole) continue;
      // prompts are of run a: ids of this database already
      Target& to = target("kept_diff");
      to.insert->reset();
      for (size_t i = 0; i < names.size(); ++i) {
        const int parameter = static_cast<int>(i) + 1;
        const bool is_mapped = to.references[i] != Reference::kNone &&
                               to.references[i] != Reference::kPrompt && cells[i];
        if (i == 0) {
          to.insert->bind(parameter, a->second);
        } else if (is_mapped) {
          to.insert->bind(parameter, mapped(*push, to.references[i], text_number(cells[i])));
        } else {
          bind_cell(*to.insert, parameter, cells[i], to.types[i]);
        }
      }
      to.insert->exec();
    }
    diffs.clear();
  }

  // ---- rows

  /// Tables that were left out.
  void put_rest(const std::vector<Push*>& wanted) {
    std::vector<Published> asked;
    for (Push* push : wanted) {
      if (push->has_rest) continue;
      push->has_rest = true;
      asked.push_back(*push->published);
      Statement(db, "DELETE FROM plan WHERE run_id = ?").number(push->run_id).exec();
    }
    if (asked.empty()) return;
    std::map<uint64_t, std::vector<Record>> all;
    for_each_record(server, asked, {std::begin(kNotForVerdicts), std::end(kNotForVerdicts)},
                    [&](uint64_t push, Record& record) { all[push].push_back(std::move(record)); });
    for (const Published& one : asked) put_push(pushes.at(one.push), all[one.push]);
  }

  void put_rows(std::vector<Push*> wanted) {
    std::erase_if(wanted, [](const Push* push) { return push->has_rows; });
    for (size_t at = 0; at < wanted.size();) {
      std::vector<Published> asked;
      uint64_t rows = 0;
      for (; at < wanted.size() && asked.size() < kMostRunsAsked && rows < kMostRowsAsked; ++at) {
        asked.push_back(*wanted[at]->published);
        rows += wanted[at]->published->rows;
        clear_rows(*wanted[at]);
        wanted[at]->has_rows = true;
      }
      throw_if_stopped();
      fetch_rows(asked);
      fetch_differences(asked);
    }
  }

  /// The one that stood for all.
  void clear_rows(Push& push) {
    Statement(db, "DELETE FROM trace_row WHERE run_id = ?").number(push.run_id).exec();
    Statement(db, "DELETE FROM traced_position WHERE run_id = ?").number(push.run_id).exec();
  }

  void fetch_rows(const std::vector<Published>& asked) {
    RowStatement insert(db, "INSERT INTO trace_row(" + kTraceColumns + ") VALUES (" +
                                marks(split_columns(kTraceColumns).size()) + ")");
    RowStatement sketch(db, "INSERT INTO sketch VALUES (" + marks(36) + ")");
    RowStatement sample(db, "INSERT INTO sample VALUES (?, ?, ?)");
    std::map<uint64_t, uint64_t> counts;
    server.select(std::string("SELECT ") + kRowColumns + " FROM " + server.table("trace_row") +
                      " WHERE push IN (SELECT push FROM asked)",
                  kRowColumns,
                  [&](RowReader& row) {
                    const uint64_t number = row.u64();
                    Push& push = pushes.at(number);
                    put_row(push, row, insert, sketch, sample);
                    ++counts[number];
                  },
                  {asked_table(asked)});
    for (const Published& one : asked) {
      if (counts[one.push] == one.rows) continue;
      throw clickhouse::Error(server.where() + " gave " + std::to_string(counts[one.push]) +
                              " trace rows of " + one.run + ", not the " +
                              std::to_string(one.rows) +
                              " that were sent: no answer is made of fewer");
    }
    Statement positions(
        db,
        "INSERT INTO traced_position SELECT run_id, prompt_id, side, pos_id,"
        " max(phase_id = (SELECT id FROM phase WHERE name = 'prefill_last'))"
        " FROM trace_row WHERE run_id = ? GROUP BY run_id, prompt_id, side, pos_id");
    for (const Published& one : asked) {
      positions.number(pushes.at(one.push).run_id);
      positions.id();
    }
  }

  void put_row(Push& push, RowReader& row, RowStatement& insert, RowStatement& sketch,
               RowStatement& sample) {
    // All of it is read before anything is written: a row may not be there as a whole.
    const int64_t prompt = row.i64(), side = row.u8();
    const int64_t pos = row.number<int32_t>(), layer = row.number<int32_t>();
    const int64_t tensor = row.i64(), nth = row.i64(), crowded = row.u8(), phase = row.i64(),
                  step = row.i64(), name = row.i64();
    const auto token = row.i64_or_null(), logical = row.i64_or_null(), n = row.i64_or_null(),
               hash = row.i64_or_null();
    std::optional<double> statistics[4];
    for (auto& one : statistics) one = row.f64_or_null();
    const auto nan = row.i64_or_null(), inf = row.i64_or_null(), nz = row.i64_or_null();
    const int64_t flags = row.u8();
    const auto sketch_n = row.i64_or_null();
    const int64_t derived = row.u8();
    const double sum_sq = row.f64();
    double buckets[32];
    const uint64_t n_buckets = row.length();
    for (uint64_t i = 0; i < n_buckets; ++i) {
      const double value = row.f64();
      if (i < 32) buckets[i] = value;
    }
    const auto sample_n = row.i64_or_null();
    const std::string_view data = row.text();
    const auto ptr = row.i64_or_null(), offset = row.i64_or_null(), context = row.i64_or_null();
    const int64_t source = row.i64(), line = row.i64();
    if (sketch_n && n_buckets != 32)
      throw clickhouse::Error("a sketch has no 32 buckets: its push is damaged");

    std::optional<int64_t> vector;
    if (sketch_n || sample_n) vector = next_vector++;
    insert.bind(push.run_id);
    insert.bind(mapped(push, Reference::kPrompt, prompt));
    insert.bind(side);
    insert.bind(pos);
    insert.bind(layer);
    insert.bind(mapped(push, Reference::kTensor, tensor));
    insert.bind(nth);
    insert.bind(crowded);
    insert.bind(mapped(push, Reference::kPhase, phase));
    insert.bind(step);
    insert.bind(mapped(push, Reference::kName, name));
    for (const auto& value : {token, logical, n, hash}) insert.bind(value);
    for (const auto& value : statistics) value ? insert.bind(*value) : insert.bind_null();
    for (const auto& value : {nan, inf, nz}) insert.bind(value);
    insert.bind(flags);
    insert.bind(vector);
    insert.bind(ptr);
    insert.bind(offset);
    if (context && !push.contexts.empty()) {
      insert.bind(mapped(push, Reference::kContext, *context));
    } else {
      insert.bind_null();  // contexts were not asked for
    }
    insert.bind(mapped(push, Reference::kSource, source));
    insert.bind(line);
    insert.run();
    if (sketch_n) {
      sketch.bind(*vector);
      sketch.bind(*sketch_n);
      sketch.bind(derived);
      sketch.bind(sum_sq);
      for (const double value : buckets) sketch.bind(value);
      sketch.run();
    }
    if (sample_n) {
      sample.bind(*vector);
      sample.bind(*sample_n);
      sample.bind_bytes(data);
      sample.run();
    }
  }

  void fetch_differences(const std::vector<Published>& asked) {
    std::string columns =
        "run_id, prompt_id, pos_id, layer, tensor_id, prefill_hash, decode_hash, n, differing,"
        " first_at, last_at, rel_l2, max_abs, max_abs_at, max_ulp, heads, segments";
    for (int i = 0; i < 32; ++i) columns += ", p" + std::to_string(i);
    RowStatement insert(db, "INSERT INTO difference(" + columns + ") VALUES (" + marks(49) + ")");
    std::map<uint64_t, uint64_t> counts;
    server.select(std::string("SELECT ") + kDifferenceFields + " FROM " +
                      server.table("difference") + " WHERE push IN (SELECT push FROM asked)",
                  kDifferenceFields,
                  [&](RowReader& row) {
                    const uint64_t number = row.u64();
                    Push& push = pushes.at(number);
                    const int64_t prompt = row.i64(), pos = row.number<int32_t>(),
                                  layer = row.number<int32_t>(), tensor = row.i64();
                    int64_t numbers[6];  // both hashes, n, differing, first_at, last_at
                    for (int64_t& one : numbers) one = row.i64();
                    const auto rel_l2 = row.f64_or_null();
                    const double max_abs = row.f64();
                    const auto max_abs_at = row.i64_or_null();
                    const int64_t max_ulp = row.i64(), heads = row.i64(), segments = row.i64();
                    std::optional<double> shares[32];
                    const uint64_t n = row.length();
                    for (uint64_t i = 0; i < n; ++i) {
                      const auto share = row.f64_or_null();
                      if (i < 32) shares[i] = share;
                    }
                    insert.bind(push.run_id);
                    insert.bind(mapped(push, Reference::kPrompt, prompt));
                    insert.bind(pos);
                    insert.bind(layer);
                    insert.bind(mapped(push, Reference::kTensor, tensor));
                    for (const int64_t one : numbers) insert.bind(one);
                    rel_l2 ? insert.bind(*rel_l2) : insert.bind_null();
                    insert.bind(max_abs);
                    insert.bind(max_abs_at);
                    insert.bind(max_ulp);
                    insert.bind(heads);
                    insert.bind(segments);
                    for (const auto& share : shares)
                      share ? insert.bind(*share) : insert.bind_null();
                    insert.run();
                    ++counts[number];
                  },
                  {asked_table(asked)});
    for (const Published& one : asked) {
      if (counts[one.push] == one.differences) continue;
      throw clickhouse::Error(server.where() + " gave " + std::to_string(counts[one.push]) +
                              " differences of " + one.run + ", not the " +
                              std::to_string(one.differences) +
                              " that were sent: no answer is made of fewer");
    }
  }

  // ---- verdicts

  void judge(std::vector<Push*> wanted) {
    // of a batch: one dictionary
    std::stable_sort(wanted.begin(), wanted.end(), [](const Push* a, const Push* b) {
      return a->published->rules < b->published->rules;
    });
    for (size_t at = 0; at < wanted.size();) {
      std::vector<Push*> batch;
      uint64_t rows = 0;
      do {
        batch.push_back(wanted[at]);
        rows += wanted[at]->published->rows;
        ++at;
      } while (at < wanted.size() && wanted[at]->rules == batch.front()->rules &&
               batch.size() < kMostRunsAsked && rows < kMostRowsAsked);
      throw_if_stopped();
      judge_batch(batch);
    }
  }

  void judge_batch(const std::vector<Push*>& batch) {
    std::vector<Published> asked;
    std::vector<uint64_t> whole;
    std::map<uint64_t, TallyRows> tallies;
    for (const Push* push : batch) {
      asked.push_back(*push->published);
      if (push->published->hash_algo != "fnv-256") whole.push_back(push->published->push);
      Statement(db, "DELETE FROM kept_tally WHERE run_id = ?").number(push->run_id).exec();
      Statement(db, "DELETE FROM kept_verdict WHERE run_id = ?").number(push->run_id).exec();
      tallies[push->published->push].run_id = push->run_id;
    }
    bool crowded = false;
    const std::map<uint64_t, uint64_t> written = count_rows(asked, crowded);
    // to sort what is never more than one row takes as long as all else
    const auto first_of = [crowded](const std::string& rows) {
      return crowded ? "arraySort(r -> (tupleElement(r, 1), tupleElement(r, 2), tupleElement(r, 3),"
                       " tupleElement(r, 4)), " +
                           rows + ")"
                     : rows;
    };
    const Rules& one = *batch.front()->rules;
    server.select(
        server.query("tally", {{"prefill_last", std::to_string(one.prefill_last)},
                               {"xs", first_of("xs")},
                               {"ys", first_of("ys")}}),
        "push, prompt_id, status, class, scope, cause, total, pairs, claims, anywhere, "
        "unknown_names, first",
        [&](RowReader& row) { add_tally(tallies, row); },
        {asked_table(asked),
         push_table("whole", whole),
         {"names",
          "name_id Int64, of_tensor_id Int64, ord Int64, tensor String, stage String, name_cause"
          " String, switch_on Int64, switch_cause String",
          one.name_rows.bytes()}});
    if (have_plans(batch))
      server.select(server.query("unmet"), "push, prompt_id, total",
                    [&](RowReader& row) {
                      const uint64_t push = row.u64();
                      const int64_t prompt = row.i64();
                      add_count(tallies.at(push), pushes.at(push).prompts.at(prompt), "UNMET",
                                static_cast<int64_t>(row.u64()));
                    },
                    {asked_table(asked)});
    TallyReader own(db);
    TallyKeeper keeper(db);
    for (const Push* push : batch) {
      TallyRows& tally = tallies.at(push->published->push);
      if (push->published->rows == 0) {
        tally = own.read(push->run_id);  // of what documents say, which is all here
      } else {
        add_facts(*push, tally, written.at(push->published->push));
      }
      keeper.keep(tally);
    }
  }

  bool have_plans(const std::vector<Push*>& batch) {
    Statement plan(db, "SELECT 1 FROM plan WHERE run_id = ? LIMIT 1");
    return std::any_of(batch.begin(), batch.end(), [&](const Push* push) {
      return plan.number(push->run_id).id().has_value();
    });
  }

  /// Rows that no document alone states, of each, and whether any of them stand at one place;
  /// throws unless all rows are there.
  std::map<uint64_t, uint64_t> count_rows(const std::vector<Published>& asked, bool& crowded) {
    std::map<uint64_t, uint64_t> counts, written;
    server.select(server.query("row_count"), "push, total, written, any_crowded",
                  [&](RowReader& row) {
                    const uint64_t push = row.u64();
                    const uint64_t n = row.u64(), no_claims = row.u64();
                    const bool is_crowded = row.u8() != 0;
                    counts[push] += n;
                    written[push] += no_claims;
                    crowded = crowded || is_crowded;
                  },
                  {asked_table(asked)});
    for (const Published& run : asked) {
      written[run.push] += 0;
      if (counts[run.push] == run.rows) continue;
      throw clickhouse::Error(server.where() + " has " + std::to_string(counts[run.push]) +
                              " trace rows of " + run.run + ", not the " +
                              std::to_string(run.rows) +
                              " that were sent: no verdict is given about fewer");
    }
    return written;
  }

  static void add_count(TallyRows& tally, int64_t prompt, const char* status, int64_t count) {
    using Value = TallyRows::Value;
    tally.values.insert(
        tally.values.end(),
        {tally.run_id, prompt, std::string(status), Value(), Value(), Value(), count, int64_t{0},
         int64_t{0}, int64_t{0}, Value(), Value(), Value(), Value(), Value(), Value(), Value()});
  }

  void add_tally(std::map<uint64_t, TallyRows>& tallies, RowReader& row) {
    using Value = TallyRows::Value;
    const uint64_t number = row.u64();
    const int64_t prompt = row.i64();
    std::string texts[4];  // status, class, scope, cause
    for (std::string& text : texts) text = row.text();
    const auto count = static_cast<int64_t>(row.u64()), pairs = static_cast<int64_t>(row.u64()),
               claims = static_cast<int64_t>(row.u64());
    const int64_t elsewhere = row.u8();
    row.u8();  // a name that nobody knows is an error there
    const int64_t forward = row.i64();
    row.i64();   // ord
    row.text();  // trace point
    const int64_t layer = row.i64(), name = row.i64(), pos = row.i64();
    row.u8();   // side
    row.i64();  // nth
    const bool no_token = row.u8() != 0;
    const int64_t token = row.i64(), tensor = row.i64();
    Push& push = pushes.at(number);
    const auto text = [](std::string& one) {
      return one.empty() ? Value() : Value(std::move(one));
    };
    const bool has_cause = !texts[3].empty();
    const auto placed = [&](int64_t value) { return has_cause ? Value(value) : Value(); };
    TallyRows& tally = tallies.at(number);
    tally.values.insert(
        tally.values.end(),
        {push.run_id, mapped(push, Reference::kPrompt, prompt), std::move(texts[0]), text(texts[1]),
         text(texts[2]), text(texts[3]), count, pairs, claims, elsewhere, placed(forward),
         placed(layer), has_cause ? Value(mapped(push, Reference::kTensor, tensor)) : Value(),
         has_cause ? Value(mapped(push, Reference::kName, name)) : Value(), placed(pos),
         has_cause && !no_token ? Value(token) : Value(), Value()});
  }

  /// Of a run with trace rows, what follows from other tables: as in view unkept_tally.
  void add_facts(const Push& push, TallyRows& tally, uint64_t written) {
    using Value = TallyRows::Value;
    SQLite::Statement refuted(
        db,
        "SELECT o.prompt_id, o.cause, count(*), o.tensor_id, o.name_id, min(o.pos_id)"
        " FROM refuted_readout o WHERE o.run_id = ? GROUP BY o.prompt_id, o.cause");
    refuted.bind(1, push.run_id);
    while (refuted.executeStep()) {
      tally.values.insert(
          tally.values.end(),
          {tally.run_id, refuted.getColumn(0).getInt64(), std::string("REFUTED"), Value(), Value(),
           refuted.getColumn(1).getString(), refuted.getColumn(2).getInt64(), int64_t{0},
           int64_t{0}, int64_t{0}, int64_t{1000000}, int64_t{-1}, refuted.getColumn(3).getInt64(),
           refuted.getColumn(4).getInt64(), refuted.getColumn(5).getInt64(), Value(), Value()});
    }
    SQLite::Statement lost(
        db,
        "SELECT max(CAST(a.value AS INTEGER)) - ?2 - (SELECT ifnull(sum(s.duplicates), 0) FROM"
        " source s WHERE s.run_id = ?1 AND s.shape = 'engine') FROM attribute a"
        " WHERE a.run_id = ?1 AND a.dim = 'trace_rows'");
    lost.bind(1, push.run_id);
    lost.bind(2, static_cast<int64_t>(written));
    if (lost.executeStep() && lost.getColumn(0).getInt64() > 0)
      add_count(tally, 0, "LOST", lost.getColumn(0).getInt64());
    add_count(tally, 0, "RUN", 0);
  }

  std::vector<Push*> pushes_of(const std::vector<int64_t>& run_ids) {
    const std::set<int64_t> wanted(run_ids.begin(), run_ids.end());
    std::vector<Push*> found;
    for (auto& [number, push] : pushes) {
      if (wanted.contains(push.run_id)) found.push_back(&push);
    }
    return found;
  }
};

FleetFile::FleetFile(FleetServer& server)
    : server_(server), db_(open_temporary()), loader_(std::make_unique<Loader>(server, db_)) {}

FleetFile::FleetFile(FleetServer& server, const std::filesystem::path& file)
    : server_(server), db_(open_for_writing(file)), loader_(std::make_unique<Loader>(server, db_)) {
  sqlite3_db_config(db_.getHandle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db_.getHandle(), SQLITE_DBCONFIG_ENABLE_FKEY, 0, nullptr);
}

FleetFile::~FleetFile() = default;

int64_t FleetFile::run_id(size_t run) const { return loader_->pushes.at(runs_[run].push).run_id; }

void FleetFile::add(std::vector<Published> runs, Records records) {
  runs_ = std::move(runs);
  Loader& loader = *loader_;
  SQLite::Transaction transaction(db_);
  loader.add_runs(runs_);
  std::vector<std::string> kinds;
  if (records == Records::kVerdict) {
    for (const RunTable& table : run_tables()) {
      const bool is_wanted =
          std::none_of(std::begin(kNotForVerdicts), std::end(kNotForVerdicts),
                       [&](const char* name) { return std::strcmp(name, table.name) == 0; });
      if (is_wanted) kinds.emplace_back(table.name);
    }
  }
  std::map<uint64_t, std::vector<Record>> all;
  std::map<uint64_t, uint64_t> counts;
  if (records == Records::kVerdict) check_record_counts(server_, runs_);
  const char* one_of = records == Records::kVerdict ? kOneRowOf : nullptr;
  for_each_record(server_, runs_, kinds, one_of, [&](uint64_t push, Record& record) {
    ++counts[push];
    all[push].push_back(std::move(record));
  });
  for (const Published& run : runs_) {
    throw_if_stopped();
    if (records == Records::kAll && counts[run.push] != run.records) {
      throw clickhouse::Error(server_.where() + " gave " + std::to_string(counts[run.push]) +
                              " records of " + run.run + ", not the " +
                              std::to_string(run.records) +
                              " that were sent: no answer is made of fewer");
    }
    loader.pushes.at(run.push).has_rest = records == Records::kAll;
    loader.put_push(loader.pushes.at(run.push), all[run.push]);
    all.erase(run.push);
  }
  db_.exec("INSERT OR REPLACE INTO lineage_member SELECT * FROM run_lineage");
  loader.put_diffs();
  TallyKeeper keeper(db_);  // of those that nobody had judged
  std::vector<int64_t> unsummed;
  {
    SQLite::Statement query(db_,
                            "SELECT DISTINCT run_id FROM kept_tally WHERE run_id NOT IN"
                            " (SELECT run_id FROM kept_verdict)");
    while (query.executeStep()) unsummed.push_back(query.getColumn(0).getInt64());
  }
  for (const int64_t id : unsummed) keeper.keep({id, {}});
  transaction.commit();
}

void FleetFile::add_commits() {
  SQLite::Transaction transaction(db_);
  for_each_record(server_, kCommitsPush, {}, [&](uint64_t, Record& record) {
    Push none;
    loader_->put(none, record.kind, record.cells);
  });
  transaction.commit();
}

void FleetFile::add_rows(const std::vector<int64_t>& run_ids) {
  SQLite::Transaction transaction(db_);
  const std::vector<Push*> wanted = loader_->pushes_of(run_ids);
  loader_->put_rest(wanted);
  loader_->use_tolerance();
  loader_->put_rows(wanted);
  transaction.commit();
}

void FleetFile::judge(const std::vector<int64_t>& run_ids) {
  SQLite::Transaction transaction(db_);
  loader_->use_tolerance();
  loader_->judge(loader_->pushes_of(run_ids));
  transaction.commit();
}

void FleetFile::compare_with_baselines() {
  std::vector<int64_t> open;
  {
    SQLite::Statement pairs(
        db_,
        "SELECT b.run_id, b.baseline_id FROM run_baseline b WHERE b.baseline_id IS NOT NULL AND NOT"
        " EXISTS (SELECT 1 FROM kept_diff k WHERE k.run_a_id = b.baseline_id AND k.run_b_id ="
        " b.run_id)");
    while (pairs.executeStep()) {
      open.push_back(pairs.getColumn(0).getInt64());
      open.push_back(pairs.getColumn(1).getInt64());
    }
  }
  if (open.empty()) return;
  add_rows(open);
  keep_all_diffs(db_);
}

void FleetFile::close() { db_.exec("PRAGMA query_only = ON"); }

}  // namespace greta
