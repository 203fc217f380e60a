#include "cli/pages/history_matrix.h"

#include <algorithm>
#include <map>
#include <set>

#include "cli/pages/history_charts.h"
#include "cli/report/judged_row.h"

namespace greta {
namespace {

using std::to_string;

constexpr size_t kMostOpenCharts = 3;  // lineages whose charts need no click

/// How a run's cell looks (page.css), and what that means.
struct SeverityLook {
  Markup cell;
  TextId text;
};
constexpr SeverityLook kSeverityLooks[] = {{"o", "history.injected"},
                                           {"m", "history.pass"},
                                           {"r2", "history.rounding"},
                                           {"u", "history.undecided"},
                                           {"f2", "history.fail"}};  // by severity_of()

/// A change against the baseline: as the table change calls it, as a cell shows it, and what that
/// means; the worst first.
struct ChangeLook {
  std::string_view change;
  Markup mark, sample;
  TextId text;
};
constexpr ChangeLook kChangeLooks[] = {{"BROKEN", " broken", "f2 broken", "history.broken"},
                                       {"CHANGED", " changed", "m changed", "history.changed"},
                                       {"FIXED", " fixed", "m fixed", "history.fixed"},
                                       {"ROUNDING", " rounded", "m rounded", "history.rounded"}};

class Matrices {
 public:
  Matrices(const History& history, const std::vector<HistoryFamily>& families,
           const RunPages& pages, const Wording& words)
      : history_(history), families_(families), pages_(pages), words_(words) {
    for (const HistoryTurn& turn : history.turns) first_bad_.insert(turn.first_bad);
  }

  Html write() {
    html_ << "<div class=families>\n";
    for (const HistoryFamily& one : families_) family(one);
    html_ << "</div>\n";
    return std::move(html_);
  }

 private:
  void family(const HistoryFamily& family) {
    const int64_t index = &family - families_.data();
    html_ << "<section class=family data-family=" << Html().number(index) << ">\n<h3>";
    html_.text(family.experiment);
    if (!family.rest.empty()) {
      html_ << " <span class=counts>";
      html_.text(family.rest) << "</span>";
    }
    html_ << "</h3>\n<div class=wide><table class=\"map history\" data-family="
          << Html().number(index) << ">\n<caption>";
    html_.text(caption(family)) << "</caption>\n<thead><tr><th scope=col>";
    html_.text(words_("mode")) << "</th>";
    for (const HistoryColumn& column : family.columns) {
      html_ << "<th scope=col><span>";
      html_.text(column_name(column, words_)) << "</span></th>";
    }
    html_ << "</tr></thead>\n<tbody>\n";
    for (const HistoryLineage& lineage : family.lineages) {
      html_ << "<tr><th scope=row>";
      html_.text(mode_text(lineage)) << "</th>";
      for (const HistoryCell& one : lineage.cells) cell(one);
      html_ << "\n";
    }
    html_ << "</tbody></table></div>\n";
    for (const HistoryLineage& lineage : family.lineages) charts(family, lineage);
    html_ << "</section>\n";
  }

  void charts(const HistoryFamily& family, const HistoryLineage& lineage) {
    const Html charts = drift_charts(history_, lineage, family.columns, words_);
    if (charts.str().empty()) return;
    html_ << "<details class=drift data-row=" << Html().number(&lineage - family.lineages.data());
    if (n_charts_++ < kMostOpenCharts) html_ << " open";
    html_ << "><summary>";
    html_.text(words_("history.drift", {mode_text(lineage)})) << "</summary>\n"
                                                              << charts << "</details>\n";
  }

  void cell(const HistoryCell& runs) {
    if (runs.empty()) {
      html_ << "<td>";
      return;
    }
    const HistoryRun& worst = history_.runs[runs.front()];
    html_ << "<td class=\"" << kSeverityLooks[severity_of(worst)].cell;
    if (const ChangeLook* change = change_of(runs)) html_ << change->mark;
    if (std::any_of(runs.begin(), runs.end(),
                    [this](size_t run) { return first_bad_.contains(run); }))
      html_ << " first";
    const std::string page = page_of_run(pages_, worst);
    if (page.empty()) {
      html_ << "\" aria-label=\"";
      html_.text(cell_text(runs)) << "\">";
    } else {
      html_ << "\"><a href=\"";
      html_.text(page) << "\" aria-label=\"";
      html_.text(cell_text(runs)) << "\"></a>";
    }
  }

  /// The worst of its runs; null where nothing changed.
  const ChangeLook* change_of(const HistoryCell& cell) const {
    for (const ChangeLook& look : kChangeLooks) {
      for (const size_t run : cell) {
        if (!history_.runs[run].injected && history_.runs[run].change == look.change) return &look;
      }
    }
    return nullptr;
  }

  std::string cell_text(const HistoryCell& cell) const {
    const HistoryRun& worst = history_.runs[cell.front()];
    std::string text = headline_text(worst.verdict, worst.remark, worst.text("mode"), words_);
    if (worst.injected) text += ", " + words_("history.injected");
    if (const ChangeLook* change = change_of(cell)) text += ", " + std::string(change->change);
    if (cell.size() > 1) text += ", " + words_("history.worst_of", {to_string(cell.size())});
    return text;
  }

  std::string mode_text(const HistoryLineage& lineage) const {
    return lineage.mode.empty() ? words_("history.no_mode") : lineage.mode;
  }

  /// "3 lineages, 60 commits from 2026-01-01 to 2026-01-15; as_designed: 35 PASS, 25 FAIL; ..."
  std::string caption(const HistoryFamily& family) const {
    size_t commits = 0;
    for (const HistoryColumn& column : family.columns) commits += column.commits.size();
    std::string list;
    for (const HistoryLineage& lineage : family.lineages) {
      std::map<std::string, size_t> verdicts;
      for (const HistoryCell& cell : lineage.cells) {
        for (const size_t run : cell) ++verdicts[history_.runs[run].verdict];
      }
      list += (list.empty() ? "" : "; ") + mode_text(lineage) + ": " + counts_text(verdicts);
    }
    return words_("history.caption", {family.experiment, to_string(commits), list});
  }

  const History& history_;
  const std::vector<HistoryFamily>& families_;
  const RunPages& pages_;
  const Wording& words_;
  std::set<size_t> first_bad_;
  size_t n_charts_ = 0;
  Html html_;
};

}  // namespace

Html matrices_legend(const History& history, const Wording& words) {
  std::set<int> severities;
  std::set<std::string_view> changes;
  for (const HistoryRun& run : history.runs) {
    severities.insert(severity_of(run));
    if (!run.injected) changes.insert(run.change);
  }
  Html html;
  const auto swatch = [&](Markup cell, TextId text) {
    html << "<li><span class=\"cell " << cell << "\"></span>";
    html.text(words(text)) << "</li>\n";
  };
  html << "<ul class=legend aria-label=\"";
  html.text(words("page.legend")) << "\">\n";
  for (const int severity : {1, 2, 4, 3, 0}) {
    if (severities.contains(severity))
      swatch(kSeverityLooks[severity].cell, kSeverityLooks[severity].text);
  }
  for (const ChangeLook& look : kChangeLooks) {
    if (changes.contains(look.change)) swatch(look.sample, look.text);
  }
  if (!history.turns.empty()) swatch("m first", "history.first");
  html << "</ul>\n";
  return html;
}

Html matrices_of(const History& history, const std::vector<HistoryFamily>& families,
                 const RunPages& pages, const Wording& words) {
  return Matrices(history, families, pages, words).write();
}

}  // namespace greta
