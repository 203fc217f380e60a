// One warehouse that judges many runs.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/queries/harm/told_run.h"

namespace greta::harm {

enum class Reading { kStrict, kNumeric };

/// The verdicts of a run or of one of its prompts, and what they are made of.
struct Part {
  std::string strict, numeric;
  int64_t fail = 0, beyond_rounding = 0, missing_elsewhere = 0;
  std::string first_fail;

  const std::string& verdict(Reading reading) const {
    return reading == Reading::kStrict ? strict : numeric;
  }
};

/// By prompt, "" for the run itself. Empty when the warehouse knows of no such run.
using Answer = std::map<std::string, Part>;

/// A pair that does not match, as the view `pair` shows it.
struct BadPair {
  Pairing at;
  std::string status;
  bool fails;  // else it only decides nothing
};

/// A name of its own, a run, and what the warehouse says of it.
struct Asked {
  std::string name;
  const ToldRun* run;
  Answer* answer;
};

class Court {
 public:
  explicit Court(Via via) : via_(via), teller_(w_) {}

  /// Stores the runs and judges them: kept verdicts where `keeps`, else worked out when asked.
  /// Files that are ingested leave kept ones. Once.
  void judge(const std::vector<Asked>& runs, bool keeps);
  /// Asks once more after the runs that were judged.
  void judge_again(const std::vector<Asked>& runs);
  /// Then nearly nothing is rounding.
  void tighten_tolerances() {
    // as somebody does by hand, whose connection has triggers: a writer has none
    sqlite3_db_config(w_.db.getHandle(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 1, nullptr);
    w_.db.exec("UPDATE tolerance SET rel_l2 = rel_l2 / 1000");
  }

  /// Pairs of a run that do not match; within rounding, by the numeric reading.
  std::vector<BadPair> bad_pairs(const std::string& name, Reading reading);
  std::string coverage(const std::string& name);

 private:
  std::string full(const std::string& name) const {
    return via_ == Via::kFiles ? run_of_folder(name) : name;
  }
  void take_files(const std::vector<Asked>& runs);
  void find(const std::vector<Asked>& runs);
  void keep();
  void ask();

  Via via_;
  Warehouse w_;
  Teller teller_;
  std::map<int64_t, Answer*> asked_;  // by run.id
  std::unique_ptr<SQLite::Statement> bad_pairs_;
};

}  // namespace greta::harm
