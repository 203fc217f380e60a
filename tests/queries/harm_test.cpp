// No harm done to the evidence of a run makes its verdict better. Random runs of every kind, each
// with a random harmful edit, judged before and after. PASS is above NO_EVIDENCE, INCOMPLETE and
// INCOMPARABLE, and these are above FAIL.
#include <algorithm>

#include "tests/queries/harm/court.h"
#include "tests/queries/harm/harmful_edit.h"
#include "tests/queries/harm/obstacle.h"

namespace greta::harm {
namespace {

int rank_of(const std::string& verdict) {
  return verdict == "PASS" ? 2 : verdict == "FAIL" ? 0 : 1;
}

/// A run before and after an edit, and what a warehouse says of both.
struct Trial {
  uint64_t seed = 0;
  const Edit* edit = nullptr;
  ToldRun before = {};
  Harm harm = {};
  Answer was = {}, is = {};
};

std::string name_before(size_t trial) { return "before" + std::to_string(trial); }
std::string name_after(size_t trial) { return "after" + std::to_string(trial); }

void judge(Court& court, std::vector<Trial>& trials, bool keeps) {
  std::vector<Asked> runs;
  for (size_t i = 0; i < trials.size(); ++i) {
    runs.push_back({name_before(i), &trials[i].before, &trials[i].was});
    runs.push_back({name_after(i), &trials[i].harm.run, &trials[i].is});
  }
  court.judge(runs, keeps);
}

/// Whether a verdict rose because rows may still come: an incomplete run that failed for want of
/// rows alone, none of which was elsewhere, may yet bring them.
bool waits(const Part& was, const Part& is, Reading reading) {
  const int64_t fail = reading == Reading::kStrict ? was.fail : was.beyond_rounding;
  return is.verdict(reading) == "INCOMPLETE" && fail == 0 && was.missing_elsewhere == 0;
}

/// Whether a verdict rose because rows differ by rounding now, which may be what a document means.
bool shows_what_is_said(const ToldRun& run, const Part& was, const Part& is, Reading reading) {
  return reading == Reading::kNumeric && a_document_fails_it(run) &&
         was.numeric == "INCOMPARABLE" && is.strict == "FAIL";
}

/// What is wrong with what a warehouse says of a trial.
class Review {
 public:
  Review(const Trial& trial, size_t index, Via via, Court& court)
      : trial_(trial), index_(index), via_(via), court_(court) {}

  /// "" when nothing is.
  std::string fault() {
    if (trial_.was.empty()) return "";
    if (trial_.is.empty()) return trial_.harm.loses_rows ? "" : "the run is gone";
    for (Reading reading : {Reading::kStrict, Reading::kNumeric}) {
      std::string fault = pass_against_the_evidence(reading);
      if (fault.empty()) fault = broken_promise(reading);
      if (fault.empty()) fault = rise(reading);
      if (!fault.empty())
        return fault + (reading == Reading::kStrict ? ", strictly" : ", numerically");
    }
    return "";
  }

 private:
  std::string pass_against_the_evidence(Reading reading) const {
    for (const auto& [run, answer] :
         {std::pair(&trial_.before, &trial_.was), std::pair(&trial_.harm.run, &trial_.is)}) {
      if (answer->at("").verdict(reading) != "PASS") continue;
      const std::string why = obstacle(*run, via_, reading);
      if (why.empty()) continue;
      return (run == &trial_.before ? "passed before, though " : "passes, though ") + why;
    }
    return "";
  }

  std::string broken_promise(Reading reading) const {
    const Promise promise = trial_.harm.promise;
    const Part& is = trial_.is.at("");
    const bool fails = promise == Promise::kFails ||
                       (promise == Promise::kFailsStrictly && reading == Reading::kStrict);
    if (fails && is.verdict(reading) != "FAIL") return "is " + is.verdict(reading);
    if (fails && trial_.is.at(trial_.harm.prompt).verdict(reading) != "FAIL")
      return "its prompt is " + trial_.is.at(trial_.harm.prompt).verdict(reading);
    if (promise == Promise::kNoPass && is.verdict(reading) == "PASS") return "passes";
    if (promise == Promise::kSame && first_fails(trial_.was) != first_fails(trial_.is))
      return "first fails elsewhere: " + first_fails(trial_.was) + "before, " +
             first_fails(trial_.is) + "now";
    const bool was_declared =
        trial_.before.stated_rows == static_cast<int64_t>(trial_.before.rows.size());
    if (trial_.harm.loses_rows && was_declared && is.verdict(reading) == "PASS")
      return "passes without rows that it wrote";
    return "";
  }

