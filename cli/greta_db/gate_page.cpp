#include <algorithm>
#include <map>
#include <tuple>

#include "cli/greta_db/gated_run.h"
#include "cli/pages/markdown_html.h"
#include "cli/pages/page.h"
#include "cli/report/markdown.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kMostGateSections = 12;  // runs with a section of their own
constexpr size_t kMostGateCases = 20;     // cases of a run that are spelled out

class GatePage {
 public:
  GatePage(const std::string& database, GatedRuns& runs, int status, Language language)
      : database_(database), status_(status), language_(language), words_(language) {
    for (const auto& run : runs) runs_.push_back(run.get());
    std::stable_sort(runs_.begin(), runs_.end(), [](const GatedRun* a, const GatedRun* b) {
      return std::pair(rank(*a), !is_new(*a)) < std::pair(rank(*b), !is_new(*b));
    });
  }

  std::string write(const std::string& json) {
    PageContent content;
    content.title = words_("gate.title") + ": " + answer();
    content.kind = "gate";
    Html& html = content.body;
    html << "<header>\n<h1>";
    html.text(words_("gate.title"))
        << "</h1>\n<p class=headline>" << verdict_badge(answer(), kind_of_all(), words_)
        << "</p>\n<p>" << html_of_line(sentence()) << "</p>\n</header>\n";
    if (runs_.size() > 1) table(html);
    size_t shown = 0;
    for (GatedRun* run : runs_) {
      if (runs_.size() > 1 && !has_section(*run, shown)) continue;
      ++shown;
      section(html, *run);
    }
    JsonObject data;
    data.add("version", 1).add("kind", std::string_view("gate"));
    data.raw("words", JsonObject().add("close", std::string_view(words_("page.close"))).str());
    content.data = data.raw("gate", json).str();
    return page_of(content, language_);
  }

 private:
  /// What fails, what has no verdict, what passes.
  static int rank(const GatedRun& run) {
    const int status = exit_of_verdict(run.answer());
    return status == kExitFail ? 0 : status == kExitNoVerdict ? 1 : 2;
  }
  /// What the baseline did not have comes first.
  static bool is_new(const GatedRun& run) {
    const std::string change = run.has_baseline() ? run.row().text("change") : "";
    return change == "BROKEN" || change == "CHANGED";
  }
  static bool has_section(const GatedRun& run, size_t shown) {
    return shown < kMostGateSections && (rank(run) < 2 || !run.waivers().empty());
  }

  std::string answer() const {
    return status_ == kExitNoVerdict ? words_("history.undecided") : answer_of_status(status_);
  }
  /// Of what fails by itself as on its own page, else of what changed since the baseline.
  static FailKind kind_of(const GatedRun& run) {
    if (run.answer() != "FAIL") return FailKind::kNone;
    if (run.fails()) {
      return fail_kind("FAIL", run.fail().cause, run.gate(), run.own(run.other_gate()));
    }
    const RunVerdict& v = run.row();
    const bool lost = v.number("lost_rows") + v.number("new_rows") > 0;
    const bool values =
        v.number("changed_rows") + v.number("nonfinite_rows") + v.number("rounded_rows") > 0;
    return lost && !values ? FailKind::kUnpaired : FailKind::kValues;
  }
  /// Values that are known to differ before all else.
  FailKind kind_of_all() const {
    FailKind kind = FailKind::kNone;
    for (const GatedRun* run : runs_) {
      const FailKind one = kind_of(*run);
      if (one == FailKind::kValues) return one;
      if (kind == FailKind::kNone) kind = one;
    }
    return kind;
  }

  std::string own_place(const GatedRun& run) const { return fail_place(run.fail(), words_); }
  std::string changed_place(const GatedRun& run) const {
    const RunVerdict& v = run.row();
    FailPlace place;
    place.tensor = v.text("changed_tensor");
    place.prompt = v.text("changed_prompt");
    if (v.has("changed_layer")) place.layer = v.number("changed_layer");
    return fail_place(place, words_);
  }

