#include <cstdio>

#include "cli/greta_db/judged_run.h"
#include "cli/report/waiver_text.h"
#include "common/shell_word.h"
#include "common/utf8.h"

namespace greta {
namespace {

void line(Output& out, std::string_view label, const std::string& text) {
  std::string start = "  " + std::string(label);
  start.resize(12, ' ');
  out.write(start + text + "\n");
}

std::string some(int64_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

/// Pairs by what they are, then what fails or is left without being one.
std::string counts(const JudgedRun& run) {
  const RunVerdict& v = run.verdict;
  const int64_t failing = v.number("pairs") - v.number("pass") - v.number("incomparable");
  const int64_t no_pairs = v.number("fail") - failing;
  const int64_t refuted = no_pairs > 0 ? run.queries.refuted(run.run_id) : 0;
  const int64_t alone = no_pairs - refuted, nonfinite = v.number("nonfinite") - alone;
  std::string text =
      v.show("pairs") + ": " + v.show("pass") + " pass, " + std::to_string(failing) + " fail";
  if (v.number("rounding") + v.number("divergent") + nonfinite + v.number("unmeasured") > 0) {
    text += " (" + v.show("rounding") + " rounding, " + v.show("divergent") + " divergent, ";
    if (nonfinite > 0) text += std::to_string(nonfinite) + " not finite, ";
    text += v.show("unmeasured") + " not measurable)";
  }
  if (v.number("incomparable") > 0) text += ", " + v.show("incomparable") + " incomparable";
  text += "; " + v.show("missing") + " missing, " + v.show("decode_only") + " decode only";
  if (v.number("prefill_only") > 0) text += ", " + v.show("prefill_only") + " prefill only";
  if (alone > 0) text += ", " + some(alone, "row") + " without partner not finite";
  if (refuted > 0) text += ", " + some(refuted, "readout") + " refuted";
  if (v.number("unmet") > 0) text += ", " + v.show("unmet") + " declared rows not there";
  return text;
}

/// What the reader should do or know next; "" when the verdict speaks for itself.
std::string hint(const RunVerdict& v, const Headline& head) {
  const std::string run = shell_word(v.text("run"));
  if (head.verdict == "NO_EVIDENCE") {
    if (v.number("claimed") > 0) {
      return "documents alone state these pairs: what they claim can fail a run and not pass it";
    }
    if (v.text("evidence") == "none") {
      return "nothing was compared: the run has no trace rows and no table of verdicts";
    }
    if (v.number("decode_only") > 0) {
      return "nothing was compared: no prefill row lies at a position that decode traced; trace "
             "prefill_last and decode0 of the same token";
    }
    return "nothing was compared: one side was not traced, or its positions are unknown";
  }
  if (v.number("missing") > 0) {
    return "rows without a partner: greta-db pairs --run " + run + " --status MISSING";
  }
  if (head.verdict == "INCOMPLETE" && v.number("ingest_open") > 0) {
    return "an ingest of its files has not ended: greta-db ingest --resume finishes one that was "
           "interrupted";
  }
  if (head.verdict == "INCOMPLETE" && v.text("status") != "running" &&
      v.text("status") != "failed" && v.number("unmet") == 0) {
    return "what was not taken could be where it fails: greta-db query ingest_errors";
  }
  if (head.verdict == "INCOMPLETE") {
    return v.number("unmet") > 0 ? "rows that the run declares are not there"
                                 : "the run never finished (status " + v.show("status") + ")";
  }
  if (head.verdict == "INCOMPARABLE" && v.number("incomparable") == 0) {
    return v.number("claimed") > 0 ? "some of these rows only a document states"
                                   : "a report lists failures that the rows do not show: greta-db "
                                     "query claims_without_evidence, view report_conflict";
  }
  if (head.verdict == "INCOMPARABLE") {
    return "pairs that nothing decides: greta-db pairs --run " + run + " --status INCOMPARABLE";
  }
  if (head.verdict == "PASS" && v.number("rounding") > 0) {
    return "what differs, and by how much: greta-db pairs --run " + run + " --class ROUNDING";
  }
  if (head.verdict == "FAIL" && v.number("unmeasured") > 0 && v.number("divergent") == 0) {
    return "rounding or a bug? nothing measures these differences: trace samples or sketches";
  }
  return "";
}

/// How often each cause; how often beyond rounding, too, where the numeric verdict leads.
void print_breakdown(Output& out, RunQuery breakdown, Gate gate) {
  bool any = false;
  std::vector<std::string> columns{"cause", "count", "percent"};
  if (gate == Gate::kNumeric) columns.push_back("beyond rounding");
  RowPrinter table(out, Format::kTable, columns);
  table.set_indent("  ");
  while (breakdown.step()) {
    if (!any) out.write("\n");
    any = true;
    char percent[32];
    std::snprintf(percent, sizeof percent, "%6.2f %%", breakdown.cell(2).real);
    std::vector<Cell> cells{breakdown.cell(0), breakdown.cell(1), Cell(percent)};
    if (gate == Gate::kNumeric) cells.push_back(breakdown.cell(3));
    table.row(cells);
  }
  if (any) table.finish();
}

/// "CAUSE LAYER TENSOR", "" of no failure.
std::string short_text(const FailPlace& place) {
  if (place.cause.empty()) return "";
  return place.cause + " " + display_text(or_null(place.layer)) + " " +
         display_text(or_null(place.tensor));
}

/// Where every prompt first fails by the verdict that leads, and what is known of its origin.
void print_prompts(Output& out, const JudgedRun& run) {
  const bool numeric_leads = run.head.gate == Gate::kNumeric;
  RowPrinter table(out, Format::kTable,
                   {"prompt", "first fail", "layer", "tensor", "pos", "token", "origin",
                    "first drift", "beyond rounding", "strictly", "details"});
  table.set_indent("  ");
  table.hide_empty_columns();
  RunQuery row = run.by_prompt();
  while (row.step()) {
    if (table.rows() == 0) out.write("\n");
    const FailPlace strict = prompt_fail(row, Gate::kStrict);
    const FailPlace numeric = prompt_fail(row, Gate::kNumeric);
    const FailPlace& first = leading_fail(run.head.gate, strict, numeric);
    const bool is_strict = first == strict;
    const Origin origin = numeric_leads ? run.origin(first, run.head.gate) : Origin();
    FailPlace drift = strict;
    drift.cause = row.text(11);
    drift.tensor = row.text(10);
    drift.layer = row.is_null(9) ? std::nullopt : std::optional(row.integer(9));
    const std::string shown = short_text(first);
    auto unless_shown = [&shown](const FailPlace& place) {
      const std::string text = short_text(place);
      return text == shown ? "" : text;
    };
    const std::string drift_text = numeric_leads ? "" : unless_shown(drift);
    const std::string numeric_text = unless_shown(numeric);
    const std::string strict_text = unless_shown(strict);
    const std::string details = is_strict ? row.text(8) : origin.difference;
    table.row({row.cell(1), or_null(first.cause), or_null(first.layer), or_null(first.tensor),
               or_null(first.pos), row.cell(2), or_null(origin.kind), or_null(drift_text),
               or_null(numeric_text), or_null(strict_text), or_null(details)});
  }
  if (table.rows() > 0) table.finish();
}

/// What the rows of the prompt's first pair that leads look like.
void print_findings(Output& out, const JudgedRun& run, const std::string& prompt) {
  for (RunQuery row = run.diagnosis(prompt); row.step();) {
    line(out, "",
         "looks like " + row.text(3) + ": " + utf8::printable(row.text(4)) + " (" + row.text(5) +
             ")");
  }
}

/// The verdict of one gate, where it fails and, of the one that leads, why.
void print_verdict(Output& out, const JudgedRun& run, Gate gate) {
  const Headline& head = run.head;
  const bool leads = gate == head.gate;
  const FailPlace& fail = leads ? head.fail : head.other_fail;
  std::string text = colored(out, leads ? head.verdict : head.other);
  if (!fail.cause.empty()) text += ": " + fail_text(fail);
  if (!leads && !head.expectation.empty()) text += " (" + head.expectation + ")";
  line(out, gate_name(gate), text);
  if (!leads || fail.cause.empty()) return;
  const Origin origin = run.origin(fail, gate);
  if (!origin.difference.empty()) line(out, "", origin.difference);
  if (!origin.text().empty()) line(out, "", origin.text());
  if (run.is_described()) print_findings(out, run, fail.prompt);
  if (fail.root_cause.empty()) return;
  const bool open = origin.kind == "UNSAMPLED" || origin.kind == "PROPAGATED";
  line(out, "",
       "root cause " + utf8::printable(fail.root_cause) + (open ? ", if it arises here" : ""));
}

}  // namespace

void print_block(Output& out, const JudgedRun& run, const std::string& later) {
  const RunVerdict& v = run.verdict;
  const Headline& head = run.head;
  out.write(v.show("run") + "  " + colored(out, head.verdict) +
            (head.remark.empty() ? "" : " " + head.remark) + "\n");
  std::string what;
  for (auto [label, key] : {std::pair{"", "date"},
                            {"commit ", "commit_sha"},
                            {"mode ", "mode"},
                            {"experiment ", "experiment"}}) {
    if (v.has(key)) what += (what.empty() ? "" : ", ") + std::string(label) + v.show(key);
  }
  line(out, "run", what);
  if (!later.empty()) line(out, "later", later);
  print_verdict(out, run, head.gate);
  print_verdict(out, run, head.other_gate());
  line(out, "pairs", counts(run));
  line(out, "evidence", v.show("evidence") + ", coverage " + v.show("coverage"));
  for (const AppliedWaiver& waiver : run.queries.waivers(run.run_id)) {
    line(out, "waived", waiver_text(waiver, kEnglishWords) + ", which `greta-db gate` leaves out");
  }
  if (v.number("rejected") > 0) {
    line(out, "rejected",
         v.show("rejected") + " of its lines and files, such as: " + v.show("rejected_why"));
  }
  std::string next = hint(v, head);
  if (!next.empty()) line(out, "hint", next);
  if (!run.fails() || head.verdict == "PASS") return;
  if (head.gate == Gate::kNumeric && v.number("rounding") > 0) {
    out.write("\n  what differs, rounding included:\n");
  }
  print_breakdown(out, run.breakdown(), head.gate);
  print_prompts(out, run);
}

}  // namespace greta
