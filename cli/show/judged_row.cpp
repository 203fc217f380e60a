#include "cli/show/judged_row.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "common/json_text.h"
#include "db/schema.h"

namespace greta {
namespace {

RunVerdict run_verdict_of(QueryPool& statements, const Run& run) {
  RunQuery query = verdict_query(statements, run.id);
  if (!query.step()) throw std::logic_error("no verdict of run " + run.name);
  return RunVerdict(query);
}

}  // namespace

JudgedRow::JudgedRow(QueryPool& statements, const Run& of, Gate asked)
    : run(of), verdict(run_verdict_of(statements, of)), head(verdict, asked) {}

JudgedRows judged_rows(QueryPool& statements, const std::vector<Run>& runs) {
  JudgedRows rows;
  for (const Run& run : runs) rows.push_back(std::make_unique<JudgedRow>(statements, run));
  return rows;
}

std::string remark_text(const std::string& remark, const std::string& mode, const Wording& words) {
  const ReportText* text = find_report_text("remark." + remark);
  const ReportText* of_mode = find_report_text("remark." + remark + ".mode");
  if (of_mode && !mode.empty()) return words.line({*of_mode, {mode}}).text();
  return text ? words.line(*text).text() : remark;
}

Line headline_of(const std::string& verdict, const std::string& remark, const std::string& mode,
                 const Wording& words) {
  Line line = verdict_word(verdict, "");
  if (!remark.empty()) line += " " + remark_text(remark, mode, words);
  return line;
}

FailKind fail_kind(std::string_view verdict, std::string_view cause, Gate gate,
                   std::string_view other) {
  if (verdict != "FAIL") return FailKind::kNone;
  if (cause == "TRACE_OFFSET") return FailKind::kUnpaired;
  // nothing measures the difference: the numeric verdict is open, and the strict one leads
  const bool open = gate == Gate::kStrict && other != "PASS" && other != "FAIL";
  return open ? FailKind::kUnmeasured : FailKind::kValues;
}

FailKind fail_kind(const Headline& head) {
  return fail_kind(head.verdict, head.fail.cause, head.gate, head.other);
}

Line verdict_badge(const std::string& verdict, FailKind kind, const Wording& words) {
  switch (kind) {
    case FailKind::kValues:
      return verdict_word(verdict, "bad values");
    case FailKind::kUnmeasured:
      return verdict_word(verdict, "bad unmeasured") + " " + soft(words("fail.unmeasured"));
    case FailKind::kUnpaired:
      return verdict_word(verdict, "bad unpaired") + " " + soft(words("fail.unpaired"));
    case FailKind::kNone:
      break;
  }
  const Severity severity = meaning_of(verdict).severity;
  return verdict_word(verdict, severity == Severity::kGood  ? "good"
                               : severity == Severity::kBad ? "bad"
                                                            : "open");
}

Line verdict_badge(const Headline& head, const Wording& words) {
  Line line = verdict_badge(head.verdict, fail_kind(head), words);
  if (!head.remark.empty()) line += " " + soft(remark_text(head.remark, head.mode, words));
  return line;
}

Look look_of(Severity severity) {
  const char* looks[] = {"o", "m", "r2", "u", "f2"};
  return looks[static_cast<size_t>(severity)];
}

std::string counts_text(const std::map<std::string, size_t>& numbers) {
  std::string text;
  for (const auto& [verdict, n] : numbers) {
    text += (text.empty() ? "" : ", ") + std::to_string(n) + " " + verdict;
  }
  return text;
}

std::string counts_text(const JudgedRows& rows) {
  std::map<std::string, size_t> numbers;
  for (const auto& row : rows) ++numbers[row->head.verdict];
  return counts_text(numbers);
}

std::string layer_name(const std::optional<int64_t>& layer, const Wording& words) {
  if (!layer) return words("not_recorded");
  return *layer < 0 ? words("page.head") : std::to_string(*layer);
}

std::string place_text(const FailPlace& place, const Wording& words) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (place.layer) add(words("place.layer", {std::to_string(*place.layer)}));
  if (!place.tensor.empty()) add(place.tensor);
  if (!place.prompt.empty()) add(words("place.prompt", {place.prompt}));
  if (place.pos) add(words("place.pos", {std::to_string(*place.pos)}));
  return text.empty() ? words("place.none") : text;
}

