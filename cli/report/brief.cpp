#include "cli/report/brief.h"

#include <algorithm>
#include <optional>
#include <string>

#include "cli/report/failure.h"
#include "cli/report/final_report.h"
#include "cli/report/findings.h"
#include "cli/report/section.h"
#include "cli/report/verdict_section.h"
#include "cli/report/waivers.h"

namespace greta {
namespace {

using std::to_string;

/// Runs that fail and have a section of their own.
constexpr size_t kMostSections = 12;

constexpr size_t kShownOfCommit = 12;

/// "commit 02a59af4d5, 2026-02-07": as much of it as is known.
std::string version_text(const Query& row, int commit, int date) {
  std::string text =
      row.is_null(commit) ? "" : "commit " + row.text(commit).substr(0, kShownOfCommit);
  if (!row.is_null(date)) text += (text.empty() ? "" : ", ") + row.text(date);
  return text.empty() ? "-" : escaped(text);
}

/// The statements of what changed, of a run's lineage.
class Changes {
 public:
  explicit Changes(QueryPool& statements) : statements_(statements) {}

  /// Else there is no row of change, and nobody need prepare what finds none.
  bool has_baseline(int64_t run_id) {
    return RunQuery(statements_, run_id,
                    "SELECT 1 FROM lineage WHERE run_id = ? AND baseline_id IS NOT NULL")
        .step();
  }

  /// change, baseline, its commit and date, layer, tensor, why_not; no row without a baseline.
  RunQuery change(int64_t run_id) {
    return RunQuery(statements_, run_id,
                    "SELECT change, baseline, baseline_commit_sha, baseline_date, layer, tensor,"
                    " why_not FROM change WHERE run_id = ?1");
  }

