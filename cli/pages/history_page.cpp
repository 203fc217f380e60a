#include "cli/pages/history_page.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "cli/pages/history_data.h"
#include "cli/pages/history_layout.h"
#include "cli/pages/history_matrix.h"
#include "cli/pages/markdown_html.h"
#include "cli/pages/page.h"
#include "cli/report/judged_row.h"

namespace greta {
namespace {

using std::to_string;

constexpr size_t kMostRuns = 3000;  // that the page lists, and has the rows of
constexpr size_t kMostTurns = 20;   // before the others need a click

std::string short_commit(const std::string& commit) {
  return commit.size() == 40 ? commit.substr(0, 10) : commit;
}

class HistoryPage {
 public:
  HistoryPage(const History& history, const RunPages& pages, Language language)
      : history_(history),
        pages_(pages),
        language_(language),
        words_(language),
        families_(lay_out(history)),
        first_listed_(history.runs.size() > kMostRuns ? history.runs.size() - kMostRuns : 0) {}

  std::string write() {
    PageContent content;
    content.title = words_("history.title");
    content.kind = "history";
    Html& body = content.body;
    header(body);
    if (!history_.runs.empty()) {
      filters(body);
      turns(body);
      matrices(body);
      list(body);
    }
    content.data = json_of_history(history_, families_, pages_, first_listed_, words_);
    return page_of(content, language_);
  }

 private:
  // ---- What it comes to.
  void header(Html& html) {
    html << "<header>\n<h1>";
    html.text(words_("history.title")) << "</h1>\n";
    if (history_.runs.empty()) {
      html << "<p>";
      html.text(words_("history.none")) << "</p>\n</header>\n";
      return;
    }
    std::string first, last;
    std::map<std::string, size_t> verdicts;
    std::set<std::string> lineages;
    for (const HistoryRun& run : history_.runs) {
      const std::string date = run.text("date");
      if (!date.empty() && (first.empty() || date < first)) first = date;
      if (date > last) last = date;
      ++verdicts[run.verdict];
      lineages.insert(run.text("lineage"));
    }
    const auto known = [this](const std::string& date) {
      return date.empty() ? words_("not_recorded") : date;
    };
    html << "<p>";
    html.text(words_("history.lead", {to_string(history_.runs.size()), to_string(lineages.size()),
                                      known(first), known(last), counts_text(verdicts)}))
        << " ";
    size_t mended = 0;
    const HistoryTurn* open = nullptr;
    for (const HistoryTurn& turn : history_.turns) {
      if (has(turn.row, "fixed_run")) {
        ++mended;
      } else {
        open = &turn;
      }
    }
    html.text(history_.turns.empty()
                  ? words_("history.steady")
                  : words_("history.turned", {to_string(history_.turns.size()), to_string(mended)}))
        << "</p>\n";
    if (open) {
      html << "<p class=headline><strong class=\"verdict bad\">";
      html.text(text_of(open->row, "change")) << "</strong> ";
      html << html_of_line(turn_text(*open)) << "</p>\n";
      next(html, "greta-db compare '" + in_single_quotes(text_of(open->row, "last_good")) + "' '" +
                     in_single_quotes(text_of(open->row, "first_bad")) + "'");
    }
    if (!open) failing(html);
    html << "</header>\n";
  }

  /// Where nothing turned for the worse, the newest run that fails nevertheless.
  void failing(Html& html) const {
    const auto run =
        std::find_if(history_.runs.rbegin(), history_.runs.rend(),
                     [](const HistoryRun& one) { return !one.injected && one.verdict == "FAIL"; });
    if (run == history_.runs.rend() || run->fail.tensor.empty()) return;
    const std::string place = fail_place(run->fail, words_);
    html << "<p class=headline>" << verdict_badge("FAIL", run->fail_kind, words_) << "</p>\n<p>"
         << html_of_line(
                words_("history.failing", {in_code(run->text("run")), "`" + in_code(place) + "`"}))
         << "</p>\n";
    next(html, "greta-db firstfail --run '" + in_single_quotes(run->text("run")) + "'");
  }

  /// The command that tells more.
  void next(Html& html, const std::string& command) const {
    html << "<p>";
    html.text(words_("brief.next")) << ": " << html_of_line("`" + command + "`") << "</p>\n";
  }

  /// The prompt of a run that fails at that place.
  std::string prompt_of(const HistoryTurn& turn) const {
    const FailPlace& fail = history_.runs[turn.first_bad].fail;
    const bool there = fail.tensor == text_of(turn.row, "tensor") && fail.layer &&
                       to_string(*fail.layer) == text_of(turn.row, "layer");
    return there ? fail.prompt : "";
  }