  /// The answer, and where; as Markdown.
  std::string sentence() const {
    size_t fails = 0, open = 0;
    for (const GatedRun* run : runs_) {
      fails += rank(*run) == 0;
      open += rank(*run) == 1;
    }
    const std::string all = std::to_string(runs_.size());
    if (fails > 0) {
      const GatedRun& first = *runs_.front();
      const std::string where =
          "`" + in_code(first.fails() ? own_place(first) : changed_place(first)) + "`";
      if (runs_.size() > 1) return words_("gate.no", {std::to_string(fails), all, where});
      return first.fails() ? words_("gate.no.one", {where}) : words_("gate.no.changed", {where});
    }
    if (open > 0 || runs_.empty()) return words_("gate.open", {std::to_string(open), all});
    return runs_.size() == 1 ? words_("gate.yes.one") : words_("gate.yes", {all});
  }

  void table(Html& html) {
    html << "<section>\n<h2>";
    html.text(words_("gate.runs"))
        << "</h2>\n"
        << table_head("<table class=sortable>",
                      {"gate.answer", "run", "commit", "mode", "gate.own", "location", "gate.since",
                       "gate.waivers"},
                      words_);
    size_t shown = 0;
    for (const GatedRun* run : runs_) {
      const RunVerdict& v = run->row();
      const bool linked = has_section(*run, shown);
      shown += linked;
      html << "<tr><td>" << verdict_badge(run->answer(), kind_of(*run), words_) << "</td><td>";
      if (linked) html << "<a href=\"#run" << Html().number(run->run_id()) << "\">";
      html.text(run->name());
      if (linked) html << "</a>";
      html << "</td><td>";
      html.text(v.has("commit_sha") ? v.text("commit_sha").substr(0, 12) : "") << "</td><td>";
      html.text(v.text("mode")) << "</td><td>";
      html.text(run->own(run->gate())) << "</td><td>";
      html.text(run->fails() ? own_place(*run) : "") << "</td><td>";
      html.text(run->has_baseline() ? v.text("change") : words_("gate.since.none"))
          << "</td><td class=number>";
      html.number(run->waived_pairs(run->gate()) + run->waived_rows(run->gate())) << "</td></tr>\n";
    }
    html << kTableEnd << "</section>\n";
  }

  std::string gate_words(Gate gate) const {
    return gate == Gate::kStrict ? words_("gate.strict") : words_("gate.numeric");
  }

  void fact(Html& html, TextId label, const std::string& text) {
    if (text.empty()) return;
    html << "<dt>";
    html.text(words_(label)) << "</dt><dd>";
    html.text(text) << "</dd>\n";
  }

  void section(Html& html, GatedRun& run) {
    const RunVerdict& v = run.row();
    html << "<section class=run id=run" << Html().number(run.run_id()) << ">\n<h2 class=run>";
    html.text(run.name()) << "</h2>\n<p class=headline>"
                          << verdict_badge(run.answer(), kind_of(run), words_)
                          << " <span class=remark>";
    html.text(with_unjudged_texts(words_("gate.by") + " " + gate_words(run.gate()), v))
        << "</span></p>\n<dl class=facts>\n";
    fact(html, "commit", v.text("commit_sha"));
    fact(html, "date", v.text("date"));
    fact(html, "mode", v.text("mode"));
    std::string own =
        words_("gate.own.text", {run.own(run.gate()), gate_words(run.gate()),
                                 run.own(run.other_gate()), gate_words(run.other_gate())});
    const std::string as_it_is(v.at(run.gate()));
    if (as_it_is != run.own(run.gate())) own += "; " + words_("gate.own.waived", {as_it_is});
    fact(html, "gate.own", own);
    if (run.fails()) fact(html, "location", run.fail().cause + ", " + own_place(run));
    findings(html, run);
    fact(html, "gate.since", change_text(run));
    fact(html, "gate.why", why(run));
    for (const std::string& tolerance : run.tolerances(words_)) {
      fact(html, "gate.tolerance", tolerance);
    }
    fact(html, "gate.later", later_text(run.later(), words_));
    const Gate other = run.other_gate();
    if (exit_of_verdict(run.answer(other)) != exit_of_verdict(run.answer())) {
      html << "<dt></dt><dd>";
      html.text(words_("gate.other", {std::string(gate_name(other)), run.answer(other)}))
          << "</dd>\n";
    }
    html << "</dl>\n";
    if (run.answer() != "PASS") {
      html << "<h3>";
      html.text(words_("brief.next")) << "</h3>\n<pre><code>";
      html.text(more_command(database_, run)) << "</code></pre>\n";
    }
    waivers(html, run);
    cases(html, run);
    html << "</section>\n";
  }

