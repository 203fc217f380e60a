#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "cli/show/history.h"
#include "cli/show/judged_row.h"
#include "cli/show/page.h"
#include "common/shell_word.h"

namespace greta {
namespace {

using std::to_string;

constexpr size_t kMostRuns = 3000;     // that the page lists, and has the rows of
constexpr size_t kMostTurns = 20;      // before the others need a click
constexpr size_t kMostOpenCharts = 3;  // lineages whose charts need no click

/// A run's meaning; all in the order of the legend.
struct RunMeaning {
  Severity severity;
  TextId text;
};
constexpr RunMeaning kMeanings[] = {{Severity::kGood, "history.pass"},
                                    {Severity::kRounding, "history.rounding"},
                                    {Severity::kBad, "history.fail"},
                                    {Severity::kOpen, "history.undecided"},
                                    {Severity::kContext, "history.injected"}};

/// A change against the baseline: as the table change calls it, as a square shows it, and what that
/// means; the worst first.
struct ChangeLook {
  std::string_view change;
  const char *mark, *sample;
  TextId text;
};
constexpr ChangeLook kChangeLooks[] = {{"BROKEN", " broken", "f2 broken", "history.broken"},
                                       {"CHANGED", " changed", "m changed", "history.changed"},
                                       {"FIXED", " fixed", "m fixed", "history.fixed"},
                                       {"ROUNDING", " rounded", "m rounded", "history.rounded"}};

std::string short_commit(const std::string& commit) {
  return commit.size() == 40 ? commit.substr(0, 10) : commit;
}

std::string layer_of(const RunVerdict& row) { return row.has("layer") ? row.show("layer") : ""; }

/// A commit as code; the run where none is named.
Line commit_of(const std::string& sha, const std::string& run) {
  return code(sha.empty() ? run : short_commit(sha));
}

/// A small chart for each trace point of a lineage that drifts, one scale for all of them: the
/// worst distance over its tolerance, commit by commit as in the matrix, and where the lineage
/// turned for the worse.
class DriftCharts {
 public:
  DriftCharts(const History& history, const std::set<size_t>& first_bad, const Wording& words)
      : history_(history), first_bad_(first_bad), words_(words) {
    for (const auto& [key, drift] : history.drift) {
      if (!drift.read) counted_.insert(key.first);
    }
  }

  Blocks of(const HistoryLineage& lineage, const std::vector<HistoryColumn>& columns) const {
    std::vector<Chart> charts;
    double low = 1, high = 1;
    for (size_t t = 0; t < history_.tensors.size(); ++t) {
      Chart chart;
      chart.title = history_.tensors[t];
      chart.small = true;
      for (size_t c = 0; c < columns.size(); ++c)
        chart.points.push_back(point_of(lineage.cells[c], t, c));
      if (std::none_of(chart.points.begin(), chart.points.end(),
                       [](const Chart::Point& point) { return point.mark > Chart::Mark::kEqual; }))
        continue;
      for (const Chart::Point& point : chart.points) {
        if (point.value.value_or(0) <= 0) continue;
        low = std::min(low, *point.value);
        high = std::max(high, *point.value);
      }
      chart.text = text_of(chart, columns);
      charts.push_back(std::move(chart));
    }
    Blocks blocks;
    for (Chart& chart : charts) {
      chart.low = std::clamp(std::floor(std::log10(low) - 0.3), -6.0, -1.0);
      chart.high = std::clamp(std::ceil(std::log10(high) + 0.3), 1.0, 8.0);
      blocks.push_back(std::move(chart));
    }
    return blocks;
  }

 private:
  /// The worst of the runs of a column.
  Chart::Point point_of(const HistoryCell& runs, size_t tensor, size_t column) const {
    Chart::Point point{.x = static_cast<double>(column), .mark = Chart::Mark::kNone};
    bool unknown = false;
    for (const size_t run : runs) {
      point.turns = point.turns || first_bad_.contains(run);
      point.mark = std::max(point.mark, Chart::Mark::kEqual);
      const auto found = history_.drift.find({run, tensor});
      if (found == history_.drift.end()) {
        // where only causes were counted, it may be one of several trace points of a cause
        unknown = unknown || counted_.contains(run);
        continue;
      }
      const HistoryDrift& drift = found->second;
      point.mark = std::max(
          point.mark, drift.rounding == drift.differ ? Chart::Mark::kWithin : Chart::Mark::kBeyond);
      if (const auto ratio = drift.ratio()) point.value = std::max(point.value.value_or(0), *ratio);
    }
    if (unknown && point.mark == Chart::Mark::kEqual) point.mark = Chart::Mark::kNone;
    return point;
  }

