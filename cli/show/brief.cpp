#include <algorithm>
#include <optional>
#include <string>

#include "cli/show/judged_row.h"
#include "cli/show/report.h"
#include "cli/show/section.h"
#include "common/shell_word.h"

namespace greta {
namespace {

using std::to_string;

/// Runs that fail and have a section of their own.
constexpr size_t kMostBriefs = 12;

constexpr size_t kShownOfCommit = 12;

/// "commit 02a59af4d5, 2026-02-07": as much of it as is known.
std::string version_text(const Query& row, int commit, int date) {
  std::string text =
      row.is_null(commit) ? "" : "commit " + row.text(commit).substr(0, kShownOfCommit);
  if (!row.is_null(date)) text += (text.empty() ? "" : ", ") + row.text(date);
  return text.empty() ? "-" : text;
}

/// change, baseline, its commit and date, layer, tensor, why_not; no row without a baseline.
RunQuery change_of(QueryPool& statements, int64_t run_id) {
  return RunQuery(statements, run_id,
                  "SELECT change, baseline, baseline_commit_sha, baseline_date, layer, tensor,"
                  " why_not FROM change WHERE run_id = ?1");
}

/// The place where this run, or one that it descends from by baselines, regressed, unless one of
/// them fixed it: first bad run, its commit and date, the same of the last good one, change,
/// tensor, layer, and whether more commits than one lie between.
RunQuery turn_of(QueryPool& statements, int64_t run_id) {
  return RunQuery(
      statements, run_id,
      "WITH RECURSIVE back(run_id, baseline_id) AS ("
      "  SELECT run_id, baseline_id FROM lineage WHERE run_id = ?1"
      "  UNION SELECT l.run_id, l.baseline_id FROM back b CROSS JOIN lineage l"
      "  ON l.run_id = b.baseline_id)"
      " SELECT g.first_bad, g.first_bad_commit, g.first_bad_date, g.last_good,"
      " g.last_good_commit, g.last_good_date, g.change, g.tensor, g.layer,"
      " g.last_good_commit <> g.first_bad_commit AND NOT EXISTS (SELECT 1 FROM commit_parent p"
      "   WHERE p.sha >= g.first_bad_commit AND p.sha < g.first_bad_commit || 'g'"
      "   AND p.parent >= g.last_good_commit AND p.parent < g.last_good_commit || 'g')"
      " FROM regression g WHERE g.lineage = (SELECT lineage FROM lineage_member WHERE run_id = "
      "?1)"
      " AND g.first_bad_id IN (SELECT run_id FROM back)"
      " AND NOT EXISTS (SELECT 1 FROM back b JOIN run f ON f.id = b.run_id"
      "   WHERE f.name = g.fixed_run) ORDER BY g.change, g.first_bad_date, g.first_bad");
}

class BriefSection : public RunSection {
 public:
  explicit BriefSection(const RunSection& run) : RunSection(run) {}

  void add() {
    std::optional<FailureSections> failing;
    if (verdict_.has("strict_first_fail")) failing.emplace(*this);
    const FirstFailure* failure = failing ? &failing->failure() : nullptr;
    out_.push_back(Note{version()});
    VerdictSection verdict(*this);
    verdict.lead(failure);
    if (failure && !within_rounding()) {
      where(*failure);
      why(*failure);
    }
    since();
    for (const AppliedWaiver& waiver : applied_waivers(statements_, run_.id))
      item(words_("waived"), waiver_text(waiver, words_));
    next(failure);
    out_.push_back(std::move(items_));
    verdict.remarks();
  }

 private:
  std::string version() const {
    std::string text = verdict_.text("experiment");
    if (verdict_.has("mode")) text += ", " + verdict_.text("mode");
    if (verdict_.has("commit_sha"))
      text += ", commit " + verdict_.text("commit_sha").substr(0, kShownOfCommit);
    return text + (verdict_.has("date") ? ", " + verdict_.text("date") : "");
  }

  void item(const std::string& label, const Line& text) {
    items_.items.push_back(strong(label) + ": " + text);
  }

  void where(const FirstFailure& failure) {
    std::string cause = failure.cause;
    if (!failure.root_cause.empty()) cause += " (" + failure.root_cause + ")";
    Line text = words_.line("brief.place", {failure.tensor, failure.layer, failure.prompt,
                                            show(failure.pos_id), cause});
    if (!failure.distance.empty() && failure.tolerance) {
      text += "; " +
              words_("brief.distance", {failure.distance, real_text(*failure.tolerance, "%.3g")});
    }
    item(words_("brief.where"), text);
  }

  void why(const FirstFailure& failure) {
    const std::string& segment = failure.origin.segment;
    Line text;
    if (!segment.empty() && failure.origin.kind == "ORIGIN") {
      text = words_.line("brief.arises", {segment});
    } else if (!segment.empty() && failure.is_open()) {
      text = words_.line("brief.lies", {segment});
    } else if (!failure.caused_by.empty()) {
      text = words_.line("analysis.propagated", {failure.caused_by});
    } else {
      text = failure.details;
    }
    const std::vector<PairFinding> found =
        pair_findings(statements_, run_.id, failure.tensor, failure.layer_id);
    if (!found.empty())
      text += (text.empty() ? "" : "; ") + found[0].name + ": " + found[0].evidence(words_);
    if (!text.empty()) item(words_("brief.why"), text);
  }

