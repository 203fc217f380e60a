#include "cli/greta_db/gated_run.h"
#include "cli/show/judged_row.h"
#include "common/utf8.h"

namespace greta {
namespace {

/// A text or attribute of XML 1.0; lines of a text stay.
std::string xml(std::string_view text, bool lines = false) {
  return Html().text(text, lines ? "\n" : "").take();
}

std::string attribute(const char* name, std::string_view value) {
  return " " + std::string(name) + "=\"" + xml(value) + "\"";
}

/// The cases of one suite, and how many of each kind.
class Suite {
 public:
  explicit Suite(std::string run) : run_(std::move(run)) {}

  /// `text`: what a reader should know though it passes.
  void pass(const std::string& name, const std::string& text = "") {
    add(name, text.empty() ? "" : "<system-out>" + xml(text, true) + "</system-out>");
  }
  void fail(const std::string& name, const std::string& type, const std::string& message,
            const std::string& text) {
    ++failures;
    add(name, element("failure", type, message, text));
  }
  void error(const std::string& name, const std::string& type, const std::string& message,
             const std::string& text) {
    ++errors;
    add(name, element("error", type, message, text));
  }
  void skip(const std::string& name, const std::string& message) {
    ++skipped;
    add(name, "<skipped" + attribute("message", message) + "/>");
  }

  /// `timestamp`: "" unknown.
  std::string str(const std::string& timestamp) const {
    return " <testsuite" + attribute("name", run_) + counts() +
           attribute("skipped", std::to_string(skipped)) + attribute("time", "0") +
           (timestamp.empty() ? "" : attribute("timestamp", timestamp)) + ">\n" + cases_ +
           " </testsuite>\n";
  }

  std::string counts() const {
    return attribute("tests", std::to_string(tests)) +
           attribute("failures", std::to_string(failures)) +
           attribute("errors", std::to_string(errors));
  }

  int64_t tests = 0, failures = 0, errors = 0, skipped = 0;

 private:
  static std::string element(const char* kind, const std::string& type, const std::string& message,
                             const std::string& text) {
    return "<" + std::string(kind) + attribute("type", type) + attribute("message", message) + ">" +
           xml(text, true) + "</" + kind + ">";
  }
  void add(const std::string& name, const std::string& inside) {
    ++tests;
    cases_ += "  <testcase" + attribute("name", name) + attribute("classname", run_) +
              attribute("time", "0") + (inside.empty() ? "/>\n" : ">" + inside + "</testcase>\n");
  }

  std::string run_, cases_;
};

/// A line of a text, of which no name ends another line.
std::string line(const std::string& text) { return utf8::printable(text) + "\n"; }

/// "looks like UNRELATED: ... (...)", a line each, of a place.
std::string findings_text(GatedRun& run, const FailPlace& place) {
  std::string text;
  for (const PairFinding& finding : run.findings(place))
    text += line("looks like " + finding.text(kEnglishWords));
  return text;
}

/// All that the gate says of a run, a line each.
std::string facts_text(const GateShow& show, GatedRun& run) {
  std::string text = line(show.headline(run).text());
  for (const auto& [label, value] : show.facts(run, GateShow::Amount::kAll).items)
    text += line(label.text() + ": " + value.text());
  return text;
}

void add_verdict(Suite& suite, GatedRun& run, const std::string& facts) {
  const std::string own = run.own(run.gate());
  const FailPlace place = run.fail();
  if (own == "PASS") {
    suite.pass("verdict", facts);
  } else if (own == "FAIL") {
    suite.fail("verdict", place.cause.empty() ? own : place.cause, run.own_text(kEnglishWords),
               facts);
  } else {
    suite.error("verdict", own, own + ": " + run.no_verdict_text(kEnglishWords), facts);
  }
}

void add_change(Suite& suite, GatedRun& run, const std::string& facts) {
  const std::string name = "what changed since the baseline", text = run.change_text(kEnglishWords);
  if (run.lacks_baseline()) return suite.error(name, "INCOMPARABLE", text, facts);
  if (!run.has_baseline()) return suite.skip(name, text);
  const std::string change = run.row().text("unwaived_change");
  if (change == "INCOMPARABLE") return suite.error(name, change, text, facts);
  if (run.change_fails()) return suite.fail(name, change, text, facts);
  suite.pass(name, run.waived_rows(run.gate()) > 0 ? line(text) : "");
}

/// "3 pairs waived: attn_out until 2026-12-31: reason (...)": what is waived in a layer.
std::string waived_in(const GatedRun& run, int64_t layer, int64_t pairs) {
  std::string text = counted(pairs, "pair") + " waived";
  for (const AppliedWaiver& waiver : run.waivers()) {
    if (waiver.layer && *waiver.layer != layer) continue;
    text += "; " + waived_place(waiver, kEnglishWords) + " until " + waiver.until + ": " +
            waiver.reason + " (waiver " + std::to_string(waiver.id) + ")";
  }
  return utf8::printable(text);
}

/// A case per prompt and layer; of a run that cannot be told from a failure.
void add_cases(Suite& suite, GatedRun& run, const std::string& more) {
  for (const auto& [prompt, status, cause, message, tensor, layer, waived] : run.cases()) {
    const std::string name =
        prompt + ", " + (layer < 0 ? "after the stack" : "layer " + std::to_string(layer));
    if (status == "FAIL") {
      FailPlace place;
      place.prompt = prompt;
      place.tensor = tensor;
      place.layer = layer;
      suite.fail(name, cause, message, line(message) + findings_text(run, place) + more);
    } else if (status == "NO_EVIDENCE") {
      suite.skip(name, waived > 0 ? "all of it is waived: " + waived_in(run, layer, waived)
                                  : "nothing was compared");
    } else if (status == "INCOMPARABLE") {
      suite.error(name, status, "pairs that nothing decides", more);
    } else {
      suite.pass(name, waived > 0 ? waived_in(run, layer, waived) : "");
    }
  }
}

}  // namespace

std::string gate_junit(const std::string& database, const GateShow& show, GatedRuns& runs) {
  std::string suites;
  Suite all("");
  for (const auto& run : runs) {
    const std::string facts = facts_text(show, *run);
    Suite suite(run->name());
    add_verdict(suite, *run, facts);
    add_change(suite, *run, facts);
    add_cases(suite, *run, line(more_command(database, *run)));
    suites += suite.str(run->row().text("timestamp"));
    all.tests += suite.tests;
    all.failures += suite.failures;
    all.errors += suite.errors;
  }
  return kJunitStart + all.counts() + attribute("time", "0") + ">\n" + suites + "</testsuites>\n";
}

}  // namespace greta