  void findings(Html& html, GatedRun& run) {
    for (const PairFinding& finding : run.findings(run.fail())) {
      fact(html, "looks_like", finding.text(words_));
    }
  }

  std::string change_text(const GatedRun& run) const {
    const RunVerdict& v = run.row();
    if (!run.has_baseline()) {
      return words_("gate.since.none") + " (" + v.text("no_baseline_why") + ")";
    }
    std::string baseline = v.text("baseline");
    if (v.has("baseline_commit_sha")) {
      baseline += " (" + words_("commit") + " " + v.text("baseline_commit_sha") + ")";
    }
    std::string text = words_("gate.since.text", {v.text("change"), baseline});
    if (v.has("why_not")) return text + ": " + v.text("why_not");
    struct Count {
      const char* column;
      TextId id;
    };
    const Count counts[] = {{"changed_rows", "gate.rows.beyond"},
                            {"nonfinite_rows", "gate.rows.nonfinite"},
                            {"rounded_rows", "gate.rows.rounded"},
                            {"lost_rows", "gate.rows.lost"},
                            {"new_rows", "gate.rows.new"}};
    std::string list;
    for (const auto& [column, id] : counts) {
      if (v.number(column) == 0) continue;
      list += (list.empty() ? ": " : ", ") + words_(id, {std::to_string(v.number(column))});
    }
    if (const int64_t n = run.waived_rows(run.gate()); n > 0) {
      list += (list.empty() ? ": " : ", ") + words_("gate.rows.waived", {std::to_string(n)});
    }
    text += list;
    if (v.has("changed_tensor")) {
      text += "; " + words_("gate.since.first", {changed_place(run), v.text("changed_phase")});
    }
    return text;
  }

  std::string why(const GatedRun& run) const {
    const std::string answer = run.answer();
    if (answer == "PASS" || answer == "FAIL") return "";
    if (answer == "INCOMPLETE") {
      return words_("gate.why.INCOMPLETE") + " (" + run.row().text("incomplete_why") + ")";
    }
    if (run.lacks_baseline()) return words_("gate.why.required");
    if (answer == "NO_EVIDENCE")
      return run.waivers().empty() ? words_("gate.why.NO_EVIDENCE") : words_("gate.why.waived");
    if (run.own(run.gate()) == "PASS") return words_("gate.why.baseline");
    return words_("gate.why.INCOMPARABLE");
  }

  void waivers(Html& html, const GatedRun& run) {
    if (run.waivers().empty()) return;
    html << "<h3>";
    html.text(words_("gate.waivers"))
        << "</h3>\n"
        << table_head("<table>",
                      {"tensor", "layer", "gate.waiver.pairs", "divergent", "gate.waiver.until",
                       "gate.waiver.reason", "gate.waiver.by"},
                      words_);
    for (const AppliedWaiver& waiver : run.waivers()) {
      html << "<tr><td><code>";
      html.text(waiver.tensor) << "</code></td><td class=number>";
      html.text(waiver.layer ? std::to_string(*waiver.layer) : words_("history.all"))
          << "</td><td class=number>";
      html.number(waiver.pairs) << "</td><td class=number>";
      html.number(waiver.divergent) << "</td><td class=date>";
      html.text(waiver.until) << "</td><td>";
      html.text(waiver.reason) << "</td><td>";
      html.text(waiver.created_by) << "</td></tr>\n";
    }
    html << kTableEnd;
  }

