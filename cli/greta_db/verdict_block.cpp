#include <cstdio>

#include "cli/greta_db/judged_run.h"
#include "cli/warehouse/origin.h"
#include "common/shell_word.h"

namespace greta {
namespace {

/// Readouts that double arithmetic refutes.
int64_t refuted_readouts(QueryPool& statements, int64_t run_id) {
  RunQuery query(statements, run_id, "SELECT count(*) FROM refuted_readout WHERE run_id = ?");
  query.step();
  return query.integer(0);
}

/// Pairs by what they are, then what fails or is left without being one.
std::string counts_of(QueryPool& statements, const JudgedRow& row) {
  const RunVerdict& v = row.verdict;
  const int64_t failing = v.number("pairs") - v.number("pass") - v.number("incomparable");
  const int64_t no_pairs = v.number("fail") - failing;
  const int64_t refuted = no_pairs > 0 ? refuted_readouts(statements, row.run.id) : 0;
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
  if (alone > 0) text += ", " + counted(alone, "row") + " without partner not finite";
  if (refuted > 0) text += ", " + counted(refuted, "readout") + " refuted";
  if (v.number("unmet") > 0) text += ", " + v.show("unmet") + " lacking";
  if (const int64_t nowhere = rows_at_no_position(statements, row.run.id); nowhere > 0) {
    text += "; " + counted(nowhere, "row") + " at no position, compared with nothing";
  }
  return text;
}

/// Why a run is not whole, and what to do about it.
std::string lacks(QueryPool& statements, int64_t run_id, const RunVerdict& v) {
  RunQuery query(statements, run_id, "SELECT incomplete_why FROM run_state WHERE run_id = ?");
  query.step();
  std::string why = query.text(0);
  if (v.number("ingest_open") > 0) {
    why += ": greta-db ingest --resume finishes one that was interrupted";
  } else if (v.number("rejected") > 0) {
    why += "; all of it: greta-db query ingest_errors";
  }
  return why;
}

/// The next step for the reader, or a fact; "" when the verdict speaks for itself.
std::string hint(QueryPool& statements, const JudgedRow& row) {
  const RunVerdict& v = row.verdict;
  const Headline& head = row.head;
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
  if (head.verdict == "INCOMPLETE") return lacks(statements, row.run.id, v);
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
void print_breakdown(Output& out, QueryPool& statements, const JudgedRow& row) {
  const bool numeric = row.head.gate == Gate::kNumeric;
  RunQuery breakdown = breakdown_of(statements, row.run.id);
  std::vector<std::string> columns{"cause", "count", "percent"};
  if (numeric) columns.push_back("beyond rounding");
  RowPrinter table(out, Format::kTable, columns);
  table.set_indent("  ");
  while (breakdown.step()) {
    if (table.rows() == 0) out.write("\n");
    char percent[32];
    std::snprintf(percent, sizeof percent, "%6.2f %%", breakdown.cell(2).real);
    std::vector<Cell> cells{breakdown.cell(0), breakdown.cell(1), Cell(percent)};
    if (numeric) cells.push_back(breakdown.cell(3));
    table.row(cells);
  }
  if (table.rows() > 0) table.finish();
}

/// "CAUSE LAYER TENSOR" of columns that begin with `of`, where that is not `shown`.
std::string other_fail(const RunVerdict& prompt, const std::string& cause, const std::string& of,
                       const std::string& shown) {
  if (!prompt.has(cause)) return "";
  const std::string text =
      prompt.text(cause) + " " + prompt.show(of + "layer") + " " + prompt.show(of + "tensor");
  return text == shown ? "" : text;
}

/// Prints the first failure of every prompt, with its origin if that is known.
void print_prompts(Output& out, QueryPool& statements, const JudgedRow& judged) {
  const bool numeric = judged.head.gate == Gate::kNumeric;
  RowPrinter table(out, Format::kTable,
                   {"prompt", "first fail", "layer", "tensor", "pos", "token", "origin",
                    "first drift", "beyond rounding", "strictly", "details"});
  table.set_indent("  ");
  table.hide_empty_columns();
  RunQuery row = first_fails(statements, judged.run.id);
  while (row.step()) {
    if (table.rows() == 0) out.write("\n");
    const RunVerdict prompt(row);
    const std::string shown = other_fail(prompt, "first_fail", "", "");
    const std::string drift =
        numeric ? "" : other_fail(prompt, "first_drift_cause", "first_drift_", shown);
    const std::string beyond = other_fail(prompt, "numeric_first_fail", "numeric_", shown);
    const std::string strictly = other_fail(prompt, "strict_first_fail", "strict_", shown);
    table.row({prompt.cell("prompt"), prompt.cell("first_fail"), prompt.cell("layer"),
               prompt.cell("tensor"), prompt.cell("pos_id"), prompt.cell("token_id"),
               numeric ? prompt.cell("numeric_origin") : Cell(), or_null(drift), or_null(beyond),
               or_null(strictly), prompt.cell("details")});
  }
  if (table.rows() > 0) table.finish();
}

/// Adds a verdict, where it first fails and, of the one that leads, why.
void add_verdict(FactList& facts, QueryPool& statements, const JudgedRow& row, Gate asked) {
  const Headline& head = row.head;
  const FailPlace& fail = head.fail;
  const auto more = [&facts](const std::string& text) {
    if (!text.empty()) facts.add("", text);
  };
  facts.add(gate_name(asked),
            verdict_word(head.verdict, "") + (fail.cause.empty() ? "" : ": " + fail_text(fail)));
  if (!fail.cause.empty()) {
    const Origin origin = origin_at(statements, row.run.id, fail, head.gate);
    more(origin.difference);
    more(origin.text());
    for (const PairFinding& one : pair_findings(statements, row.run.id, fail.tensor, fail.layer))
      more("looks like " + one.text(kEnglishWords));
    const bool open = origin.kind == "UNSAMPLED" || origin.kind == "PROPAGATED";
    if (!fail.root_cause.empty())
      more("root cause " + fail.root_cause + (open ? ", if it arises here" : ""));
  }
  Line other = verdict_word(head.other, "");
  if (!head.other_fail.cause.empty()) other += ": " + fail_text(head.other_fail);
  if (!head.excuse.empty()) other += " (" + head.excuse + ")";
  facts.add(gate_name(head.other_gate()), other);
}

}  // namespace

void print_block(Output& out, QueryPool& statements, const JudgedRow& row, Gate asked,
                 const std::string& later) {
  const RunVerdict& v = row.verdict;
  const Headline& head = row.head;
  FactList facts;
  std::string what;
  for (auto [label, key] : {std::pair{"", "date"},
                            {"commit ", "commit_sha"},
                            {"mode ", "mode"},
                            {"experiment ", "experiment"}}) {
    if (v.has(key)) what += (what.empty() ? "" : ", ") + std::string(label) + v.show(key);
  }
  facts.add("run", what);
  if (!later.empty()) facts.add("later", later);
  add_verdict(facts, statements, row, asked);
  facts.add("pairs", counts_of(statements, row));
  facts.add("evidence", v.show("evidence") + ", coverage " + v.show("coverage"));
  for (const AppliedWaiver& waiver : applied_waivers(statements, row.run.id)) {
    facts.add("waived", waiver_text(waiver, kEnglishWords) + ", which `greta-db gate` leaves out");
  }
  if (v.number("rejected") > 0) {
    facts.add("rejected",
              v.show("rejected") + " of its lines and files, such as: " + v.show("rejected_why"));
  }
  if (const std::string next = hint(statements, row); !next.empty()) facts.add("hint", next);
  const Line headline = verdict_word(head.verdict, "") +
                        with_unjudged_texts(head.text(), v).substr(head.verdict.size());
  print_terminal({Heading{2, v.text("run") + "  " + headline}, std::move(facts)}, out);
  if (head.verdict == "PASS") return;
  if (head.gate == Gate::kNumeric && v.number("rounding") > 0)
    out.write("\n  what differs, rounding included:\n");
  print_breakdown(out, statements, row);
  print_prompts(out, statements, row);
}

}  // namespace greta
