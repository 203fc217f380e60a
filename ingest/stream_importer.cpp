#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <system_error>

#include "common/stop_signal.h"
#include "db/database.h"
#include "db/run_records.h"
#include "ingest/importer.h"
#include "ingest/record/parser.h"
#include "ingest/record/stream.h"
#include "ingest/session.h"
#include "ingest/source_content.h"

namespace greta {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kGatherRows{20};
constexpr milliseconds kLookForStop{200};
const std::string kStreamName = "-";

/// A descriptor as it gives bytes. Before it waits for more, and once in kGatherRows while they
/// come, it calls `pause`.
class PipeReader : public ContentReader {
 public:
  PipeReader(int descriptor, std::function<void()> pause)
      : descriptor_(descriptor), pause_(std::move(pause)) {}

  size_t read(char* buffer, size_t size_bytes) override {
    const auto since = [this] { return Clock::now() - paused_; };
    if (!is_ready(std::max(milliseconds(0),
                           std::chrono::duration_cast<milliseconds>(kGatherRows - since()))) ||
        since() >= kGatherRows) {
      pause_();
      paused_ = Clock::now();
    }
    while (!is_ready(kLookForStop)) throw_if_stopped();
    for (;;) {
      const ssize_t n = ::read(descriptor_, buffer, size_bytes);
      if (n >= 0) return static_cast<size_t>(n);
      throw_if_stopped();
      if (errno != EINTR && errno != EAGAIN) {
        throw std::system_error(errno, std::generic_category(), "cannot read the standard input");
      }
    }
  }

 private:
  bool is_ready(milliseconds patience) const {
    pollfd one{descriptor_, POLLIN, 0};
    const int n = ::poll(&one, 1, static_cast<int>(patience.count()));
    if (n < 0) throw_if_stopped();
    return n > 0;
  }

  int descriptor_;
  std::function<void()> pause_;
  Clock::time_point paused_ = Clock::now();
};

class StreamImporter {
 public:
  StreamImporter(SQLite::Database& db, const IngestOptions& options) : session_(db, options) {
    ++session_.summary.files;
  }

  IngestSummary run(int descriptor);
  IngestSummary run_dry(int descriptor) {
    session_.in_dry_run([&] { run(descriptor); });
    return session_.summary;
  }

 private:
  struct NotRead {};  // the stream is none that is read

  void take_line(std::string_view line, size_t readable, int64_t line_no);
  void begin(std::string_view line, int64_t line_no);
  void write();
  void refuse(int64_t line_no, const std::string& reason, std::string_view line);

  IngestSession session_;
  RecordParser parser_{RecordSource{}};
  RecordBatch batch_;
  RunIdentity identity_;
  int64_t run_id_ = 0;
  std::optional<SourceContent> source_;  // once the run is known
};

void StreamImporter::refuse(int64_t line_no, const std::string& reason, std::string_view line) {
  session_.in_transaction(
      [&] { session_.add_finding(kStreamName, line_no, true, reason, kept_part(line), {}); });
  throw NotRead{};
}

/// The run, before its rows: others see that it has begun.
void StreamImporter::begin(std::string_view line, int64_t line_no) {
  const std::optional<RunEvent> start = row_format_start(line);
  if (!start) {
    RunEvent event;
    const bool is_start = line.find("run_start") != line.npos;
    const std::string why = is_start ? read_row_format_event(line, event) : "";
    refuse(line_no,
           "not a stream of rows: its first line is no run_start of docs/traces.md" +
               (why.empty() ? "; other files are ingested by their path" : " (" + why + ")"),
           line);
  }
  std::string name;
  session_.in_transaction([&] {
    name = session_.runs.free_name_of(*start);
    if (name.empty()) return;
    identity_ = identity_of(*start, name);
    const int64_t run_id = session_.runs.run_id(identity_);
    const int64_t id = session_.sources.add_source({run_id, "", "", "being read"}, "row", 0);
    session_.sources.add_location(id, kStreamName, "", -1);
    source_.emplace(session_, id, run_id, identity_, kStreamName);
    note_run_process(session_.db, run_id);
    run_id_ = run_id;
  });
  if (name.empty()) {
    refuse(line_no, "the database has a run " + start->run + " already; not ingested", line);
  }
  ++session_.summary.new_sources;
}

void StreamImporter::take_line(std::string_view line, size_t readable, int64_t line_no) {
  const bool is_blank = line.find_first_not_of(" \t\r") == line.npos;
  if (!source_ && !is_blank) begin(line, line_no);
  parser_.parse(line, readable, line_no, batch_);
  if (batch_.is_full()) write();
}

void StreamImporter::write() {
  if (!source_ || batch_.lines == 0) return;
  session_.in_transaction([this] {
    session_.runs.change(run_id_);
    source_->add_batch(batch_);
    for (const std::string& experiment : session_.runs.take_unsettled()) {
      session_.runs.settle(experiment);
    }
  });
  batch_.clear();
  session_.show_progress(kStreamName);
}

IngestSummary StreamImporter::run(int descriptor) {
  PipeReader reader(descriptor, [this] { write(); });
  try {
    const StreamEnd end = for_each_line(
        reader,
        [this](std::string_view line, size_t readable, int64_t line_no, bool, int64_t) {
          take_line(line, readable, line_no);
        },
        [this](std::string_view head, int64_t line_no) {
          const std::string reason =
              "line longer than " + std::to_string(kMaxLineBytes >> 20) + " MiB";
          if (!source_) refuse(line_no, reason, head);
          parser_.refuse(head, line_no, reason, batch_);
        });
    if (!source_) refuse(0, "an empty stream: no row came", "");
    parser_.finish(batch_);
    ++batch_.lines;
    write();
    session_.in_transaction([&] {
      session_.runs.change(run_id_);
      source_->set_shape("row");
      source_->finish(end.sha256, end.bytes, end.lines);
      forget_run_process(session_.db, run_id_);
    });
  } catch (const NotRead&) {
  }
  session_.settle();
  session_.judge();
  return session_.summary;
}

}  // namespace

IngestSummary ingest_stream(SQLite::Database& db, int descriptor, const IngestOptions& options) {
  StreamImporter importer(db, options);
  if (!options.dry_run) {
    const IngestSummary summary = importer.run(descriptor);
    make_durable(db);
    return summary;
  }
  return importer.run_dry(descriptor);
}

}  // namespace greta
