#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/greta_db/commands.h"
#include "cli/output/output.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "common/json_text.h"
#include "common/process.h"
#include "common/stop_signal.h"
#include "common/utf8.h"
#include "db/database.h"
#include "db/lock_wait.h"
#include "db/run_records.h"

namespace greta {
namespace {

using Clock = std::chrono::steady_clock;
using std::to_string;

/// A verdict, and what changed, are worked out over all rows that a run has by then. No more than
/// one part in so many of the time goes into that.
constexpr int kShareOfTime = 10;

/// After so many intervals without a commit it is said that nothing comes.
constexpr int kQuietIntervals = 60;
constexpr std::chrono::milliseconds kLookForWriter{500};

struct WatchArguments {
  std::string run;
  Repeats repeats = Repeats::kAll;
  Gate gate = Gate::kVerdict;
  std::chrono::milliseconds interval{1000};
  bool once = false;
};

/// What is known of a run at some moment, all of it of one state of the file. It borrows nothing: a
/// statement that is read from would keep the writer's log from being emptied.
struct Sight {
  bool is_written = false;  ///< more may come
  std::string stalled;      ///< why no more seems to come of a run that has not ended; "" it does
  int64_t rows = 0;
  std::string status;
  std::string verdict, strict_verdict, numeric_verdict, headline;
  FailPlace fail;
  std::string counts;                         ///< of pairs, for a terminal
  std::string change, baseline, change_text;  ///< "" unless something tells by now
  int exit_status = kExitNoVerdict;

  /// What makes it another state; for a terminal.
  std::string text() const {
    return headline + (fail.cause.empty() ? "" : ": " + fail_text(fail)) +
           (change_text.empty() ? "" : "; " + change_text) +
           (stalled.empty() ? "" : "; " + stalled);
  }
};

/// From a row of prompt, layer and tensor.
void add_change(Sight& sight, const std::string& change, const std::string& baseline,
                const Query& row) {
  sight.change = change;
  sight.baseline = baseline;
  sight.change_text = utf8::printable(change) + " since " + utf8::printable(baseline);
  FailPlace place;
  place.prompt = row.text(0);
  place.tensor = row.text(2);
  place.layer = row.cell(1).id();
  const std::string where = place_text(place);
  if (change != "SAME" && !where.empty()) sight.change_text += " " + where;
}

/// From a row of kVerdictColumns.
Sight sight_of(const RunVerdict& run, int64_t rows, Gate gate) {
  const auto number = [&run](const char* column) { return to_string(run.number(column)); };
  const Headline head(run, gate);
  Sight sight;
  sight.status = run.text("status");
  sight.is_written = sight.status == "running" || run.number("ingest_open") != 0;
  sight.rows = rows;
  sight.verdict = run.text("verdict");
  sight.strict_verdict = run.text("strict_verdict");
  sight.numeric_verdict = run.text("numeric_verdict");
  sight.headline = head.text();
  sight.fail = head.verdict == "FAIL" ? head.fail : FailPlace{};
  sight.counts = number("pairs") + " pairs: " + number("pass") + " pass, " + number("fail") +
                 " fail (" + number("rounding") + " rounding, " + number("divergent") +
                 " divergent), " + number("missing") + " missing";
  sight.exit_status = exit_of_verdict(head.verdict);
  return sight;
}

/// Reads one run, as often as it is asked and no more than the file changes.
class Watch {
 public:
  Watch(Options& options, const WatchArguments& arguments)
      : options_(options), arguments_(arguments), db_(open_for_reading(options.database)) {
    if (is_alone(db_)) arguments_.once = true;  // or a writer would wait
  }

  int run() {
    if (!find_run()) return kExitNoVerdict;
    for (;;) {
      const int64_t before = std::exchange(version_, data_version());
      is_quiet_ = is_quiet_ && version_ == before;
      const Clock::time_point begin = Clock::now();
      Sight sight = look();
      look_for_writer(sight);
      const bool ends = arguments_.once || !sight.is_written;
      look_for_change(sight);
      const auto took = Clock::now() - begin;
      show(sight);
      if (ends) return sight.exit_status;
      wait_for_change(std::max<Clock::duration>(arguments_.interval, kShareOfTime * took));
    }
  }

 private:
  int64_t data_version() { return db_.execAndGet("PRAGMA data_version").getInt64(); }

