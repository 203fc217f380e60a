// Random runs of every kind, before and after an edit: none passes against its evidence, and what
// tells the same is judged alike.
#include <map>

#include "tests/queries/harm/edit.h"
#include "tests/queries/harm/obstacle.h"

namespace greta::harm {
namespace {

/// What a warehouse says of a run.
struct Answer {
  std::string strict, numeric;
  std::string parts;  ///< the verdicts of the run and of its prompts, and where they first fail
};

struct Trial {
  uint64_t seed = 0;
  const Edit* edit = nullptr;
  ToldRun before = {}, after = {};
  Answer was = {}, is = {};
};

/// A run, and the edit, as a seed has it.
Trial make_trial(uint64_t seed) {
  Random random(seed);
  Trial trial{.seed = seed, .before = random_run(random)};
  do {
    trial.edit = &random.of(edits());
    trial.after = trial.before;
  } while (!trial.edit->apply(trial.after, random));
  return trial;
}

Answer answer_of(Warehouse& w, const std::string& run) {
  const std::string of_run =
      " FROM verdict v JOIN run r ON r.id = v.run_id WHERE r.name = '" + run + "' AND v.level ";
  return {w.kept("SELECT strict_verdict" + of_run + "= 'run'"),
          w.kept("SELECT numeric_verdict" + of_run + "= 'run'"),
          w.kept("SELECT v.item, v.strict_verdict, v.numeric_verdict, v.strict_first_fail,"
                 " v.strict_prompt, v.strict_layer, v.strict_tensor, v.strict_pos_id,"
                 " v.first_drift_cause, v.first_drift_layer, v.first_drift_tensor,"
                 " v.numeric_first_fail, v.numeric_prompt, v.numeric_layer, v.numeric_tensor" +
                 of_run + "IN ('run', 'prompt') ORDER BY v.item")};
}

/// Runs that are stored and judged together, which is faster.
std::vector<Trial> judged_trials(uint64_t first_seed, size_t n) {
  std::vector<Trial> trials;
  for (uint64_t seed = first_seed; seed < first_seed + n; ++seed)
    trials.push_back(make_trial(seed));
  Warehouse w;
  Teller teller(w);
  w.db.exec("BEGIN");
  for (size_t i = 0; i < n; ++i) {
    for (const auto& [name, run] :
         {std::pair("before", &trials[i].before), std::pair("after", &trials[i].after)}) {
      teller.tell(name + std::to_string(i), *run);
      if (run->ingest_open) open_an_ingest(w.db, w.current_run());
    }
  }
  w.db.exec("COMMIT");
  w.judge();
  for (size_t i = 0; i < n; ++i) {
    trials[i].was = answer_of(w, "before" + std::to_string(i));
    trials[i].is = answer_of(w, "after" + std::to_string(i));
  }
  return trials;
}

void expect_evidence(const ToldRun& run, const Answer& answer, const char* when) {
  for (const auto& [reading, verdict] :
       {std::pair(Reading::kStrict, answer.strict), std::pair(Reading::kNumeric, answer.numeric)}) {
    const std::string why = obstacle(run, reading);
    EXPECT_EQ(verdict == "PASS" ? why : "", "")
        << verdict << (reading == Reading::kStrict ? " strictly " : " numerically ") << when << "\n"
        << text_of(run);
  }
}

/// Seeds in parts, for these tests take longer than any other here.
class Harm : public testing::TestWithParam<uint64_t> {};

TEST_P(Harm, NoRunPassesAgainstItsEvidence) {
  constexpr size_t kTrials = 250;
  std::map<std::string, int> verdicts, kinds;
  for (const Trial& trial : judged_trials(GetParam() * kTrials, kTrials)) {
    SCOPED_TRACE("seed " + std::to_string(trial.seed) + ", " + trial.edit->name);
    expect_evidence(trial.before, trial.was, "before");
    expect_evidence(trial.after, trial.is, "after");
    if (trial.edit->tells_the_same) {
      EXPECT_EQ(trial.is.parts, trial.was.parts) << text_of(trial.before) << "\n"
                                                 << text_of(trial.after);
    }
    ++verdicts[trial.was.strict + " " + trial.was.numeric];
    ++kinds[trial.edit->name];
    if (HasFailure()) return;  // one is enough
  }
  for (const char* verdict :
       {"PASS PASS", "FAIL PASS", "FAIL FAIL", "FAIL INCOMPARABLE", "INCOMPLETE INCOMPLETE",
        "INCOMPARABLE INCOMPARABLE", "NO_EVIDENCE NO_EVIDENCE"}) {
    EXPECT_GT(verdicts[verdict], 0) << verdict;
  }
  EXPECT_GT(verdicts["PASS PASS"], 20);
  EXPECT_EQ(kinds.size(), edits().size());
}

INSTANTIATE_TEST_SUITE_P(Seeds, Harm, testing::Values<uint64_t>(0));
INSTANTIATE_TEST_SUITE_P(FurtherSeeds, Harm, testing::Range<uint64_t>(1, 40));

}  // namespace
}  // namespace greta::harm