  std::string text_of(const Chart& chart, const std::vector<HistoryColumn>& columns) const {
    size_t ran = 0, within = 0, beyond = 0;
    std::optional<size_t> worst, first;
    for (size_t c = 0; c < chart.points.size(); ++c) {
      const Chart::Point& point = chart.points[c];
      ran += point.mark != Chart::Mark::kNone;
      within += point.mark == Chart::Mark::kWithin;
      if (point.mark == Chart::Mark::kBeyond && beyond++ == 0) first = c;
      if (point.value && (!worst || *point.value > *chart.points[*worst].value)) worst = c;
    }
    std::string text = words_("history.chart",
                              {chart.title, to_string(ran), to_string(within), to_string(beyond)});
    if (first) text += " " + words_("history.chart.first", {column_name(columns[*first], words_)});
    if (worst) {
      text += " " + words_("history.chart.worst", {short_real(*chart.points[*worst].value),
                                                   column_name(columns[*worst], words_)});
    }
    return text;
  }

  const History& history_;
  const std::set<size_t>& first_bad_;
  const Wording& words_;
  std::set<size_t> counted_;  // runs of which only causes were counted
};

class HistoryPage {
 public:
  HistoryPage(const History& history, const RunPages& pages, Language language)
      : history_(history),
        pages_(pages),
        language_(language),
        words_(language),
        families_(lay_out(history)),
        first_listed_(history.runs.size() > kMostRuns ? history.runs.size() - kMostRuns : 0) {
    for (const HistoryTurn& turn : history.turns) first_bad_.insert(turn.first_bad);
  }

  std::string write() {
    PageContent content;
    content.title = words_("history.title");
    content.kind = "history";
    content.body = {Group{"header", header()}};
    if (!history_.runs.empty()) {
      content.body.push_back(filters());
      if (!history_.turns.empty()) content.body.push_back(Group{"section", turns()});
      content.body.push_back(Group{"section", legend()});
      Group families{"families", {}};
      for (const HistoryFamily& one : families_)
        families.blocks.push_back(Group{"section family", family(one)});
      content.body.push_back(std::move(families));
      content.body.push_back(Group{"section", list()});
    }
    content.data = json_of_history(history_, families_, pages_, first_listed_, words_);
    return page_of(content, language_);
  }

 private:
  // ---- What it comes to.
  Blocks header() const {
    Blocks blocks{Heading{1, words_("history.title")}};
    if (history_.runs.empty()) {
      blocks.push_back(Note{words_("history.none")});
      return blocks;
    }
    std::string first, last;
    std::map<std::string, size_t> verdicts;
    std::set<std::string> lineages;
    for (const HistoryRun& run : history_.runs) {
      const std::string date = run.text("date");
      if (!date.empty() && (first.empty() || date < first)) first = date;
      last = std::max(last, date);
      ++verdicts[run.head.verdict];
      lineages.insert(run.text("lineage"));
    }
    const auto known = [this](const std::string& date) {
      return date.empty() ? words_("not_recorded") : date;
    };
    size_t mended = 0;
    const HistoryTurn* open = nullptr;
    for (const HistoryTurn& turn : history_.turns) {
      turn.row.has("fixed_run") ? static_cast<void>(++mended) : static_cast<void>(open = &turn);
    }
    Line lead =
        words_.line("history.lead", {to_string(history_.runs.size()), to_string(lineages.size()),
                                     known(first), known(last), counts_text(verdicts)});
    lead += " " +
            (history_.turns.empty()
                 ? words_("history.steady")
                 : words_("history.turned", {to_string(history_.turns.size()), to_string(mended)}));
    blocks.push_back(Note{lead});
    if (open) {
      blocks.push_back(
          Heading{0, "", verdict_word(open->row.text("change"), "bad") + " " + turn_text(*open)});
      blocks.push_back(next("greta-db compare " + shell_word(open->row.text("last_good")) + " " +
                            shell_word(open->row.text("first_bad"))));
    } else {
      add_failing(blocks);
    }
    return blocks;
  }