  /// The first bad run among this one and those that it descends from by their baselines, unless
  /// one of them mended it.
  bool tells_turn() {
    RunQuery turn = turn_of(statements_, run_.id);
    bool any = false;
    for (; turn.step(); any = true) {
      Line text = words_.line("brief.first_bad", {turn.text(0), version_text(turn, 1, 2),
                                                  turn.text(3), version_text(turn, 4, 5)});
      text += "; ";
      text += turn.is_null(7) ? turn.text(6)
                              : words_.line("brief.changed_at",
                                            {turn.text(6), turn.text(7), show(turn.cell(8))});
      item(words_("brief.since"), text);
      if (bisect_.empty() && !turn.is_null(9) && turn.integer(9) != 0) {
        bisect_ = "greta-db bisect --repo DIR --good " + shell_word(turn.text(4)) + " --bad " +
                  shell_word(turn.text(1));
      }
    }
    return any;
  }

  void without_baseline() {
    RunQuery injected(statements_, run_.id, "SELECT injected FROM lineage_member WHERE run_id = ?");
    const bool on_purpose = injected.step() && injected.integer(0) != 0;
    if (on_purpose || head_.verdict == "FAIL") {
      item(words_("brief.since"),
           on_purpose ? words_("brief.injected") : words_("brief.no_baseline"));
    }
  }

  void since() {
    RunQuery change = change_of(statements_, run_.id);
    if (!change.step()) return without_baseline();
    if (!tells_turn() && head_.verdict == "FAIL") {
      item(words_("brief.since"),
           words_.line("brief.fails_with", {change.text(1), version_text(change, 2, 3)}));
    }
    Line text = change.text(0);
    if (!change.is_null(5))
      text = words_.line("brief.changed_at", {text, change.text(5), show(change.cell(4))});
    if (!change.is_null(6)) text += ": " + change.text(6);
    items_.items.push_back(words_.line("brief.change", {change.text(1)}) + ": " + text);
  }

  void next(const FirstFailure* failure) {
    const std::string probe = failure ? failure->origin.probe() : "";
    item(words_("brief.next"),
         code(!probe.empty()     ? probe
              : !bisect_.empty() ? bisect_
                                 : "greta-db report --full --run " + shell_word(run_.name)));
  }

  List items_;
  std::string bisect_;  ///< the command that finds the commit, where several may be it
};

class BriefReport {
 public:
  BriefReport(QueryPool& statements, const Wording& words, Blocks& out)
      : statements_(statements), words_(words), out_(out) {}

  void add(const std::vector<Run>& runs) {
    judged_ = judged_rows(statements_, runs);
    if (judged_.size() == 1) return section(*judged_.front(), 1);
    const std::string experiment = experiment_of(statements_, judged_.front()->run);
    out_.push_back(Heading{1, experiment + ": " + words_("brief.title")});
    say("brief.counts", {to_string(judged_.size()), counts_text(judged_)});
    const auto failing = std::stable_partition(judged_.begin(), judged_.end(), [](const auto& row) {
      return row->head.verdict == "FAIL";
    });
    const auto fails = static_cast<size_t>(failing - judged_.begin());
    const size_t sections = std::min(fails, kMostBriefs);
    if (fails > 0) out_.push_back(Heading{2, words_("brief.failing")});
    for (size_t i = 0; i < sections; ++i) section(*judged_[i], 3);
    if (sections < fails) say("brief.more", {to_string(fails - sections)});
    table(sections);
  }

  void section(const JudgedRow& row, int level) {
    out_.push_back(Heading{level, code(row.run.name), headline(row)});
    add_content(row);
  }
  void add_content(const JudgedRow& row) {
    BriefSection(RunSection(statements_, row, words_, out_, 2)).add();
  }

 private:
  void say(TextId id, const TextValues& values) {
    for (const Line& line : words_.each({id, values})) out_.push_back(Note{line});
  }
  Line headline(const JudgedRow& row) const {
    return headline_of(row.head.verdict, row.head.remark, row.head.mode, words_);
  }

  void table(size_t from) {
    if (from == judged_.size()) return;
    if (from > 0) out_.push_back(Heading{2, words_("brief.others")});
    ShownTable table{{words_("run"), words_("date"), words_("commit"), words_("verdict"),
                      words_("strict_verdict"), words_("total_pairs"), words_("brief.changed")}};
    for (size_t i = from; i < judged_.size(); ++i) {
      const RunVerdict& verdict = judged_[i]->verdict;
      RunQuery change = change_of(statements_, judged_[i]->run.id);
      const std::string changed = change.step() && !change.is_null(0) ? change.text(0) : "-";
      const auto shown = [&](const char* column) {
        return verdict.has(column) ? verdict.text(column).substr(0, kShownOfCommit) : "-";
      };
      table.add({judged_[i]->run.name, shown("date"), shown("commit_sha"), headline(*judged_[i]),
                 verdict.show("strict_verdict"), verdict.show("pairs"), changed});
    }
    out_.push_back(std::move(table));
  }

  QueryPool& statements_;
  const Wording& words_;
  Blocks& out_;
  JudgedRows judged_;
};

}  // namespace

Blocks brief_report(QueryPool& statements, const std::vector<Run>& runs, const Wording& words) {
  Blocks blocks;
  BriefReport(statements, words, blocks).add(runs);
  return blocks;
}

Blocks brief_of_run(QueryPool& statements, const JudgedRow& row, const Wording& words) {
  Blocks blocks;
  BriefReport(statements, words, blocks).add_content(row);
  return blocks;
}

}  // namespace greta