  static std::string first_fails(const Answer& answer) {
    std::string all;
    for (const auto& [prompt, part] : answer) all += prompt + ": " + part.first_fail + "; ";
    return all;
  }

  std::string rise(Reading reading) {
    for (const auto& [prompt, was] : trial_.was) {
      const auto is = trial_.is.find(prompt);
      if (is == trial_.is.end()) continue;  // nothing is said of it any more
      const std::string how = rise_of(prompt, was, is->second, reading);
      if (!how.empty())
        return (prompt.empty() ? "the run" : "prompt " + prompt) + how + ": " +
               was.verdict(reading) + " before, " + is->second.verdict(reading) + " now";
    }
    return "";
  }

  std::string rise_of(const std::string& prompt, const Part& was, const Part& is, Reading reading) {
    const Promise promise = trial_.harm.promise;
    const std::string& now = is.verdict(reading);
    if (promise == Promise::kSame || promise == Promise::kSameVerdict)
      return was.verdict(reading) == now ? "" : " has another verdict";
    if (rank_of(now) <= rank_of(was.verdict(reading)) || waits(was, is, reading) ||
        shows_what_is_said(trial_.harm.run, was, is, reading))
      return "";
    if (now == "PASS") {
      if (promise != Promise::kTakesApart) return " rose";
      if (!trial_.harm.loses_rows && court_.coverage(name_after(index_)) == "complete")
        return " rose, and nothing shows that pairs came apart";
    }
    for (const BadPair& bad : court_.bad_pairs(name_before(index_), reading)) {
      const Pairing& at = bad.at;
      if ((!prompt.empty() && at.prompt != prompt) || came_apart(bad, now)) continue;
      return " rose, though " + at.tensor + " of layer " + std::to_string(at.layer) + " at " +
             std::to_string(at.pos) + " was left as it was";
    }
    return "";
  }

  bool came_apart(const BadPair& bad, const std::string& now) const {
    const Harm& harm = trial_.harm;
    if (harm.apart.contains(bad.at)) return true;
    if (now != "PASS" && !bad.fails) return true;
    if (bad.status != "MISSING") return false;
    // of an incomplete run a row may be missing, if it is nowhere else
    return harm.undemanded.contains({bad.at.prompt, bad.at.pos}) ||
           (now == "INCOMPLETE" && trial_.is.at(bad.at.prompt).missing_elsewhere == 0);
  }