  /// Adds the newest run that fails, where nothing regressed.
  void add_failing(Blocks& blocks) const {
    const auto run = std::find_if(
        history_.runs.rbegin(), history_.runs.rend(),
        [](const HistoryRun& one) { return !one.injected() && one.head.verdict == "FAIL"; });
    if (run == history_.runs.rend() || run->head.fail.tensor.empty()) return;
    blocks.push_back(Heading{0, "", verdict_badge("FAIL", fail_kind(run->head), words_)});
    blocks.push_back(Note{words_.line(
        "history.failing", {run->text("run"), code(place_text(run->head.fail, words_))})});
    blocks.push_back(next("greta-db firstfail --run " + shell_word(run->text("run"))));
  }

  /// The command that tells more.
  Note next(const std::string& command) const {
    return {words_("brief.next") + ": " + code(command)};
  }

  /// A regression that is not fixed.
  Line turn_text(const HistoryTurn& turn) const {
    const RunVerdict& row = turn.row;
    const std::string sha = short_commit(row.text("first_bad_commit")),
                      date = row.text("first_bad_date"),
                      good = short_commit(row.text("last_good_commit"));
    Line layer = layer_of(row);
    // the prompt of a run that fails at that place
    const FailPlace& fail = history_.runs[turn.first_bad].head.fail;
    if (fail.tensor == row.text("tensor") && fail.layer && to_string(*fail.layer) == layer.text())
      layer += words_.line("history.open.prompt", {fail.prompt});
    return words_.line(
        "history.open",
        {row.text("tensor"), layer, sha + (sha.empty() || date.empty() ? "" : ", ") + date,
         good.empty() ? row.text("last_good") : good, row.text("first_bad"),
         row.text("gate") == "strict" ? words_("history.unequal") : words_("cell.f")});
  }

  // ---- Controls that only the script serves.
  Controls filters() const {
    std::set<std::string> experiments, modes;
    for (const HistoryRun& run : history_.runs) {
      experiments.insert(run.text("experiment"));
      modes.insert(run.text("mode"));
    }
    modes.erase("");
    // a choice without values is a date
    const auto values = [this](const auto& names) {
      std::vector<std::string> all(names.begin(), names.end());
      all.insert(all.begin(), words_("history.all"));
      return all;
    };
    return {.label = words_("history.filter"),
            .hint = words_("history.filter.hint"),
            .keys = words_("history.keys"),
            .choices = {{"experiment", words_("history.experiment"), values(experiments)},
                        {"mode", words_("mode"), values(modes)},
                        {"tensor", words_("tensor"), values(history_.tensors)},
                        {"from", words_("history.from"), {}},
                        {"to", words_("history.to"), {}}}};
  }

  // ---- Where it turned for the worse.
  Blocks turns() const {
    std::vector<const HistoryTurn*> order;
    for (const HistoryTurn& turn : history_.turns) order.push_back(&turn);
    std::stable_sort(order.begin(), order.end(), [](const HistoryTurn* a, const HistoryTurn* b) {
      return std::tuple(a->row.has("fixed_run"), b->first_bad) <
             std::tuple(b->row.has("fixed_run"), a->first_bad);
    });
    const auto shown = static_cast<std::ptrdiff_t>(std::min(order.size(), kMostTurns));
    Blocks blocks{Heading{2, words_("history.turns")},
                  Note{words_("history.turns.lead"), Note::Kind::kLead},
                  turn_table({order.begin(), order.begin() + shown})};
    if (order.size() > kMostTurns) {
      blocks.push_back(Group{"rest",
                             {turn_table({order.begin() + shown, order.end()})},
                             words_("history.turns.rest", {to_string(order.size() - kMostTurns)})});
    }
    return blocks;
  }

