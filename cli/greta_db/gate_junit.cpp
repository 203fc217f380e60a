#include "cli/greta_db/gated_run.h"
#include "cli/show/judged_row.h"
#include "common/utf8.h"

namespace greta {
namespace {

/// A text or attribute of XML 1.0: what that forbids, and what nobody would see, is spelled out;
/// lines of a text stay.
std::string xml(std::string_view text, bool lines = false) {
  std::string escaped;
  const std::string shown = utf8::printable(text, lines ? "\n" : "");
  for (std::string_view rest = shown; !rest.empty();) {
    const utf8::Head head = utf8::head(rest);
    if (rest[0] == '&') {
      escaped += "&amp;";
    } else if (rest[0] == '<') {
      escaped += "&lt;";
    } else if (rest[0] == '>') {
      escaped += "&gt;";
    } else if (rest[0] == '"') {
      escaped += "&quot;";
    } else if (head.code == 0xFFFE || head.code == 0xFFFF) {
      escaped += utf8::kReplacement;
    } else {
      escaped += rest.substr(0, head.bytes);
    }
    rest.remove_prefix(head.bytes);
  }
  return escaped;
}

std::string attribute(const char* name, std::string_view value) {
  return " " + std::string(name) + "=\"" + xml(value) + "\"";
}

/// True if it is of the form 2026-02-07T00:00:00Z, which readers of a report insist on.
bool is_timestamp(std::string_view text) {
  constexpr std::string_view kForm = "dddd-dd-ddTdd:dd:ddZ";
  if (text.size() != kForm.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kForm[i] == 'd' ? !digit : text[i] != kForm[i]) return false;
  }
  return true;
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

  /// `timestamp` in ISO 8601; another is left out.
  std::string str(const std::string& timestamp) const {
    std::string text = " <testsuite" + attribute("name", run_) + counts() +
                       attribute("skipped", std::to_string(skipped)) + attribute("time", "0");
    if (is_timestamp(timestamp)) text += attribute("timestamp", timestamp);
    return text + ">\n" + cases_ + " </testsuite>\n";
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

/// "looks like UNRELATED: ... (...)", a line each, of a place.
std::string findings_text(GatedRun& run, const FailPlace& place) {
  std::string text;
  for (const PairFinding& finding : run.findings(place)) {
    text += "looks like " + utf8::printable(finding.text(kEnglishWords)) + "\n";
  }
  return text;
}

/// Facts that the verdict leaves out, a line each: texts that were not judged, and what people
/// decided: waivers, and tolerances that are not as shipped.
std::string decisions_text(const GatedRun& run) {
  std::string text;
  if (run.row().has("unjudged_texts")) text = run.row().show("unjudged_texts") + "\n";
  for (const AppliedWaiver& waiver : run.waivers())
    text += "waived: " + utf8::printable(waiver_text(waiver, kEnglishWords)) + "\n";
  for (const std::string& tolerance : run.tolerances(kEnglishWords))
    text += "tolerance: " + utf8::printable(tolerance) + "\n";
  return text;
}

void add_verdict(Suite& suite, GatedRun& run, const std::string& more) {
  const std::string own = run.own(run.gate());
  const FailPlace place = run.fail();
  const std::string decisions = decisions_text(run), details = more + decisions;
  if (own == "PASS") {
    suite.pass("verdict", decisions);
  } else if (own == "FAIL") {
    suite.fail("verdict", place.cause.empty() ? own : place.cause, run.own_text(kEnglishWords),
               findings_text(run, place) + details);
  } else {
    suite.error("verdict", own, own + ": " + run.no_verdict_text(kEnglishWords), details);
  }
}

void add_change(Suite& suite, GatedRun& run, const std::string& more) {
  const std::string name = "what changed since the baseline", text = run.change_text(kEnglishWords);
  if (run.lacks_baseline()) return suite.error(name, "INCOMPARABLE", text, more);
  if (!run.has_baseline()) return suite.skip(name, text);
  const std::string change = run.row().text("unwaived_change");
  if (change == "INCOMPARABLE") return suite.error(name, change, text, more);
  if (run.change_fails()) return suite.fail(name, change, text, more);
  suite.pass(name, run.waived_rows(run.gate()) > 0 ? text + "\n" + decisions_text(run) : "");
}

/// "3 pairs waived: attn_out until 2026-12-31: reason (...)": what is waived in a layer.
std::string waived_in(const GatedRun& run, int64_t layer, int64_t pairs) {
  std::string text = std::to_string(pairs) + (pairs == 1 ? " pair" : " pairs") + " waived";
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
      suite.fail(name, cause, message,
                 utf8::printable(message) + "\n" + findings_text(run, place) + more);
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

std::string gate_junit(const std::string& database, GatedRuns& runs) {
  std::string suites;
  Suite all("");
  for (const auto& run : runs) {
    const std::string more = more_command(database, *run) + "\n";
    Suite suite(run->name());
    add_verdict(suite, *run, more);
    add_change(suite, *run, more);
    add_cases(suite, *run, more);
    const RunVerdict& row = run->row();
    std::string timestamp = row.text("started_at");
    if (timestamp.empty() && row.has("date")) timestamp = row.text("date") + "T00:00:00Z";
    suites += suite.str(timestamp);
    all.tests += suite.tests;
    all.failures += suite.failures;
    all.errors += suite.errors;
  }
  return kJunitStart + all.counts() + attribute("time", "0") + ">\n" + suites + "</testsuites>\n";
}

}  // namespace greta