  // ---- Prompts and layers.
  void cases(Html& html, GatedRun& run) {
    const std::vector<GateCase>& cases = run.cases();
    if (cases.empty()) return;
    html << "<h3>";
    html.text(words_("gate.cases")) << "</h3>\n";
    legend(html, cases);
    grid(html, cases);
    messages(html, cases);
  }

  static Markup look_of(const GateCase& one) {
    return one.status == "PASS"          ? Markup("m")
           : one.status == "FAIL"        ? Markup("f2")
           : one.status == "NO_EVIDENCE" ? Markup("o")
                                         : Markup("i");
  }

  void legend(Html& html, const std::vector<GateCase>& cases) {
    html << "<ul class=legend aria-label=\"";
    html.text(words_("page.legend")) << "\">\n";
    for (const char* status : {"PASS", "FAIL", "NO_EVIDENCE", "INCOMPARABLE"}) {
      const auto found = std::find_if(cases.begin(), cases.end(),
                                      [&](const GateCase& one) { return one.status == status; });
      if (found == cases.end()) continue;
      html << "<li><span class=\"cell " << look_of(*found) << "\"></span>";
      html.text(status) << "</li>\n";
    }
    html << "</ul>\n";
  }

  void grid(Html& html, const std::vector<GateCase>& cases) {
    std::vector<std::string> prompts;
    std::vector<int64_t> layers;  // forward order: after the stack comes last
    std::map<std::pair<std::string, int64_t>, const GateCase*> at;
    for (const GateCase& one : cases) {
      if (std::find(prompts.begin(), prompts.end(), one.prompt) == prompts.end())
        prompts.push_back(one.prompt);
      if (std::find(layers.begin(), layers.end(), one.layer) == layers.end())
        layers.push_back(one.layer);
      at[{one.prompt, one.layer}] = &one;
    }
    std::sort(layers.begin(), layers.end(),
              [](int64_t a, int64_t b) { return std::pair(a < 0, a) < std::pair(b < 0, b); });
    html << "<div class=wide><table class=\"map cases\"><caption>";
    html.text(words_("gate.cases")) << "</caption>\n<thead><tr><th scope=col>";
    html.text(words_("prompt")) << "</th>";
    for (const int64_t layer : layers) {
      html << "<th scope=col><span>";
      html.text(layer_name(layer, words_)) << "</span></th>";
    }
    html << "</tr></thead>\n<tbody>\n";
    for (const std::string& prompt : prompts) {
      html << "<tr><th scope=row>";
      html.text(prompt) << "</th>";
      for (const int64_t layer : layers) {
        const auto found = at.find({prompt, layer});
        if (found == at.end()) {
          html << "<td>";
          continue;
        }
        html << "<td class=" << look_of(*found->second) << " aria-label=\"";
        html.text(found->second->status) << "\">";
      }
      html << "\n";
    }
    html << kTableEnd;
  }

  void messages(Html& html, const std::vector<GateCase>& cases) {
    size_t n = 0;
    for (const GateCase& one : cases) {
      if (one.status != "FAIL") continue;
      if (++n > kMostGateCases) continue;
      if (n == 1)
        html << table_head("<table class=sortable>", {"prompt", "layer", "gate.message"}, words_);
      html << "<tr><td>";
      html.text(one.prompt) << "</td><td>";
      html.text(layer_name(one.layer, words_)) << "</td><td>";
      html.text(one.message) << "</td></tr>\n";
    }
    if (n > 0) html << kTableEnd;
    if (n <= kMostGateCases) return;
    html << "<p class=note>";
    html.text(words_("gate.cases.rest", {std::to_string(n - kMostGateCases)})) << "</p>\n";
  }

  const std::string& database_;
  int status_;
  Language language_;
  Wording words_;
  std::vector<GatedRun*> runs_;
};

}  // namespace

std::string gate_page(const std::string& database, GatedRuns& runs, int status,
                      const std::string& json, Language language) {
  return GatePage(database, runs, status, language).write(json);
}

}  // namespace greta