  ShownTable turn_table(const std::vector<const HistoryTurn*>& turns) const {
    ShownTable table{{words_("brief.changed"),
                      words_("history.first_bad"),
                      {words_("date"), ShownColumn::Kind::kDate},
                      words_("history.last_good"),
                      words_("tensor"),
                      {words_("layer"), ShownColumn::Kind::kNumber},
                      words_("history.mended"),
                      words_("history.lineage")},
                     {},
                     true};
    for (const HistoryTurn* turn : turns) {
      const RunVerdict& row = turn->row;
      const Line mended = row.has("fixed_run")
                              ? commit_of(row.text("fixed_commit"), row.text("fixed_run")) + " " +
                                    soft(row.text("fixed_date"))
                              : verdict_word(words_("history.unmended"), "bad");
      table.rows.push_back(
          {{strong(row.text("change")),
            run_name(turn->first_bad, row.text("first_bad_commit"), row.text("first_bad")),
            row.text("first_bad_date"),
            commit_of(row.text("last_good_commit"), row.text("last_good")),
            code(row.text("tensor")), layer_of(row), mended, row.text("lineage")},
           false,
           number_of(turn->first_bad)});
    }
    return table;
  }

  std::optional<size_t> number_of(size_t run) const {
    return run >= first_listed_ ? std::optional(run - first_listed_) : std::nullopt;
  }

  Line run_name(size_t run, const std::string& sha, const std::string& name) const {
    return Span{sha.empty() ? Span::Kind::kPlain : Span::Kind::kCode,
                sha.empty() ? name : short_commit(sha), "",
                page_of_run(pages_, history_.runs[run])};
  }

  // ---- Commits by mode.
  Blocks legend() const {
    std::set<Severity> severities;
    std::set<std::string_view> changes;
    for (const HistoryRun& run : history_.runs) {
      severities.insert(meaning_of(run).severity);
      if (!run.injected()) changes.insert(run.change());
    }
    Legend legend{words_("page.legend"), {}};
    const auto add = [&](const Look& look, TextId text) {
      legend.items.push_back({{Square{look}}, words_(text)});
    };
    for (const auto& [severity, text] : kMeanings) {
      if (severities.contains(severity)) add(look_of(severity), text);
    }
    for (const ChangeLook& look : kChangeLooks) {
      if (changes.contains(look.change)) add(look.sample, look.text);
    }
    if (!history_.turns.empty()) add("m first", "history.first");
    Blocks blocks{Heading{2, words_("history.matrix")},
                  Note{words_("history.matrix.lead"), Note::Kind::kLead}, std::move(legend)};
    if (!history_.tensors.empty())
      blocks.push_back(Note{words_("history.drift.lead"), Note::Kind::kLead});
    if (history_.measured < history_.drifting) {
      blocks.push_back(Note{words_.line("history.measured",
                                        {to_string(history_.measured), to_string(history_.drifting),
                                         history_.runs[history_.first_measured].text("run")}),
                            Note::Kind::kSmall});
    }
    if (first_listed_ > 0) {
      blocks.push_back(Note{words_.line("history.unlisted", {to_string(first_listed_),
                                                             to_string(history_.runs.size())}),
                            Note::Kind::kSmall});
    }
    return blocks;
  }

  Blocks family(const HistoryFamily& family) {
    const auto index = static_cast<size_t>(&family - families_.data());
    Map map{.kind = "map history",
            .caption = caption(family),
            .corner = words_("mode"),
            .index = index};
    for (const HistoryColumn& column : family.columns)
      map.columns.push_back(column_name(column, words_));
    for (const HistoryLineage& lineage : family.lineages) {
      map.rows.push_back(mode_text(lineage));
      auto& row = map.squares.emplace_back();
      for (const HistoryCell& cell : lineage.cells) row.push_back(square(cell));
    }
    Line name = family.experiment;
    if (!family.rest.empty()) name += " " + soft(family.rest);
    Blocks blocks{Heading{3, name}, std::move(map)};
    const DriftCharts drift(history_, first_bad_, words_);
    for (size_t i = 0; i < family.lineages.size(); ++i) {
      const HistoryLineage& lineage = family.lineages[i];
      Blocks charts = drift.of(lineage, family.columns);
      if (charts.empty()) continue;
      blocks.push_back(Group{.kind = "drift",
                             .blocks = {Group{"multiples", std::move(charts)}},
                             .summary = words_("history.drift", {mode_text(lineage)}),
                             .open = n_charts_++ < kMostOpenCharts,
                             .number = i});
    }
    return blocks;
  }