  /// Of one that is not mended; as Markdown.
  std::string turn_text(const HistoryTurn& turn) const {
    const NamedRow& row = turn.row;
    const auto commit = [&](const char* sha, const char* date) {
      const std::string text = short_commit(text_of(row, sha));
      const std::string day = text_of(row, date);
      return text.empty() ? day : text + (day.empty() ? "" : ", " + day);
    };
    const std::string last_good = text_of(row, "last_good_commit").empty()
                                      ? text_of(row, "last_good")
                                      : short_commit(text_of(row, "last_good_commit"));
    const std::string prompt = prompt_of(turn);
    return words_(
        "history.open",
        {in_code(text_of(row, "tensor")),
         text_of(row, "layer") +
             (prompt.empty() ? "" : words_("history.open.prompt", {in_code(prompt)})),
         in_code(commit("first_bad_commit", "first_bad_date")), in_code(last_good),
         in_code(text_of(row, "first_bad")),
         text_of(row, "gate") == "strict" ? words_("history.unequal") : words_("cell.f")});
  }

  // ---- Controls that only the script serves.
  void filters(Html& html) {
    html << "<div class=\"script controls\" hidden><p><label>";
    html.text(words_("history.filter"))
        << " <input type=search class=filter autocomplete=off spellcheck=false placeholder=\"";
    html.text(words_("history.filter.hint")) << "\"></label></p>\n<p class=choices>";
    std::set<std::string> experiments, modes;
    for (const HistoryRun& run : history_.runs) {
      experiments.insert(run.text("experiment"));
      modes.insert(run.text("mode"));
    }
    modes.erase("");
    choice(html, "experiment", words_("history.experiment"),
           {experiments.begin(), experiments.end()});
    choice(html, "mode", words_("mode"), {modes.begin(), modes.end()});
    choice(html, "tensor", words_("tensor"), history_.tensors);
    day(html, "from", words_("history.from"));
    day(html, "to", words_("history.to"));
    html << "</p><p class=note>";
    html.text(words_("history.keys")) << "</p><p class=fits role=status></p></div>\n";
  }

  void choice(Html& html, Markup key, const std::string& label,
              const std::vector<std::string>& values) {
    html << "<label>";
    html.text(label) << " <select data-key=" << key << "><option value=\"\">";
    html.text(words_("history.all")) << "</option>";
    for (const std::string& value : values) {
      html << "<option>";
      html.text(value) << "</option>";
    }
    html << "</select></label> ";
  }

  void day(Html& html, Markup key, const std::string& label) {
    html << "<label>";
    html.text(label)
        << " <input data-key=" << key
        << " size=10 maxlength=10 autocomplete=off placeholder=\"2026-01-31\"></label> ";
  }

  // ---- Where it turned for the worse.
  void turns(Html& html) {
    if (history_.turns.empty()) return;
    std::vector<const HistoryTurn*> order;
    for (const HistoryTurn& turn : history_.turns) order.push_back(&turn);
    std::stable_sort(order.begin(), order.end(), [](const HistoryTurn* a, const HistoryTurn* b) {
      return std::tuple(has(a->row, "fixed_run"), b->first_bad) <
             std::tuple(has(b->row, "fixed_run"), a->first_bad);
    });
    html << "<section>\n<h2>";
    html.text(words_("history.turns")) << "</h2>\n<p class=lead>";
    html.text(words_("history.turns.lead")) << "</p>\n";
    turn_table(html, {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(
                                                         std::min(order.size(), kMostTurns))});
    if (order.size() > kMostTurns) {
      html << "<details><summary>";
      html.text(words_("history.turns.rest", {to_string(order.size() - kMostTurns)}))
          << "</summary>\n";
      turn_table(html, {order.begin() + kMostTurns, order.end()});
      html << "</details>\n";
    }
    html << "</section>\n";
  }

  void turn_table(Html& html, const std::vector<const HistoryTurn*>& turns) {
    html << table_head("<table class=\"sortable rows\">",
                       {"brief.changed", "history.first_bad", "date", "history.last_good", "tensor",
                        "layer", "history.mended", "history.lineage"},
                       words_);
    for (const HistoryTurn* turn : turns) {
      const NamedRow& row = turn->row;
      row_start(html, turn->first_bad);
      html << "<td><strong>";
      html.text(text_of(row, "change")) << "</strong></td><td>";
      run_name(html, turn->first_bad, text_of(row, "first_bad_commit"), text_of(row, "first_bad"));
      html << "</td><td class=date>";
      html.text(text_of(row, "first_bad_date")) << "</td><td>";
      commit(html, text_of(row, "last_good_commit"), text_of(row, "last_good"));
      html << "</td><td><code>";
      html.text(text_of(row, "tensor")) << "</code></td><td class=number>";
      html.text(text_of(row, "layer")) << "</td><td>";
      if (has(row, "fixed_run")) {
        commit(html, text_of(row, "fixed_commit"), text_of(row, "fixed_run"));
        html << " <span class=\"counts date\">";
        html.text(text_of(row, "fixed_date")) << "</span>";
      } else {
        html << "<strong class=\"verdict bad\">";
        html.text(words_("history.unmended")) << "</strong>";
      }
      html << "</td><td>";
      html.text(text_of(row, "lineage")) << "</td></tr>\n";
    }
    html << kTableEnd;
  }

