#include <algorithm>
#include <map>
#include <set>

#include "cli/greta_db/gated_run.h"
#include "cli/show/judged_row.h"
#include "cli/show/page.h"
#include "common/json_text.h"

namespace greta {
namespace {

constexpr size_t kMostGateSections = 12;  // runs of a page with a section of their own
constexpr size_t kMostGateCases = 20;     // cases of a run that are spelled out
constexpr size_t kMostTableRuns = 13;     // of a summary, and what else it leaves out
constexpr size_t kMostFindings = 3, kMostWaivers = 5, kMostTolerances = 3;

/// The worse the greater.
int rank(const GatedRun& run) { return meaning_of(run.answer()).rank; }
bool fails(const GatedRun& run) { return meaning_of(run.answer()).severity == Severity::kBad; }
bool is_open(const GatedRun& run) { return meaning_of(run.answer()).severity == Severity::kOpen; }

/// True if the baseline did not have it.
bool is_new(const GatedRun& run) {
  const std::string change = run.has_baseline() ? run.row().text("change") : "";
  return change == "BROKEN" || change == "CHANGED";
}

/// The kind of its own failure, as on its own page, else of what changed since the baseline.
FailKind kind_of(const GatedRun& run) {
  if (run.answer() != "FAIL") return FailKind::kNone;
  if (run.fails())
    return fail_kind("FAIL", run.fail().cause, run.gate(), run.own(run.other_gate()));
  const RunVerdict& v = run.row();
  const bool lost = v.number("lost_rows") + v.number("new_rows") > 0;
  const bool values =
      v.number("changed_rows") + v.number("nonfinite_rows") + v.number("rounded_rows") > 0;
  return lost && !values ? FailKind::kUnpaired : FailKind::kValues;
}

FailPlace place_of(const GatedRun& run) { return run.fails() ? run.fail() : run.changed_place(); }

Square square_of(const GateCase& one) {
  return {look_of(meaning_of(one.status).severity), "", one.status};
}

}  // namespace

GateShow::GateShow(const std::string& database, GatedRuns& runs, int status, Language language)
    : database_(database), status_(status), words_(language) {
  for (const auto& run : runs) runs_.push_back(run.get());
  worst_first_ = runs_;
  std::stable_sort(worst_first_.begin(), worst_first_.end(),
                   [](const GatedRun* a, const GatedRun* b) {
                     return std::pair(rank(*a), is_new(*a)) > std::pair(rank(*b), is_new(*b));
                   });
}

void GateShow::print(Output& out) {
  Blocks blocks;
  for (GatedRun* run : runs_) {
    blocks.push_back(Heading{2, run->name(), headline(*run)});
    blocks.push_back(facts(*run, Amount::kAll));
  }
  if (runs_.size() > 1) {
    blocks.push_back(
        Heading{2, answer_of_status(status_) + " of " + std::to_string(runs_.size()) + " runs"});
  }
  print_terminal(blocks, out);
}

std::string GateShow::markdown() {
  Blocks blocks;
  if (runs_.size() > 1) {
    ShownTable all = table();
    const size_t runs = all.rows.size();
    if (runs > kMostTableRuns) {
      all.rows.resize(kMostTableRuns);
      size_t failing = 0, open = 0;
      for (size_t i = kMostTableRuns; i < runs; ++i) {
        failing += fails(*worst_first_[i]);
        open += is_open(*worst_first_[i]);
      }
      ShownRow rest{{words_("gate.rest", {std::to_string(failing), std::to_string(open)}),
                     words_("gate.and_more", {std::to_string(runs - kMostTableRuns)})}};
      rest.cells.resize(all.columns.size());
      all.rows.push_back(std::move(rest));
    }
    blocks.push_back(std::move(all));
  }
  if (!runs_.empty()) {
    GatedRun& worst = *worst_first_.front();
    FactList some = facts(worst, Amount::kSome);
    for (auto& [label, value] : some.items) value = code(value.text());  // of which GitHub makes
    blocks.push_back(Heading{4, code(worst.name()), headline(worst)});   // no mention or link
    blocks.push_back(std::move(some));
  }
  std::string text = kMarkdownStart + answer_of_status(status_) + "\n\n";
  print_markdown(blocks, [&](std::string_view piece) { text += piece; });
  return text;
}

std::string GateShow::page(const std::string& json) {
  FailKind kind = FailKind::kNone;  // values that are known to differ before all else
  for (const GatedRun* run : worst_first_) {
    const FailKind one = kind_of(*run);
    if (one == FailKind::kValues || kind == FailKind::kNone) kind = one;
    if (one == FailKind::kValues) break;
  }
  PageContent content;
  content.title = words_("gate.title") + ": " + answer();
  content.kind = "gate";
  content.body = {Group{
      "header",
      {Heading{1, words_("gate.title"), verdict_badge(answer(), kind, words_)}, Note{sentence()}}}};
  if (runs_.size() > 1)
    content.body.push_back(Group{"section", {Heading{2, words_("gate.runs")}, table()}});
  size_t shown = 0;
  for (GatedRun* run : worst_first_) {
    if (!has_section(*run, shown)) continue;
    ++shown;
    content.body.push_back(Group{.kind = "section run",
                                 .blocks = section(*run),
                                 .id = "run" + std::to_string(run->run_id())});
  }
  JsonObject data;
  data.add("version", 1).add("kind", std::string_view("gate"));
  data.raw("words", json_of_words({"page.close"}, words_));
  content.data = data.raw("gate", json).str();
  return page_of(content, words_.language());
}

/// The answer, how it passes, and what is waived: "PASS (2 pairs waived until 2026-12-31: reason)".
Line GateShow::headline(const GatedRun& run, FailKind kind) const {
  Line line = verdict_badge(run.answer(), kind, words_);
  if (run.passes_by_rounding())
    line += " " + soft(remark_text(kWithinRounding, run.row().text("mode"), words_));
  const int64_t pairs = run.waived_pairs(run.gate()), rows = run.waived_rows(run.gate());
  std::string what;
  if (pairs > 0) {
    what = words_(pairs == 1 ? TextId("waiver.pair") : TextId("waiver.pairs"),
                  {std::to_string(pairs)});
  }
  if (rows > 0) {
    what += (what.empty() ? "" : words_("waiver.and")) +
            words_(rows == 1 ? TextId("gate.row") : TextId("gate.rows"), {std::to_string(rows)});
  }
  if (!what.empty()) {
    what = words_("gate.rows.waived", {what});
    if (run.waivers().size() == 1)
      what += " " + words_("gate.until", {run.waivers()[0].until, run.waivers()[0].reason});
    line += " " + soft("(" + what + ")");
  }
  if (run.row().has("unjudged_texts")) line += "; " + soft(run.row().text("unjudged_texts"));
  return line;
}

FactList GateShow::facts(GatedRun& run, Amount amount) const {
  const RunVerdict& v = run.row();
  FactList facts;
  const auto add = [&](TextId label, const std::string& text) {
    if (!text.empty()) facts.add(words_(label), text);
  };
  // of many the first, and how many more there are
  const auto add_all = [&](TextId label, const std::vector<std::string>& texts, size_t most) {
    if (amount == Amount::kAll) most = texts.size();
    for (size_t i = 0; i < std::min(most, texts.size()); ++i) add(label, texts[i]);
    if (texts.size() > most)
      add(label, words_("gate.and_more", {std::to_string(texts.size() - most)}));
  };
  std::string what = v.has("commit_sha") ? words_("gate.commit", {v.text("commit_sha")}) : "";
  for (const char* column : {"date", "mode"}) {
    if (v.has(column)) what += (what.empty() ? "" : ", ") + v.text(column);
  }
  std::vector<std::string> findings, waivers;
  for (const PairFinding& finding : run.findings(run.fail()))
    findings.push_back(finding.text(words_));
  for (const AppliedWaiver& waiver : run.waivers()) waivers.push_back(waiver_text(waiver, words_));
  add("gate.own", run.own_text(words_));
  add("gate.pairs", run.pairs_text(words_));
  add_all("gate.looks_like", findings, kMostFindings);
  add("gate.since", run.change_text(words_));
  add_all("gate.waived", waivers, kMostWaivers);
  add_all("gate.tolerance", run.tolerances(words_), kMostTolerances);
  add("gate.why", run.no_verdict_text(words_));
  add("gate.run", what);
  add("gate.later", later_text(run.later(), words_));
  const Gate other = run.other_gate();
  if (exit_of_verdict(run.answer(other)) != exit_of_verdict(run.answer()))
    add("gate.otherwise", words_("gate.other", {gate_name(other), run.answer(other)}));
  if (run.answer() != "PASS") facts.add(words_("gate.more"), code(more_command(database_, run)));
  return facts;
}

bool GateShow::has_section(const GatedRun& run, size_t shown) const {
  return runs_.size() == 1 ||
         (shown < kMostGateSections && (fails(run) || is_open(run) || !run.waivers().empty()));
}

std::string GateShow::answer() const {
  return status_ == kExitNoVerdict ? words_("history.undecided") : answer_of_status(status_);
}

/// The answer, and where.
Line GateShow::sentence() const {
  size_t failing = 0, open = 0;
  for (const GatedRun* run : runs_) {
    failing += fails(*run);
    open += is_open(*run);
  }
  const std::string all = std::to_string(runs_.size());
  if (failing > 0) {
    const GatedRun& first = *worst_first_.front();
    const Line where = code(place_text(place_of(first), words_));
    if (runs_.size() > 1) return words_.line("gate.no", {std::to_string(failing), all, where});
    return first.fails() ? words_.line("gate.no.one", {where})
                         : words_.line("gate.no.changed", {where});
  }
  if (open > 0 || runs_.empty()) return words_.line("gate.open", {std::to_string(open), all});
  return runs_.size() == 1 ? words_.line("gate.yes.one") : words_.line("gate.yes", {all});
}

ShownTable GateShow::table() const {
  ShownTable table{{words_("gate.answer"),
                    words_("run"),
                    words_("commit"),
                    words_("mode"),
                    words_("gate.own"),
                    words_("location"),
                    words_("gate.since"),
                    {words_("gate.waived"), ShownColumn::Kind::kNumber}},
                   {},
                   true};
  size_t sections = 0;
  for (const GatedRun* run : worst_first_) {
    const RunVerdict& v = run->row();
    const bool is_linked = has_section(*run, sections);
    sections += is_linked;
    Span name{Span::Kind::kCode, run->name()};
    if (is_linked) name.link = "#run" + std::to_string(run->run_id());
    table.add({verdict_badge(run->answer(), kind_of(*run), words_), name,
               v.text("commit_sha").substr(0, 12), v.text("mode"), run->own(run->gate()),
               run->fails() ? code(place_text(run->fail(), words_)) : Line(),
               run->has_baseline() ? v.text("change") : words_("gate.no_baseline"),
               std::to_string(run->waived_pairs(run->gate()) + run->waived_rows(run->gate()))});
  }
  return table;
}

Blocks GateShow::section(GatedRun& run) const {
  Blocks blocks{Heading{2, run.name(), headline(run, kind_of(run))}, facts(run, Amount::kAll)};
  for (Block& block : cases(run)) blocks.push_back(std::move(block));
  return blocks;
}

/// Prompts and layers.
Blocks GateShow::cases(GatedRun& run) const {
  std::map<std::pair<bool, int64_t>, size_t> columns;  // forward order: after the stack comes last
  std::map<std::string, size_t> rows;
  const auto column_of = [](const GateCase& one) { return std::pair(one.layer < 0, one.layer); };
  Map map{.kind = "map cases", .caption = words_("gate.cases"), .corner = words_("prompt")};
  Legend legend{words_("page.legend"), {}};
  std::set<std::string> seen;
  ShownTable failing{{words_("prompt"), words_("layer"), words_("gate.message")}, {}, true};
  for (const GateCase& one : run.cases()) {
    columns[column_of(one)];
    if (rows.try_emplace(one.prompt, rows.size()).second) map.rows.push_back(one.prompt);
    if (seen.insert(one.status).second) legend.items.push_back({{square_of(one)}, one.status});
    if (one.status == "FAIL") failing.add({one.prompt, layer_name(one.layer, words_), one.message});
  }
  if (map.rows.empty()) return {};
  for (auto& [layer, column] : columns) {
    column = map.columns.size();
    map.columns.push_back(layer_name(layer.second, words_));
  }
  map.squares.assign(map.rows.size(), std::vector<std::optional<Square>>(map.columns.size()));
  for (const GateCase& one : run.cases())
    map.squares[rows[one.prompt]][columns[column_of(one)]] = square_of(one);
  Blocks blocks{Heading{3, words_("gate.cases")}, std::move(legend), std::move(map)};
  if (failing.rows.empty()) return blocks;
  const size_t rest = failing.rows.size() - std::min(failing.rows.size(), kMostGateCases);
  failing.rows.resize(failing.rows.size() - rest);
  blocks.push_back(std::move(failing));
  if (rest > 0) {
    blocks.push_back(
        Note{words_.line("gate.cases.rest", {std::to_string(rest)}), Note::Kind::kSmall});
  }
  return blocks;
}

}  // namespace greta
