#include <algorithm>

#include "cli/greta_db/gated_run.h"
#include "cli/report/markdown.h"
#include "cli/report/waivers.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kMaxRuns = 13, kMaxFindings = 3, kMaxWaivers = 5, kMaxTolerances = 3;

/// Code in a cell of a table: no name can end it, and GitHub makes no mention or link of it.
std::string code(std::string_view text) {
  std::string cell = "`";
  for (const char c : in_code(text)) {
    if (c == '|') cell += cell.back() == '\\' ? " \\" : "\\";  // \\| would end the cell
    cell += c;
  }
  return cell + "`";
}

std::string row(const std::string& label, const std::string& value) {
  return "| " + label + " | " + value + " |\n";
}

/// What there is to say of one run, at most 21 lines.
std::string block(const std::string& database, GatedRun& run) {
  const RunVerdict& v = run.row();
  std::string text = "| " + run.headline();
  if (v.has("unjudged_texts")) text += "; " + code(v.text("unjudged_texts"));
  text += " | " + code(run.name()) + " |\n|---|---|\n";
  std::string what;
  for (const auto& [label, key] :
       {std::pair{"commit ", "commit_sha"}, {"", "date"}, {"", "mode"}}) {
    if (v.has(key)) what += (what.empty() ? "" : ", ") + std::string(label) + v.text(key);
  }
  if (!what.empty()) text += row("run", code(what));
  text += row("own verdict", code(run.own_text()));
  size_t n = 0;
  for (const PairFinding& finding : run.findings(run.fail())) {
    if (++n > kMaxFindings) break;
    text += row("looks like", finding.name + ": " + code(finding.evidence(kEnglishWords)) + " " +
                                  code(finding.meaning(kEnglishWords)));
  }
  if (const std::string why = run.no_verdict_text(); !why.empty()) text += row("why", code(why));
  text += row("since the baseline", code(run.change_text()));
  n = 0;
  for (const AppliedWaiver& waiver : run.waivers()) {
    if (++n > kMaxWaivers) continue;
    text += row("waived", code(waiver_text(waiver, kEnglishWords)));
  }
  if (n > kMaxWaivers) text += row("waived", "and " + std::to_string(n - kMaxWaivers) + " more");
  n = 0;
  for (const std::string& tolerance : run.tolerances(kEnglishWords)) {
    if (++n <= kMaxTolerances) text += row("tolerance", code(tolerance));
  }
  if (n > kMaxTolerances)
    text += row("tolerance", "and " + std::to_string(n - kMaxTolerances) + " more");
  if (!run.later().empty()) text += row("later", code(later_text(run.later())));
  return text + row("more", code(more_command(database, run)));
}

int severity(const GatedRun& run) {
  const int status = exit_of_verdict(run.answer());
  return status == kExitFail ? 0 : status == kExitNoVerdict ? 1 : 2;
}

}  // namespace

std::string gate_markdown(const std::string& database, GatedRuns& runs, int status) {
  std::vector<GatedRun*> sorted;
  for (const auto& run : runs) sorted.push_back(run.get());
  std::stable_sort(sorted.begin(), sorted.end(), [](const GatedRun* a, const GatedRun* b) {
    return severity(*a) < severity(*b);
  });
  std::string text = kMarkdownStart + answer_of_status(status) + "\n\n";
  if (sorted.size() > 1) {
    text += "| answer | run | since its baseline | waived |\n|---|---|---|---|\n";
    for (size_t i = 0; i < std::min(sorted.size(), kMaxRuns); ++i) {
      const GatedRun& run = *sorted[i];
      text += "| " + run.answer() + " | " + code(run.name()) + " | " +
              (run.has_baseline() ? run.row().text("change") : "no baseline") + " | " +
              std::to_string(run.waived_pairs(run.gate()) + run.waived_rows(run.gate())) + " |\n";
    }
    if (sorted.size() > kMaxRuns) {
      size_t fails = 0, open = 0;
      for (size_t i = kMaxRuns; i < sorted.size(); ++i) {
        fails += severity(*sorted[i]) == 0 ? 1 : 0;
        open += severity(*sorted[i]) == 1 ? 1 : 0;
      }
      std::string of_these = fails > 0 ? std::to_string(fails) + " FAIL" : "";
      if (open > 0) {
        of_these += (of_these.empty() ? "" : ", ") + std::to_string(open) + " without a verdict";
      }
      text +=
          "| " + of_these + " | and " + std::to_string(sorted.size() - kMaxRuns) + " more | | |\n";
    }
    text += "\n";
  }
  if (!sorted.empty()) text += block(database, *sorted.front());
  return text;
}

}  // namespace greta