std::string fail_text(const FailPlace& place, const Wording& words) {
  return place.cause.empty() ? "-" : place.cause + " (" + place_text(place, words) + ")";
}

// ---- Findings.
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
  if (name == "MISSING_WEIGHT" && row.is_null(kOtherTensor))
    return name + (row.is_null(kSide) ? ".bias" : ".norm");
  if (name == "FEW_VALUES" && row.is_null(kCount)) return name + ".most";
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
                                       const std::string& tensor, std::optional<int64_t> layer) {
  RunQuery row(statements, run_id,
               std::string("SELECT ") + kColumns + " FROM diagnosis WHERE run_id = ?1" +
                   (tensor.empty() ? "" : " AND tensor = ?2 AND layer = ?3") +
                   " ORDER BY layer < 0, layer, tensor, ord, finding, unit");
  if (!tensor.empty()) row.bind(2, tensor).bind(3, layer.value_or(-1));
  std::vector<PairFinding> findings;
  while (row.step()) {
    PairFinding finding{.prompt = row.text(kPrompt),
                        .tensor = row.text(kTensor),
                        .name = row.text(kFinding),
                        .layer = row.cell(kLayer).id(),
                        .english = {},
                        .spanish = {},
                        .english_meaning = row.text(kMeaning),
                        .spanish_meaning = row.text(kMeaning)};
    // positions and lengths of prompts are one finding
    const bool again = !findings.empty() && findings.back().name == finding.name &&
                       findings.back().layer == finding.layer &&
                       findings.back().tensor == finding.tensor;
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

// ---- Waivers.

std::string AppliedWaiver::json() const {
  JsonObject object;
  object.add("waiver", id).add("tensor", Cell(tensor)).add("layer", or_null(layer));
  object.add("pairs", pairs).add("divergent", divergent);
  if (rows > 0) object.add("rows", rows);
  object.add("until", Cell(until)).add("reason", Cell(reason)).add("created_by", Cell(created_by));
  return object.str();
}

std::vector<AppliedWaiver> applied_waivers(QueryPool& statements, int64_t run_id) {
  std::vector<AppliedWaiver> all;
  RunQuery run(statements, run_id, "SELECT w.run FROM run_waiver w WHERE w.run_id = ? LIMIT 1");
  if (!run.step()) return all;
  Query query(statements, sql_of_file("queries/canned/waived.sql"));
  query.bind(1, run.text(0));
  while (query.step()) {
    all.push_back({.id = query.integer(0),
                   .tensor = query.text(1),
                   .layer = query.cell(2).id(),
                   .pairs = query.integer(3),
                   .divergent = query.integer(4),
                   .rows = 0,
                   .until = query.text(5),
                   .reason = query.text(6),
                   .created_by = query.text(7)});
  }
  return all;
}

std::string waived_place(const AppliedWaiver& waiver, const Wording& words) {
  const std::string tensor = waiver.tensor;
  return waiver.layer ? words("waiver.place", {tensor, std::to_string(*waiver.layer)}) : tensor;
}

std::string waiver_text(const AppliedWaiver& waiver, const Wording& words) {
  std::string what;
  if (waiver.pairs > 0 || waiver.rows == 0) {
    what = words(waiver.pairs == 1 ? TextId("waiver.pair") : TextId("waiver.pairs"),
                 {std::to_string(waiver.pairs)});
  }
  if (waiver.divergent < waiver.pairs) {
    what += " (" + std::to_string(waiver.divergent) + " " + words("remark.beyond rounding") + ")";
  }
  if (waiver.rows > 0) {
    const TextId rows = waiver.rows == 1 ? TextId("waiver.row") : TextId("waiver.rows");
    if (!what.empty()) what += words("waiver.and");
    what += words(rows, {std::to_string(waiver.rows)});
  }
  return words("waiver.text", {what, waived_place(waiver, words), waiver.until, waiver.reason,
                               std::to_string(waiver.id), waiver.created_by});
}

}  // namespace greta