  /// That which is named, else the newest of those that are being written, else of all. Waits for
  /// one where there is none; false when there is to be no waiting.
  bool find_run() {
    if (!arguments_.run.empty()) {
      const std::vector<Run> runs = resolve_runs(db_, arguments_.run, arguments_.repeats);
      if (runs.size() > 1) {
        run_ = resolve_run(db_, arguments_.run);  // says which there are
      } else {
        run_ = runs.front();
      }
      return true;
    }
    for (bool told = false;; told = true) {
      version_ = data_version();
      Query newest(db_,
                   "SELECT l.run_id, l.run FROM lineage l JOIN run r ON r.id = l.run_id"
                   " ORDER BY r.status = 'running' DESC, coalesce(r.started_at, r.date, '') DESC,"
                   " r.id DESC LIMIT 1");
      if (newest.step()) {
        run_ = {newest.integer(0), newest.text(1)};
        return true;
      }
      if (!told || arguments_.once) {
        options_.out.write("no runs in " + utf8::printable(options_.database) +
                           (arguments_.once ? "\n" : ": waiting for the first\n"));
        options_.out.flush();
      }
      if (arguments_.once) return false;
      newest.reset();
      wait_for_change(arguments_.interval);
    }
  }

  /// In one transaction, which ends with it: a writer's log does not grow for a reader's sake.
  Sight look() {
    const SQLite::Transaction snapshot(db_);
    const int64_t rows =
        db_.execAndGet("SELECT count(*) FROM trace_row WHERE run_id = " + to_string(run_.id))
            .getInt64();
    RunQuery query(
        statements_, run_.id,
        "SELECT " + std::string(kVerdictColumns) +
            " FROM (SELECT v.*, r.status AS status, EXISTS (SELECT 1 FROM ingest_run i"
            " WHERE i.run_id = r.id) AS ingest_open, (SELECT w.unjudged_texts FROM run_verdict w"
            " WHERE w.run_id = r.id) AS unjudged_texts FROM verdict_now v"
            " JOIN run r ON r.id = v.run_id WHERE v.run_id = ? AND v.level = 'run')");
    if (!query.step()) throw UsageError("run " + run_.name + " is no longer there");
    return sight_of(RunVerdict(query), rows, arguments_.gate);
  }

  /// Of a run whose writer was killed nothing more comes, and it never ends.
  void look_for_writer(Sight& sight) {
    if (!sight.is_written) return;
    if (has_lost_writer()) {
      sight.is_written = false;
      sight.stalled = sight.status == "running"
                          ? "its writer is gone and did not end it"
                          : "its ingest was broken off: `greta-db ingest --resume` finishes it";
    } else if (is_quiet_) {
      sight.stalled = "nothing was written for " + duration_text(quiet()) +
                      ", and whether anybody still writes is not known";
    }
  }

  /// True if those who wrote it are known to have ended, all of them.
  bool has_lost_writer() {
    bool any_known = false, any_alive = false;
    const auto add = [&](const Process& process) {
      any_known = true;
      any_alive = any_alive || may_be_running(process);
    };
    if (const auto process = process_of_run(db_, run_.id)) add(*process);
    RunQuery ingests(statements_, run_.id,
                     "SELECT g.host, g.pid, g.process FROM ingest_run i JOIN ingest g ON g.id ="
                     " i.ingest_id WHERE i.run_id = ?");
    while (ingests.step()) add({ingests.text(0), ingests.integer(1), ingests.text(2)});
    return any_known && !any_alive;
  }

  std::chrono::milliseconds quiet() const { return kQuietIntervals * arguments_.interval; }

  void look_for_change(Sight& sight) {
    if (sight.is_written) return find_change(sight);
    std::optional<SQLite::Database> judged;
    if (!is_alone(db_)) judged = open_for_reading(options_.database);
    Query query(judged ? *judged : db_,
                "SELECT prompt, layer, tensor, change, baseline FROM change WHERE run_id = ?");
    if (query.bind(1, run_.id).step() && !query.is_null(3))
      add_change(sight, query.text(3), query.text(4), query);
  }

  /// Compares only rows that are written already.
  void find_change(Sight& sight) {
    RunQuery baseline(statements_, run_.id,
                      "SELECT b.baseline_id, v.run, v.verdict FROM lineage b"
                      " JOIN run_verdict v ON v.run_id = b.baseline_id WHERE b.run_id = ?");
    if (!baseline.step()) return;
    RunQuery query(statements_, run_.id,
                   "SELECT coalesce(numeric_prompt, prompt), coalesce(numeric_layer, layer),"
                   " coalesce(numeric_tensor, tensor), numeric_verdict = 'FAIL' AND"
                   " divergent + nonfinite > 0 FROM diff_verdict"
                   " WHERE run_b_id = ?1 AND run_a_id = ?2",
                   {baseline.integer(0)});
    if (!query.step()) return;
    const bool broken = baseline.text(2) == "PASS" && sight.verdict == "FAIL";
    if (broken || query.integer(3) != 0)
      add_change(sight, broken ? "BROKEN" : "CHANGED", baseline.text(1), query);
  }

  /// True if nothing more comes, without a look at its rows.
  bool has_ended() {
    RunQuery query(
        statements_, run_.id,
        "SELECT r.status = 'running' OR EXISTS (SELECT 1 FROM ingest_run i WHERE i.run_id ="
        " r.id) FROM run r WHERE r.id = ?");
    return !query.step() || query.integer(0) == 0;
  }

