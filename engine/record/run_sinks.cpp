#include "engine/record/run_sinks.h"

#include <chrono>
#include <exception>
#include <utility>

#include "db/database.h"
#include "engine/record/delta_writer.h"
#include "engine/record/jsonl_writer.h"

namespace greta {

RunSinks::RunSinks(const RunTargets& targets, const RunRecord& run) {
  // Exports first: a folder that cannot be written must not leave an empty run behind.
  if (!targets.jsonl_folder.empty()) {
    sinks_.push_back(std::make_unique<JsonlWriter>(targets.jsonl_folder, run));
  }
  if (!targets.delta_file.empty()) {
    sinks_.push_back(std::make_unique<DeltaWriter>(targets.delta_file));
  }
  if (targets.database.empty()) return;
  try {
    auto writer = std::make_unique<RunWriter>(targets.database, run);
    run_name_ = writer->run_name();
    tolerances_ = writer->tolerances();
    sinks_.push_back(std::move(writer));
  } catch (const SQLite::Exception& error) {
    throw DatabaseError("cannot write to " + targets.database + ": " + error.what() +
                        "; check that its folder exists and can be written, or give another file");
  }
}

void RunSinks::begin_prompt(const PromptRecord& prompt) {
  for (const auto& sink : sinks_) sink->begin_prompt(prompt);
}

void RunSinks::rows(std::vector<TraceRecord> rows) {
  n_rows_ += static_cast<int64_t>(rows.size());
  for (size_t i = 0; i + 1 < sinks_.size(); ++i) sinks_[i]->rows(rows);
  if (!sinks_.empty()) sinks_.back()->rows(std::move(rows));
}

void RunSinks::readout(const ReadoutRecord& readout) {
  for (const auto& sink : sinks_) sink->readout(readout);
}

void RunSinks::attribute(const std::string& name, const std::string& value) {
  for (const auto& sink : sinks_) sink->attribute(name, value);
}

void RunSinks::end(bool complete) {
  for (const auto& sink : sinks_) sink->end(complete);
}

void leave_failed_run(const std::string& database, const RunRecord& run) {
  if (database.empty()) return;
  constexpr std::chrono::seconds kPatience{2};  // somebody waits to be told what is wrong
  try {
    RunWriter(database, run, kPatience).end(false);
  } catch (const std::exception&) {
  }
}

}  // namespace greta