  /// Where this run, or one that it descends from by baselines, turned for the worse, unless one of
  /// them mended it: first bad run, its commit and date, the same of the last good one, change,
  /// tensor, layer, and whether more commits than one lie between.
  RunQuery turn(int64_t run_id) {
    return RunQuery(
        statements_, run_id,
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

 private:
  QueryPool& statements_;
};

class BriefSection : public RunSection {
 public:
  BriefSection(const RunSection& run, Changes& changes) : RunSection(run), changes_(changes) {}

  void write() {
    std::optional<FailureSections> failing;
    if (verdict_.has("strict_first_fail")) failing.emplace(*this);
    const FirstFailure* failure = failing ? &failing->failure() : nullptr;
    out_.line(version());
    out_.line();
    VerdictSection verdict(*this);
    verdict.lead(failure);
    if (failure && !within_rounding()) {
      where(*failure);
      why(*failure);
    }
    since();
    for (const AppliedWaiver& waiver : applied_waivers(statements_, run_.id)) {
      item("waived", escaped(waiver_text(waiver, words_)));
    }
    next(failure);
    out_.line();
    verdict.remarks();
  }

 private:
  std::string version() const {
    std::string text = escaped_line(verdict_.text("experiment"));
    if (verdict_.has("mode")) text += ", " + escaped(verdict_.text("mode"));
    if (verdict_.has("commit_sha")) {
      text += ", commit " + escaped(verdict_.text("commit_sha").substr(0, kShownOfCommit));
    }
    return text + (verdict_.has("date") ? ", " + escaped(verdict_.text("date")) : "");
  }

  void item(TextId label, const std::string& text) {
    out_.line("- **" + words_(label) + "**: " + text);
  }

  void where(const FirstFailure& failure) {
    std::string cause = escaped(failure.cause);
    if (!failure.root_cause.empty()) cause += " (" + escaped(failure.root_cause) + ")";
    std::string text =
        words_("brief.place", {in_code(failure.tensor), failure.layer, in_code(failure.prompt),
                               show(failure.pos_id), cause});
    if (!failure.distance.empty() && failure.tolerance) {
      text += "; " +
              words_("brief.distance", {failure.distance, real_text(*failure.tolerance, "%.3g")});
    }
    item("brief.where", text);
  }

  void why(const FirstFailure& failure) {
    const std::string& segment = failure.origin.segment;
    std::string text;
    if (!segment.empty() && failure.origin.kind == "ORIGIN") {
      text = words_("brief.arises", {escaped(segment)});
    } else if (!segment.empty() && failure.is_open()) {
      text = words_("brief.lies", {escaped(segment)});
    } else if (!failure.caused_by.empty()) {
      text = words_("analysis.propagated", {in_code(failure.caused_by)});
    } else {
      text = escaped(failure.details);
    }
    const std::vector<PairFinding> found = pair_findings(statements_, run_.id, failure.prompt);
    if (!found.empty()) {
      text +=
          (text.empty() ? "" : "; ") + found[0].name + ": " + escaped(found[0].evidence(words_));
    }
    if (!text.empty()) item("brief.why", text);
  }

  /// The first bad run among this one and those that it descends from by their baselines, unless
  /// one of them mended it.
  bool tells_turn() {
    RunQuery turn = changes_.turn(run_.id);
    bool any = false;
    for (; turn.step(); any = true) {
      std::string text =
          words_("brief.first_bad", {in_code(turn.text(0)), version_text(turn, 1, 2),
                                     in_code(turn.text(3)), version_text(turn, 4, 5)});
      text += "; " + (turn.is_null(7)
                          ? turn.text(6)
                          : words_("brief.changed_at",
                                   {turn.text(6), in_code(turn.text(7)), show(turn.cell(8))}));
      item("brief.since", text);
      if (bisect_.empty() && !turn.is_null(9) && turn.integer(9) != 0) {
        bisect_ = "greta-db bisect --repo DIR --good '" + in_single_quotes(turn.text(4)) +
                  "' --bad '" + in_single_quotes(turn.text(1)) + "'";
      }
    }
    return any;
  }

  void without_baseline() {
    RunQuery injected(statements_, run_.id, "SELECT injected FROM lineage_member WHERE run_id = ?");
    const bool on_purpose = injected.step() && injected.integer(0) != 0;
    if (on_purpose) {
      item("brief.since", words_("brief.injected"));
    } else if (head_.verdict == "FAIL") {
      item("brief.since", words_("brief.no_baseline"));
    }
  }

  void since() {
    if (!changes_.has_baseline(run_.id)) return without_baseline();
    RunQuery change = changes_.change(run_.id);
    if (!change.step()) return without_baseline();
    if (!tells_turn() && head_.verdict == "FAIL") {
      item("brief.since",
           words_("brief.fails_with", {in_code(change.text(1)), version_text(change, 2, 3)}));
    }
    std::string text = change.text(0);
    if (!change.is_null(5)) {
      text = words_("brief.changed_at", {text, in_code(change.text(5)), show(change.cell(4))});
    }
    if (!change.is_null(6)) text += ": " + escaped(change.text(6));
    out_.line("- **" + words_("brief.change", {in_code(change.text(1))}) + "**: " + text);
  }

  void next(const FirstFailure* failure) {
    const std::string probe = failure ? failure->origin.probe() : "";
    std::string command = "greta-db report --full --run '" + in_single_quotes(run_.name) + "'";
    if (!bisect_.empty()) command = bisect_;
    if (!probe.empty()) command = in_code(probe);
    item("brief.next", "`" + command + "`");
  }

  Changes& changes_;
  std::string bisect_;  ///< the command that finds the commit, where several may be it
};

class BriefReport {
 public:
  BriefReport(QueryPool& statements, MarkdownWriter& out)
      : statements_(statements), out_(out), words_(out.words()), changes_(statements) {}

  void write(const std::vector<Run>& runs) {
    judged_ = judged_rows(statements_, runs);
    if (judged_.size() == 1) return section(*judged_.front(), 1);
    const std::string experiment = escaped(experiment_of(statements_, judged_.front()->run));
    out_.heading(1, experiment + ": " + words_("brief.title"));
    out_.paragraph({"brief.counts", {to_string(judged_.size()), counts_text(judged_)}});
    const auto failing = std::stable_partition(judged_.begin(), judged_.end(), [](const auto& row) {
      return row->head.verdict == "FAIL";
    });
    const auto fails = static_cast<size_t>(failing - judged_.begin());
    const size_t sections = std::min(fails, kMostSections);
    if (fails > 0) out_.heading(2, words_("brief.failing"));
    for (size_t i = 0; i < sections; ++i) {
      section(*judged_[i], 3);
    }
    if (sections < fails) out_.paragraph({"brief.more", {to_string(fails - sections)}});
    table(sections);
  }

  void section(const JudgedRow& row, int level) {
    out_.heading(level, "`" + in_code(row.run.name) + "`: " + headline(row));
    BriefSection(RunSection(statements_, row, out_, 2), changes_).write();
  }

 private:
  std::string headline(const JudgedRow& row) const {
    return headline_text("**" + row.head.verdict + "**", row.head.remark, escaped(row.head.mode),
                         words_);
  }

  void table(size_t from) {
    if (from == judged_.size()) return;
    if (from > 0) out_.heading(2, words_("brief.others"));
    out_.table({words_("run"), words_("date"), words_("commit"), words_("verdict"),
                words_("strict_verdict"), words_("total_pairs"), words_("brief.changed")});
    for (size_t i = from; i < judged_.size(); ++i) {
      const RunVerdict& verdict = judged_[i]->verdict;
      std::string changed = "-";
      if (changes_.has_baseline(judged_[i]->run.id)) {
        RunQuery change = changes_.change(judged_[i]->run.id);
        if (change.step() && !change.is_null(0)) changed = change.text(0);
      }
      const auto shown = [&](const char* column) {
        return verdict.has(column) ? escaped(verdict.text(column).substr(0, kShownOfCommit)) : "-";
      };
      out_.row({escaped(judged_[i]->run.name), shown("date"), shown("commit_sha"),
                headline(*judged_[i]), verdict.show("strict_verdict"), verdict.show("pairs"),
                changed});
    }
    out_.line();
  }

  QueryPool& statements_;
  MarkdownWriter& out_;
  const Wording& words_;
  Changes changes_;
  JudgedRows judged_;
};

}  // namespace

void write_brief_report(QueryPool& statements, const std::vector<Run>& runs, Language language,
                        const TextSink& sink) {
  Wording words(language);
  MarkdownWriter out(words, sink);
  BriefReport(statements, out).write(runs);
}

void write_brief(QueryPool& statements, const JudgedRow& row, Language language,
                 const TextSink& sink) {
  Wording words(language);
  MarkdownWriter out(words, sink);
  BriefReport(statements, out).section(row, 1);
}

}  // namespace greta