  /// Until something was committed to the file, but at least this long, unless the run ends, its
  /// writer is lost, or nothing came for long.
  void wait_for_change(Clock::duration least) {
    constexpr std::chrono::milliseconds kStep{50};
    const Clock::time_point begin = Clock::now();
    Clock::time_point sought = begin;
    for (int64_t seen = version_;;) {
      throw_if_stopped();
      const auto waited = Clock::now() - begin;
      const int64_t version = data_version();
      if (waited >= least && version != version_) return;
      if (std::exchange(seen, version) != version && run_.id != 0 && has_ended()) return;
      if (run_.id != 0 && Clock::now() - sought >= kLookForWriter) {
        if (has_lost_writer()) return;
        sought = Clock::now();
      }
      if (run_.id != 0 && !is_quiet_ && version == version_ && waited >= quiet()) {
        is_quiet_ = true;
        return;
      }
      std::this_thread::sleep_for(waited < least ? std::min<Clock::duration>(kStep, least - waited)
                                                 : kStep);
    }
  }

  void show(const Sight& sight) {
    if (options_.format == Format::kJson) {
      print_json(sight);
    } else if (options_.out.is_terminal()) {
      redraw(sight);
    } else if (is_news(sight)) {
      options_.out.write(utf8::printable(run_.name) + " " + sight.status + ", " +
                         to_string(sight.rows) + " rows: " + sight.text() + "\n");
    }
    options_.out.flush();
  }

  bool is_news(const Sight& sight) {
    const std::string state = sight.status + " " + sight.text();
    return std::exchange(shown_, state) != state;
  }

  /// In place of what stands there.
  void redraw(const Sight& sight) {
    std::vector<std::string> lines{utf8::printable(run_.name) + "  " + sight.status,
                                   "  rows     " + to_string(sight.rows) + ", " + sight.counts,
                                   "  verdict  " + sight.headline};
    if (!sight.fail.cause.empty()) lines.push_back("           " + fail_text(sight.fail));
    if (!sight.change_text.empty()) lines.push_back("  change   " + sight.change_text);
    if (!sight.stalled.empty()) lines.push_back("  stalled  " + sight.stalled);
    std::string text = n_lines_ > 0 ? "\x1b[" + to_string(n_lines_) + "A\x1b[J" : "";
    const auto width = static_cast<size_t>(options_.out.width());
    for (const std::string& line : lines) {
      text += (display_width(line) > width ? cut_to_width(line, width) : line) + "\n";
    }
    n_lines_ = lines.size();
    options_.out.write(text);
  }

  void print_json(const Sight& sight) {
    if (!is_news(sight)) return;
    JsonObject object;
    object.add("run", run_.name).add("status", sight.status).add("rows", sight.rows);
    object.add("verdict", sight.verdict).add("strict_verdict", sight.strict_verdict);
    object.add("numeric_verdict", sight.numeric_verdict);
    object.add("headline", sight.headline);
    if (!sight.fail.cause.empty()) {
      object.add("first_fail", sight.fail.cause).add("prompt", sight.fail.prompt);
      object.add("tensor", sight.fail.tensor).add("layer", sight.fail.layer);
      object.add("pos_id", sight.fail.pos);
    }
    if (!sight.change.empty()) object.add("change", sight.change).add("baseline", sight.baseline);
    if (!sight.stalled.empty()) object.add("stalled", sight.stalled);
    options_.out.write(object.take() + "\n");
  }

  Options& options_;
  WatchArguments arguments_;
  SQLite::Database db_;
  QueryPool statements_{db_};
  Run run_{};
  int64_t version_ = 0;
  bool is_quiet_ = false;  ///< nothing was committed for long
  std::string shown_;
  size_t n_lines_ = 0;
};

int watch(Options& options, const WatchArguments& arguments) {
  if (options.format != Format::kTable && options.format != Format::kJson) {
    throw UsageError("watch prints text, or --format json: an object per line");
  }
  return Watch(options, arguments).run();
}

}  // namespace

void add_watch_command(CLI::App& app, Options& options) {
  CLI::App* command =
      app.add_subcommand("watch", "Verdict of a run while it is being written, until it ends");
  WatchArguments& a = add_action(*command, options, watch);
  add_run_option(*command, a.run, a.repeats);
  command
      ->add_option_function<std::string>(
          "--interval",
          [&a](const std::string& text) {
            const auto interval = parse_duration(text);
            if (!interval || interval->count() == 0) {
              throw CLI::ValidationError("--interval", "'" + text + "' is not like 2s");
            }
            a.interval = *interval;
          },
          "Least time between two looks, as 5s or 1m (1s)")
      ->option_text("DURATION");
  command->add_flag("--once", a.once, "Say what is known now, and end");
  add_gate_option(*command, a.gate);
}

}  // namespace greta
