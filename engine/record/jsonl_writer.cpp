#include "engine/record/jsonl_writer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "common/utc_time.h"
#include "engine/record/line_file.h"
#include "engine/record/trace_json.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileName = 100;
constexpr std::string_view kFileCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

/// What a file of this prompt can be called on any file system.
std::string file_stem(std::string_view prompt) {
  std::string name(prompt.substr(0, kMaxFileName));
  for (char& c : name) {
    if (kFileCharacters.find(c) == std::string_view::npos) c = '_';
  }
  return name;
}

}  // namespace

struct JsonlWriter::State {
  State(const fs::path& folder, const RunRecord& record);
  ~State();

  void open_trace(const std::string& name);
  LineFile& trace();
  void end(bool complete);

  fs::path run_folder;
  std::optional<LineFile> run, rows_of_prompt;
  std::map<std::string, fs::path> files;  // by prompt
  std::string prompt;
  int64_t rows = 0;
};

/// The first name under which there is no run file yet; another process may be looking for one too.
JsonlWriter::State::State(const fs::path& folder, const RunRecord& record) {
  const fs::path base = folder / base_run_name(record);
  for (int64_t i = 1; !run; ++i) {
    run_folder = base;
    if (i > 1) run_folder += "#" + std::to_string(i);
    fs::create_directories(run_folder / "traces");
    try {
      run.emplace(run_folder / "run.jsonl", LineFile::Existing::kRefuse);
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::file_exists) throw;
    }
  }
  run->write(run_start_line(record));
  run->flush();
}

JsonlWriter::State::~State() {
  try {
    if (run) end(false);
  } catch (const std::system_error&) {
    // Without its last line the export is INCOMPLETE as well.
  }
}

LineFile& JsonlWriter::State::trace() {
  if (!run) throw std::logic_error("JsonlWriter: the run has ended");
  if (!rows_of_prompt) throw std::logic_error("JsonlWriter: rows before the first prompt");
  return *rows_of_prompt;
}

void JsonlWriter::State::open_trace(const std::string& name) {
  prompt = name;
  auto [it, is_new] = files.try_emplace(name);
  for (int64_t i = 1; is_new && it->second.empty(); ++i) {
    const fs::path file =
        run_folder / "traces" /
        (file_stem(name) + (i > 1 ? "_" + std::to_string(i) : "") + "_trace.jsonl");
    const bool taken = std::any_of(files.begin(), files.end(),
                                   [&file](const auto& other) { return other.second == file; });
    if (!taken) it->second = file;
  }
  rows_of_prompt.emplace(it->second, LineFile::Existing::kAppend);
}

void JsonlWriter::State::end(bool complete) {
  if (rows_of_prompt) rows_of_prompt->close();
  rows_of_prompt.reset();
  run->write(run_end_line(complete, rows, utc_now()));
  run->close();
  run.reset();
}

JsonlWriter::JsonlWriter(const fs::path& folder, const RunRecord& run)
    : state_(std::make_unique<State>(folder, run)) {}

JsonlWriter::~JsonlWriter() = default;

const fs::path& JsonlWriter::run_folder() const { return state_->run_folder; }

void JsonlWriter::begin_prompt(const PromptRecord& prompt) {
  State& s = *state_;
  if (!s.run) throw std::logic_error("JsonlWriter: the run has ended");
  if (s.rows_of_prompt) s.rows_of_prompt->close();
  s.run->write(run_prompt_line(prompt));
  s.run->flush();
  s.open_trace(prompt.name);
}

void JsonlWriter::rows(std::vector<TraceRecord> rows) {
  LineFile& file = state_->trace();
  for (const TraceRecord& row : rows) {
    file.write(stage_trace_line(row, state_->prompt));
    if (row.difference) file.write(difference_line(row, state_->prompt));
  }
  state_->rows += static_cast<int64_t>(rows.size());
}

void JsonlWriter::readout(const ReadoutRecord& readout) {
  state_->trace().write(readout_line(readout, state_->prompt));
}

void JsonlWriter::attribute(const std::string& name, const std::string& value) {
  if (!state_->run) throw std::logic_error("JsonlWriter: the run has ended");
  if (!value.empty()) state_->run->write(run_attribute_line(name, value));
}

void JsonlWriter::end(bool complete) {
  if (!state_->run) throw std::logic_error("JsonlWriter: the run has ended");
  state_->end(complete);
}

}  // namespace greta
