#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/greta_db/commands.h"
#include "cli/output/text_width.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"
#include "common/json_text.h"
#include "common/stop_signal.h"
#include "common/utf8.h"
#include "db/database.h"
#include "db/lock_wait.h"

namespace greta {
namespace {

using Clock = std::chrono::steady_clock;
using std::to_string;

/// A verdict is worked out over all rows that a run has by then. No more than one part in so many
/// of the time goes into that.
constexpr int kShareOfTime = 10;

struct WatchArguments {
  std::string run;
  Repeats repeats = Repeats::kAll;
  Gate gate = Gate::kStrict;
  std::chrono::milliseconds interval{1000};
  bool once = false;
};

/// What is known of a run at some moment, all of it of one state of the file. It borrows nothing: a
/// statement that is read from would keep the writer's log from being emptied.
struct Sight {
  bool is_written = false;  ///< more may come
  int64_t rows = 0;
  std::string status;
  std::string verdict, numeric_verdict, headline;
  FailPlace fail;                             ///< of the verdict that leads
  std::string counts;                         ///< of pairs, for a terminal
  std::string change, baseline, change_text;  ///< "" unless something tells by now
  int exit_status = kExitNoVerdict;
  std::string exit_words;

  /// What makes it another state; for a terminal.
  std::string text() const {
    return headline + (fail.cause.empty() ? "" : ": " + fail_text(fail)) +
           (change_text.empty() ? "" : "; " + change_text);
  }
};

/// Of a run that is being written only what is there already tells: what is not there yet is no
/// change.
void add_change(Sight& sight, const RunVerdict& run) {
  if (!run.has("change") || !run.has("baseline")) return;
  const std::string change = run.text("change");
  const bool differs = run.number("change_differs") > 0;
  if (sight.is_written && change != "BROKEN" && !(change == "CHANGED" && differs)) return;
  sight.change = change;
  sight.baseline = run.text("baseline");
  sight.change_text = utf8::printable(change) + " since " + utf8::printable(sight.baseline);
  FailPlace place;
  place.prompt = run.text("change_prompt");
  place.tensor = run.text("change_tensor");
  if (run.has("change_layer")) place.layer = run.number("change_layer");
  const std::string where = place_text(place);
  if (change != "SAME" && !where.empty()) sight.change_text += " " + where;
}

/// From a row of kVerdictColumns and what Watch::look() adds to them.
Sight sight_of(const RunVerdict& run, int64_t rows, Gate gate) {
  const auto number = [&run](const char* column) { return to_string(run.number(column)); };
  const Headline head(run);
  ExitOfVerdicts exit(gate);
  exit.add(run);
  Sight sight;
  sight.status = run.text("status");
  sight.is_written = sight.status == "running" || run.number("ingest_open") != 0;
  sight.rows = rows;
  sight.verdict = run.text("verdict");
  sight.numeric_verdict = run.text("numeric_verdict");
  sight.headline = head.text();
  sight.fail = head.verdict == "FAIL" ? head.fail : FailPlace{};
  sight.counts = number("pairs") + " pairs: " + number("pass") + " pass, " + number("fail") +
                 " fail (" + number("rounding") + " rounding, " + number("divergent") +
                 " divergent), " + number("missing") + " missing";
  sight.exit_status = exit.status();
  sight.exit_words = exit.words();
  add_change(sight, run);
  return sight;
}

/// Reads one run, as often as it is asked and no more than the file changes.
class Watch {
 public:
  Watch(Options& options, const WatchArguments& arguments)
      : options_(options), arguments_(arguments), db_(open_for_reading(options.database)) {}

  int run() {
    if (!find_run()) return kExitNoVerdict;
    for (;;) {
      const Clock::time_point begin = Clock::now();
      version_ = data_version();
      const Sight sight = look();
      const auto took = Clock::now() - begin;
      show(sight);
      if (arguments_.once || !sight.is_written) {
        if (options_.format == Format::kTable && !sight.exit_words.empty()) {
          options_.out.write(sight.exit_words + "\n");
        }
        return sight.exit_status;
      }
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
    Query query(db_, "SELECT " + std::string(kVerdictColumns) +
                         ", change, baseline, change_differs, change_prompt, change_layer,"
                         " change_tensor FROM (SELECT v.*, c.change AS change,"
                         " c.baseline AS baseline, ifnull(c.divergent, 0) + ifnull(c.nonfinite, 0)"
                         " AS change_differs, c.prompt AS change_prompt, c.layer AS change_layer,"
                         " c.tensor AS change_tensor FROM run_verdict v"
                         " LEFT JOIN change c ON c.run_id = v.run_id WHERE v.run_id = ?)");
    query.bind(1, run_.id);
    if (!query.step()) throw UsageError("run " + run_.name + " is no longer there");
    return sight_of(RunVerdict(query), rows, arguments_.gate);
  }

  /// Until something was committed to the file, but at least this long.
  void wait_for_change(Clock::duration least) {
    constexpr std::chrono::milliseconds kStep{50};
    const Clock::time_point begin = Clock::now();
    for (;;) {
      throw_if_stopped();
      const auto waited = Clock::now() - begin;
      if (waited >= least && data_version() != version_) return;
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
    object.add("verdict", sight.verdict).add("numeric_verdict", sight.numeric_verdict);
    object.add("headline", sight.headline);
    if (!sight.fail.cause.empty()) {
      object.add("first_fail", sight.fail.cause).add("prompt", sight.fail.prompt);
      object.add("tensor", sight.fail.tensor).add("layer", sight.fail.layer);
      object.add("pos_id", sight.fail.pos);
    }
    if (!sight.change.empty()) object.add("change", sight.change).add("baseline", sight.baseline);
    options_.out.write(object.take() + "\n");
  }

  Options& options_;
  const WatchArguments& arguments_;
  SQLite::Database db_;
  Run run_{};
  int64_t version_ = 0;
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
  auto arguments = std::make_shared<WatchArguments>();
  add_run_option(*command, arguments->run, arguments->repeats);
  command
      ->add_option_function<std::string>(
          "--interval",
          [arguments](const std::string& text) {
            const auto interval = parse_duration(text);
            if (!interval || interval->count() == 0) {
              throw CLI::ValidationError("--interval", "'" + text + "' is not like 2s");
            }
            arguments->interval = *interval;
          },
          "Least time between two looks, as 5s or 1m (1s)")
      ->option_text("DURATION");
  command->add_flag("--once", arguments->once, "Say what is known now, and end");
  add_gate_option(*command, arguments->gate);
  command->callback([&options, arguments] {
    options.action = [&options, arguments] { return watch(options, *arguments); };
  });
}

}  // namespace greta
