#pragma once
#include <optional>
#include <string>
#include <vector>

#include "common/process.h"

namespace greta {

/// What a search is for; the same in every call that goes on with it.
struct BisectQuestion {
  std::string repository;  ///< folder
  std::string good, bad;   ///< full names of commits
  std::string lineage;
  std::string gate;  ///< verdict, strict, numeric
  bool first_parent = false;
  bool fix = false;  ///< it is the good commit that is looked for

  bool operator==(const BisectQuestion&) const = default;
};

/// An answer that was given.
struct BisectAnswer {
  std::string word;    ///< good, bad, skip
  std::string commit;  ///< full name
  std::string reason;  ///< the run; of a skip why; one line

  bool operator==(const BisectAnswer&) const = default;
};

/// A work tree that is in use, and who uses it.
struct BisectTree {
  Process user;
  std::string path;
};

/// The file of a search: a line per fact, "good-end 1a2b...", comments behind #. Written as a whole
/// into a file beside it that then takes its name, so that it is never half of one.
class BisectLog {
 public:
  /// "": nothing is kept. A file that is not there yet is an empty log. Throws UsageError for a
  /// line that is none of a log, std::system_error when it cannot be read.
  explicit BisectLog(std::string file);

  const std::string& file() const { return file_; }
  bool begun() const { return begun_; }  ///< it has a question
  const BisectQuestion& question() const { return question_; }
  const std::vector<BisectAnswer>& answers() const { return answers_; }

  /// Throws UsageError for a text with a line end, which the log cannot hold.
  void begin(const BisectQuestion& question);
  /// In place of an earlier answer of the commit. `subject` is for readers.
  void add(const BisectAnswer& answer, const std::string& subject);
  void found(const std::string& commit, const std::string& subject);
  /// Until the next call, which none follows where the process is killed.
  void set_tree(std::optional<BisectTree> tree);
  const std::optional<BisectTree>& tree() const { return tree_; }

 private:
  void read(const std::string& text);
  void take(const std::string& word, const std::string& rest, const std::string& where);
  void write() const;

  std::string file_;
  bool begun_ = false;
  BisectQuestion question_;
  std::vector<BisectAnswer> answers_;
  std::vector<std::string> comments_;  ///< subject of each answer
  std::optional<BisectTree> tree_;
  std::string found_;  ///< line with its subject
};

}  // namespace greta