  const Trial& trial_;
  size_t index_;
  Via via_;
  Court& court_;
};

/// A run, and the harm done to it, as a seed has it.
Trial make_trial(uint64_t seed, Via via) {
  Random random(seed);
  Trial trial{.seed = seed, .before = random_run(random)};
  do {
    trial.edit = &random.of(edits());
    trial.harm = {.run = trial.before};
  } while (!trial.edit->apply(trial.harm, random, via));
  return trial;
}

/// The same edit of other runs, until one shows a fault; false when none does.
bool find_fault(Trial& trial, Via via, std::string& fault) {
  for (uint64_t seed = 0; seed < 16; ++seed) {
    Random random(seed);
    trial.harm = {.run = trial.before};
    if (!trial.edit->apply(trial.harm, random, via)) continue;
    std::vector<Trial> one = {trial};
    Court court(via);
    judge(court, one, false);
    const std::string found = Review(one[0], 0, via, court).fault();
    if (found.empty()) continue;
    fault = found;
    return true;
  }
  return false;
}

/// Fewer rows that show a fault of the same edit.
Trial smallest(Trial trial, Via via, std::string& fault) {
  for (size_t rows : {4, 2, 1}) {
    for (size_t i = 0; i + rows <= trial.before.rows.size();) {
      Trial fewer{.seed = trial.seed, .edit = trial.edit, .before = trial.before};
      const auto begin = fewer.before.rows.begin() + static_cast<ptrdiff_t>(i);
      fewer.before.rows.erase(begin, begin + static_cast<ptrdiff_t>(rows));
      if (!find_fault(fewer, via, fault)) {
        i += rows;
        continue;
      }
      trial = fewer;
    }
  }
  return trial;
}

constexpr size_t kAtOnce = 250;

void expect_no_harm_to_help(Via via, uint64_t first_seed, size_t trials) {
#if defined(__SANITIZE_ADDRESS__)
  trials /= 5;  // each takes ten times as long
#endif
  std::map<std::string, int> faults;
  for (size_t done = 0; done < trials; done += kAtOnce) {
    std::vector<Trial> batch;
    for (size_t i = 0; i < std::min(kAtOnce, trials - done); ++i)
      batch.push_back(make_trial(first_seed + done + i, via));
    Court court(via);
    judge(court, batch, done == 0);
    for (size_t i = 0; i < batch.size(); ++i) {
      std::string fault = Review(batch[i], i, via, court).fault();
      if (fault.empty() || faults[batch[i].edit->name]++ > 0) continue;
      const Trial small = smallest(batch[i], via, fault);
      ADD_FAILURE() << "seed " << batch[i].seed << ", " << small.edit->name << ": " << fault << "\n"
                    << script_of_change(small.before, small.harm.run);
    }
  }
  for (const auto& [edit, count] : faults) ADD_FAILURE() << edit << ": " << count << " faults";
}

/// Seeds in parts, for these tests take longer than any other here.
class Harm : public testing::TestWithParam<uint64_t> {};

TEST_P(Harm, RaisesNoVerdictOfRowsThatAnEngineWrites) {
  expect_no_harm_to_help(Via::kWriter, GetParam() * 10'000, 1'700);
}

TEST_P(Harm, RaisesNoVerdictOfFilesThatAreIngested) {
  expect_no_harm_to_help(Via::kFiles, 1'000'000 + GetParam() * 10'000, 300);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Harm, testing::Values<uint64_t>(0));
INSTANTIATE_TEST_SUITE_P(FurtherSeeds, Harm, testing::Range<uint64_t>(1, 5));

TEST(HarmfulEdit, MeetsEveryVerdictAndIsOfEveryKind) {
  std::map<std::string, int> verdicts, kinds;
  std::vector<Trial> batch;
  for (uint64_t seed = 0; seed < kAtOnce; ++seed) batch.push_back(make_trial(seed, Via::kWriter));
  Court court(Via::kWriter);
  judge(court, batch, false);
  for (const Trial& trial : batch) {
    ++verdicts[trial.was.at("").strict + " " + trial.was.at("").numeric];
    ++kinds[trial.edit->name];
  }
  for (const char* verdict :
       {"PASS PASS", "FAIL PASS", "FAIL FAIL", "FAIL INCOMPARABLE", "INCOMPLETE INCOMPLETE",
        "INCOMPARABLE INCOMPARABLE", "NO_EVIDENCE NO_EVIDENCE"}) {
    EXPECT_GT(verdicts[verdict], 0) << verdict;
  }
  EXPECT_GT(verdicts["PASS PASS"], 50);
  EXPECT_GT(kinds.size(), 25u);
}

TEST(Tolerance, AStricterOneRaisesNoVerdict) {
  std::vector<ToldRun> runs;
  for (uint64_t seed = 0; seed < kAtOnce; ++seed) {
    Random random(seed);
    runs.push_back(random_run(random));
  }
  std::vector<Answer> was(runs.size()), is(runs.size());
  std::vector<Asked> before, after;
  for (size_t i = 0; i < runs.size(); ++i) {
    before.push_back({name_before(i), &runs[i], &was[i]});
    after.push_back({name_before(i), &runs[i], &is[i]});
  }
  Court court(Via::kWriter);
  court.judge(before, true);
  court.tighten_tolerances();
  court.judge_again(after);
  int fell = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    for (const auto& [prompt, part] : was[i]) {
      EXPECT_EQ(is[i].at(prompt).strict, part.strict);
      EXPECT_LE(rank_of(is[i].at(prompt).numeric), rank_of(part.numeric));
      fell += rank_of(is[i].at(prompt).numeric) < rank_of(part.numeric);
    }
  }
  EXPECT_GT(fell, 0);
}

}  // namespace
}  // namespace greta::harm
