#include "tests/queries/harm/row_choice.h"

namespace greta::harm {
namespace {

bool state_more_rows(Harm& harm, Random& random, Via) {
  if (harm.run.status == "running") return false;  // says so when it ends
  if (harm.run.status == "unknown") harm.run.status = "complete";
  harm.run.stated_rows = static_cast<int64_t>(harm.run.rows.size() + 1 + random.below(3));
  harm.promise = Promise::kNoPass;
  return true;
}

bool plan_more(Harm& harm, Random& random, Via) {
  harm.run.plan.push_back({"p0", static_cast<int>(random.below(2)), 7, "wo_out"});
  harm.promise = Promise::kNoPass;
  return true;
}

bool fail_run(Harm& harm, Random&, Via) {
  harm.run.status = "failed";
  harm.promise = Promise::kNoPass;
  return true;
}

bool leave_running(Harm& harm, Random&, Via) {
  harm.run.status = "running";
  harm.run.stated_rows.reset();
  harm.promise = Promise::kNoPass;
  return true;
}

bool reject_line(Harm& harm, Random& random, Via) {
  harm.run.rejected.push_back(
      random.of(std::vector<std::string>{R"({"event":"stage_trace","poi)", "no line of ours",
                                         R"({"event":"stage_trace","layer":1})"}));
  harm.promise = Promise::kNoPass;
  return true;
}

bool open_ingest(Harm& harm, Random&, Via) {
  harm.run.ingest_open = true;
  harm.promise = Promise::kNoPass;
  return true;
}

bool claim_pass(Harm& harm, Random&, Via) {
  harm.run.documents.push_back({.verdict = "PASS"});
  harm.promise = Promise::kSame;
  return true;
}

/// Of a run without rows one table is the evidence: another one may take its place, whatever it
/// says.
bool tables_are_evidence(const ToldRun& run) { return run.rows.empty(); }

bool claim_fail(Harm& harm, Random&, Via) {
  harm.run.documents.push_back({.verdict = "FAIL"});
  return true;
}

bool list_matches(Harm& harm, Random& random, Via) {
  if (tables_are_evidence(harm.run)) return false;
  ToldDocument document;
  if (random.one_in(2)) document.verdict = "PASS";
  for (int64_t layer = 0; layer < 9; ++layer) {
    document.table.push_back(
        {.prompt = "p0", .layer = layer, .tensor = "attn_out", .status = "MATCH", .pos_id = 3});
  }
  harm.run.documents.push_back(document);
  harm.promise = Promise::kSame;
  return true;
}

bool list_failures(Harm& harm, Random& random, Via) {
  if (tables_are_evidence(harm.run)) return false;
  const std::string status = random.one_in(2) ? "DRIFT" : "MISSING";
  harm.run.documents.push_back(
      {.table = {
           {.prompt = "p0", .layer = 0, .tensor = "attn_out", .status = status, .pos_id = 3}}});
  return true;
}

bool compute_finer(Harm& harm, Random& random, Via) {
  if (harm.run.dtype == "f32" || harm.run.dtype == "fp32") return false;
  harm.run.dtype = random.one_in(2) ? "f32" : "fp32";
  return true;
}

}  // namespace

std::vector<Edit> fact_edits() {
  return {{"state more rows", state_more_rows},
          {"plan more", plan_more},
          {"mark the run failed", fail_run},
          {"leave the run running", leave_running},
          {"add a line that nobody can read", reject_line},
          {"leave the ingest open", open_ingest},
          {"claim PASS in a document", claim_pass},
          {"claim FAIL in a document", claim_fail},
          {"list matches in a document", list_matches},
          {"list failures in a document", list_failures},
          {"compute in a finer dtype", compute_finer}};
}

}  // namespace greta::harm
