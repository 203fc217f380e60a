#include "cli/show/history.h"
#include "cli/show/page.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

using std::to_string;

std::string cell_json(const Cell& cell) {
  switch (cell.type) {
    case Cell::Type::kNull:
      return "null";
    case Cell::Type::kInteger:
      return to_string(cell.integer);
    case Cell::Type::kReal:
      return short_real(cell.real);
    default:
      return as_json(std::string_view(utf8::printable(cell.text)));
  }
}

class HistoryJson {
 public:
  HistoryJson(const History& history, const std::vector<HistoryFamily>& families,
              const RunPages& pages, size_t first_listed, const Wording& words)
      : history_(history),
        families_(families),
        pages_(pages),
        first_listed_(first_listed),
        words_(words) {}

  std::string write() const {
    const std::vector<std::string> run_columns = names_of(kHistoryColumns);
    const std::vector<std::string> turn_columns = names_of(kRegressionColumns);
    JsonObject object;
    object.add("version", 1).add("kind", std::string_view("history"));
    object.raw("words", words());
    std::vector<std::string> runs, turns, tensors, heads;
    for (size_t i = first_listed_; i < history_.runs.size(); ++i) {
      const HistoryRun& run = history_.runs[i];
      runs.push_back(row_json(run.row, run_columns));
      heads.push_back(as_json(std::string_view(utf8::printable(
          headline_of(run.head.verdict, run.head.remark, run.head.mode, words_).text()))));
    }
    for (const HistoryTurn& turn : history_.turns)
      turns.push_back(row_json(turn.row, turn_columns));
    for (const std::string& tensor : history_.tensors)
      tensors.push_back(as_json(std::string_view(utf8::printable(tensor))));
    object.raw("runs", table_json(json_of_texts(run_columns), runs));
    object.raw("heads", json_array(heads));
    object.raw("regressions", table_json(json_of_texts(turn_columns), turns));
    object.raw("tensors", json_array(tensors));
    object.raw("drift", drift_json()).raw("families", families_json());
    JsonObject pages;
    for (size_t i = first_listed_; i < history_.runs.size(); ++i) {
      if (const std::string page = page_of_run(pages_, history_.runs[i]); !page.empty())
        pages.add(to_string(i - first_listed_), std::string_view(utf8::printable(page)));
    }
    return object.raw("pages", pages.str()).str();
  }

 private:
  static std::string row_json(const RunVerdict& row, const std::vector<std::string>& columns) {
    std::string json;
    for (const std::string& column : columns)
      json += (json.empty() ? "[" : ",") + cell_json(row.cell(column));
    return json + "]";
  }

  static std::string table_json(const std::string& columns, const std::vector<std::string>& rows) {
    std::string list;
    for (const std::string& row : rows) list += (list.empty() ? "" : ",\n") + row;
    return JsonObject().raw("columns", columns).raw("rows", "[" + list + "]").str();
  }

  std::string drift_json() const {
    const auto real = [](const std::optional<double>& value) {
      return cell_json(value ? Cell(*value) : Cell());
    };
    const auto integer = [](const std::optional<int64_t>& value) {
      return cell_json(or_null(value));
    };
    std::vector<std::string> rows;
    for (const auto& [key, drift] : history_.drift) {
      if (key.first < first_listed_) continue;
      std::string row = "[" + to_string(key.first - first_listed_) + "," + to_string(key.second);
      for (const int64_t n : {drift.differ, drift.rounding, drift.divergent, drift.nonfinite})
        row += "," + to_string(n);
      if (drift.read) {
        row += "," + real(drift.rel_l2) + "," + real(drift.tolerance) + "," + integer(drift.layer) +
               "," + integer(drift.pos_id) + "," + cell_json(Cell(drift.prompt));
      }
      rows.push_back(row + "]");
    }
    const std::vector<std::string> columns = {"run",       "tensor",    "differ", "rounding",
                                              "divergent", "nonfinite", "rel_l2", "tolerance",
                                              "layer",     "pos_id",    "prompt"};
    return table_json(json_of_texts(columns), rows);
  }

  /// Cells by lineage and column: how many runs, then those that the data has, the worst first.
  std::string families_json() const {
    std::vector<std::string> families;
    for (const HistoryFamily& family : families_) {
      std::vector<std::string> columns, rows;
      for (const HistoryColumn& column : family.columns) {
        columns.push_back(as_json(std::string_view(
            utf8::printable(column_name(column, words_) +
                            (column.first_date.empty() ? ""
                             : column.first_date == column.last_date
                                 ? ", " + column.first_date
                                 : ", " + column.first_date + " – " + column.last_date)))));
      }
      for (const HistoryLineage& lineage : family.lineages) {
        std::string cells;
        for (const HistoryCell& cell : lineage.cells) {
          cells += (cells.empty() ? "[" : ",");
          if (cell.empty()) {
            cells += "0";
            continue;
          }
          cells += "[" + to_string(cell.size());
          for (const size_t run : cell) {
            if (run >= first_listed_) cells += "," + to_string(run - first_listed_);
          }
          cells += "]";
        }
        rows.push_back(cells + "]");
      }
      families.push_back(
          JsonObject().raw("columns", json_array(columns)).raw("cells", json_array(rows)).str());
    }
    return json_array(families);
  }

  std::string words() const {
    return json_of_words({"page.close",
                          "run",
                          "date",
                          "commit",
                          "mode",
                          "verdict",
                          "strict_verdict",
                          "numeric_verdict",
                          "location",
                          "layer",
                          "prompt",
                          "total_pairs",
                          "cell.r",
                          "cell.f",
                          "brief.changed",
                          "brief.since",
                          "history.open_page",
                          "history.others",
                          "history.more",
                          "history.drift.worst",
                          "tensor",
                          "rel_l2",
                          "tolerance",
                          "history.injected",
                          "history.fits"},
                         words_);
  }

  const History& history_;
  const std::vector<HistoryFamily>& families_;
  const RunPages& pages_;
  size_t first_listed_;
  const Wording& words_;
};

}  // namespace

std::string json_of_history(const History& history, const std::vector<HistoryFamily>& families,
                            const RunPages& pages, size_t first_listed, const Wording& words) {
  return HistoryJson(history, families, pages, first_listed, words).write();
}

}  // namespace greta
