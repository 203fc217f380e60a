#include "cli/show/findings.h"

#include <algorithm>
#include <iterator>

#include "cli/show/block.h"
#include "cli/show/texts_of_findings.h"

namespace greta {
namespace {

constexpr const char* kColumns =
    "side, other_side, tensor, other_tensor, at, other_at, count, of_count, value, distance,"
    " finding, unit, prompt, layer, meaning";
enum FindingColumn {
  kSide,
  kTensor = 2,
  kOtherTensor,
  kAt,
  kCount = 6,
  kOfCount,
  kValue,
  kDistance,
  kFinding,
  kUnit,
  kPrompt,
  kLayer,
  kMeaning
};

/// The finding, or the case of it that a row is.
std::string case_of(const Query& row) {
  const std::string name = row.text(kFinding);
  if (name == "UNSTABLE" && row.is_null(kOfCount)) return name + ".rows";
  if (name == "ALL_NAN" && row.is_null(kSide)) return name + ".both";
  if (name == "OTHER_POSITION" && !row.is_null(kOtherTensor)) return name + ".tensor";
  if (name == "ROUNDING" && row.is_null(kDistance)) return name + ".bits";
  if (name == "UNRELATED" && row.cell(kDistance).real <= 0.9) return name + ".little";
  return name == "ONSET" ? name + "." + row.text(kUnit) : name;
}

/// Key of the case of an ONSET finding; "" for others.
std::string onset_of(const Query& row) {
  if (row.text(kFinding) != "ONSET") return "";
  if (!row.is_null(kOfCount)) return "ONSET.batch";
  if (row.is_null(kCount)) return "";
  return row.integer(kAt) % row.integer(kCount) == 0 ? "ONSET.block" : "ONSET.behind";
}

/// Adds a sentence in both languages.
void say(PairFinding& finding, const std::string& id, const TextValues& values) {
  const auto text = std::find_if(std::begin(kTextsOfFindings), std::end(kTextsOfFindings),
                                 [&](const ReportText& one) { return one.id == id; });
  if (text == std::end(kTextsOfFindings)) return;
  finding.english += fill_text(text->en, values).text();
  finding.spanish += fill_text(text->es, values).text();
}

void add_evidence(PairFinding& finding, const Query& row) {
  TextValues values;
  for (int i = 0; i <= kDistance; ++i) {
    const Cell cell = row.cell(i);
    values.emplace_back(i == kValue      ? real_text(cell.real, "%.6g")
                        : i == kDistance ? real_text(cell.real, "%.2g")
                                         : plain_text(cell));
  }
  if (!finding.english.empty()) say(finding, "AND", values);
  say(finding, case_of(row), values);
  say(finding, onset_of(row), values);
}

}  // namespace

std::vector<PairFinding> pair_findings(QueryPool& statements, int64_t run_id,
                                       const std::optional<std::string>& prompt) {
  RunQuery row(statements, run_id,
               std::string("SELECT ") + kColumns + " FROM diagnosis WHERE run_id = ?1" +
                   (prompt ? " AND prompt = ?2" : "") + " ORDER BY prompt_id, ord, finding, unit");
  if (prompt) row.bind(2, *prompt);
  std::vector<PairFinding> findings;
  while (row.step()) {
    PairFinding finding{
        .prompt = row.text(kPrompt),
        .tensor = row.text(kTensor),
        .name = row.text(kFinding),
        .layer = row.is_null(kLayer) ? std::nullopt : std::optional(row.integer(kLayer)),
        .english = {},
        .spanish = {},
        .english_meaning = row.text(kMeaning),
        .spanish_meaning = row.text(kMeaning)};
    // positions and lengths of prompts are one finding
    const bool again = !findings.empty() && findings.back().name == finding.name &&
                       findings.back().prompt == finding.prompt;
    if (again) {
      add_evidence(findings.back(), row);
      continue;
    }
    for (const FindingMeaning& one : kSpanishMeanings) {
      if (one.name == finding.name) finding.spanish_meaning = one.spanish;
    }
    add_evidence(finding, row);
    findings.push_back(std::move(finding));
  }
  return findings;
}

}  // namespace greta