  std::optional<Square> square(const HistoryCell& runs) const {
    if (runs.empty()) return std::nullopt;
    const HistoryRun& worst = history_.runs[runs.front()];
    const ChangeLook* change = change_of(runs);
    Square square{look_of(meaning_of(worst).severity)};
    if (change) square.look += change->mark;
    if (std::any_of(runs.begin(), runs.end(),
                    [this](size_t run) { return first_bad_.contains(run); }))
      square.look += " first";
    square.link = page_of_run(pages_, worst);
    square.label =
        headline_of(worst.head.verdict, worst.head.remark, worst.text("mode"), words_).text();
    if (worst.injected()) square.label += ", " + words_("history.injected");
    if (change) square.label += ", " + std::string(change->change);
    if (runs.size() > 1)
      square.label += ", " + words_("history.worst_of", {to_string(runs.size())});
    return square;
  }

  /// The worst of its runs; null where nothing changed.
  const ChangeLook* change_of(const HistoryCell& cell) const {
    for (const ChangeLook& look : kChangeLooks) {
      for (const size_t run : cell) {
        if (!history_.runs[run].injected() && history_.runs[run].change() == look.change)
          return &look;
      }
    }
    return nullptr;
  }

  std::string mode_text(const HistoryLineage& lineage) const {
    return lineage.mode.empty() ? words_("history.no_mode") : lineage.mode;
  }

  /// "toy: 60 commits; as_designed: 35 PASS, 25 FAIL; ..."
  std::string caption(const HistoryFamily& family) const {
    size_t commits = 0;
    for (const HistoryColumn& column : family.columns) commits += column.commits.size();
    std::string list;
    for (const HistoryLineage& lineage : family.lineages) {
      std::map<std::string, size_t> verdicts;
      for (const HistoryCell& cell : lineage.cells) {
        for (const size_t run : cell) ++verdicts[history_.runs[run].head.verdict];
      }
      list += (list.empty() ? "" : "; ") + mode_text(lineage) + ": " + counts_text(verdicts);
    }
    return words_("history.caption", {family.experiment, to_string(commits), list});
  }

  // ---- Every run.
  Blocks list() const {
    ShownTable table{{words_("run"),
                      {words_("date"), ShownColumn::Kind::kDate},
                      words_("commit"),
                      words_("mode"),
                      words_("verdict"),
                      words_("brief.changed"),
                      words_("location")},
                     {},
                     true};
    for (size_t i = history_.runs.size(); i > first_listed_; --i) {
      const HistoryRun& run = history_.runs[i - 1];
      table.rows.push_back({{run_name(i - 1, "", run.text("run")), run.text("date"),
                             short_commit(run.text("commit_sha")), run.text("mode"),
                             verdict_badge(run.head.verdict, fail_kind(run.head), words_),
                             run.injected() ? words_("history.injected") : run.change(),
                             run.head.fail.cause.empty() ? "" : place_text(run.head.fail, words_)},
                            false,
                            number_of(i - 1)});
    }
    const std::string n = to_string(table.rows.size());
    return {Heading{2, words_("runs")},
            Group{"rest", {std::move(table)}, words_("history.list", {n})}};
  }

  const History& history_;
  const RunPages& pages_;
  Language language_;
  Wording words_;
  std::vector<HistoryFamily> families_;
  size_t first_listed_;
  std::set<size_t> first_bad_;
  size_t n_charts_ = 0;
};

}  // namespace

std::string column_name(const HistoryColumn& column, const Wording& words) {
  if (column.is_group()) return words("history.group", {to_string(column.commits.size())});
  const std::string& commit = column.commits.front();
  return commit.empty() ? words("not_recorded") : short_commit(commit);
}

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
    return std::pair(turned.contains(a), meaning_of(history.runs[a]).rank) >
           std::pair(turned.contains(b), meaning_of(history.runs[b]).rank);
  });
  std::vector<Run> runs;
  for (const size_t run : order)
    runs.push_back({history.runs[run].id(), history.runs[run].text("run")});
  return runs;
}

}  // namespace greta