  void row_start(Html& html, size_t run) {
    html << "<tr";
    if (run >= first_listed_)
      html << " data-run=" << Html().number(static_cast<int64_t>(run - first_listed_));
    html << ">";
  }

  void commit(Html& html, const std::string& sha, const std::string& run) {
    html << "<code>";
    html.text(sha.empty() ? run : short_commit(sha)) << "</code>";
  }

  void run_name(Html& html, size_t run, const std::string& sha, const std::string& name) {
    const std::string page = page_of_run(pages_, history_.runs[run]);
    if (!page.empty()) {
      html << "<a href=\"";
      html.text(page) << "\">";
    }
    if (sha.empty()) {
      html.text(name);
    } else {
      commit(html, sha, name);
    }
    if (!page.empty()) html << "</a>";
  }

  // ---- Commits by mode.
  void matrices(Html& html) {
    html << "<section>\n<h2>";
    html.text(words_("history.matrix")) << "</h2>\n<p class=lead>";
    html.text(words_("history.matrix.lead")) << "</p>\n" << matrices_legend(history_, words_);
    if (!history_.tensors.empty()) {
      html << "<p class=lead>";
      html.text(words_("history.drift.lead")) << "</p>\n";
    }
    if (history_.measured < history_.drifting) {
      html << "<p class=note>"
           << html_of_line(words_("history.measured",
                                  {to_string(history_.measured), to_string(history_.drifting),
                                   in_code(history_.runs[history_.first_measured].text("run"))}))
           << "</p>\n";
    }
    if (first_listed_ > 0) {
      html << "<p class=note>"
           << html_of_line(words_("history.unlisted",
                                  {to_string(first_listed_), to_string(history_.runs.size())}))
           << "</p>\n";
    }
    html << "</section>\n" << matrices_of(history_, families_, pages_, words_);
  }

  // ---- Every run.
  void list(Html& html) {
    html << "<section>\n<h2>";
    html.text(words_("runs")) << "</h2>\n<details><summary>";
    html.text(words_("history.list", {to_string(history_.runs.size() - first_listed_)}))
        << "</summary>\n";
    html << table_head("<table class=\"sortable rows\">",
                       {"run", "date", "commit", "mode", "verdict", "brief.changed", "location"},
                       words_);
    for (size_t i = history_.runs.size(); i > first_listed_; --i) {
      const HistoryRun& run = history_.runs[i - 1];
      row_start(html, i - 1);
      html << "<td>";
      run_name(html, i - 1, "", run.text("run"));
      html << "</td><td class=date>";
      html.text(run.text("date")) << "</td><td>";
      html.text(short_commit(run.text("commit_sha"))) << "</td><td>";
      html.text(run.text("mode")) << "</td><td>"
                                  << verdict_badge(run.verdict, run.fail_kind, words_)
                                  << "</td><td>";
      html.text(run.injected ? words_("history.injected") : run.change) << "</td><td>";
      html.text(run.fail.cause.empty() ? "" : fail_place(run.fail, words_)) << "</td></tr>\n";
    }
    html << kTableEnd << "</details>\n</section>\n";
  }

  const History& history_;
  const RunPages& pages_;
  Language language_;
  Wording words_;
  std::vector<HistoryFamily> families_;
  size_t first_listed_;
};

}  // namespace

void write_history_page(const History& history, const RunPages& pages, Language language,
                        const TextSink& sink) {
  sink(HistoryPage(history, pages, language).write());
}

std::vector<Run> runs_worth_a_page(const History& history) {
  std::set<size_t> turned;
  for (const HistoryTurn& turn : history.turns) turned.insert(turn.first_bad);
  std::vector<size_t> order;
  for (size_t i = history.runs.size(); i > 0; --i) order.push_back(i - 1);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(turned.contains(a), severity_of(history.runs[a])) >
           std::pair(turned.contains(b), severity_of(history.runs[b]));
  });
  std::vector<Run> runs;
  for (const size_t run : order)
    runs.push_back({history.runs[run].id, history.runs[run].text("run")});
  return runs;
}

}  // namespace greta
