#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "common/utc_time.h"
#include "engine/record/run_store.h"
#include "engine/record/trace_json.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

/// store_in_lines
class LinesStore final : public RunStore {
 public:
  LinesStore(LineFile file, const RunRecord& run)
      : file_(std::move(file)), run_name_(base_run_name(run)) {
    file_.write(rows::start_line(run));
    file_.flush();
  }

  std::string run_name() const override { return run_name_; }

  void write(const std::vector<RunItem>& items) override {
    for (const RunItem& item : items) {
      std::visit([&](const auto& what) { add(item.prompt, what); }, item.what);
    }
    file_.flush();
  }

 private:
  void add(size_t, const PromptRecord& prompt) {
    prompts_.push_back(prompt.name);
    file_.write(rows::prompt_line(prompt));
  }
  void add(size_t prompt, const std::vector<PlannedRow>& plan) {
    PromptRecord more;
    more.name = prompts_.at(prompt);
    more.plan = plan;
    file_.write(rows::prompt_line(more));
  }
  void add(size_t prompt, const std::vector<TraceRecord>& rows) {
    for (const TraceRecord& row : rows) file_.write(rows::row_line(row, prompts_.at(prompt)));
    rows_ += static_cast<int64_t>(rows.size());
  }
  void add(size_t, const ReadoutRecord&) {}
  void add(size_t, const RunRecord::Attribute& a) {
    if (!a.second.empty()) file_.write(run_attribute_line(a.first, a.second));
  }
  void add(size_t, const RunEnd& end) {
    file_.write(run_end_line(end.complete, rows_, utc_now()));
    file_.close();
  }

  LineFile file_;
  const std::string run_name_;
  std::vector<std::string> prompts_;
  int64_t rows_ = 0;
};

constexpr size_t kMaxFileName = 100;
constexpr size_t kMaxOpenFiles = 64;  // as many as prompts are computed together
constexpr std::string_view kFileCharacters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";

/// Name of a file of this prompt that any file system takes.
std::string file_stem(std::string_view prompt) {
  std::string name(prompt.substr(0, kMaxFileName));
  for (char& c : name) {
    if (kFileCharacters.find(c) == std::string_view::npos) c = '_';
  }
  return name;
}

/// store_in_folder
class FolderStore final : public RunStore {
 public:
  FolderStore(const fs::path& folder, const RunRecord& record);
  void write(const std::vector<RunItem>& items) override;
  std::exception_ptr fail(std::exception_ptr cause) override;

 private:
  struct Prompt {
    std::string name;
    fs::path file;
  };

  void add(size_t, const PromptRecord& prompt);
  void add(size_t, const std::vector<PlannedRow>&) {}  // a prompt's line has all of it
  void add(size_t prompt, const std::vector<TraceRecord>& rows);
  void add(size_t prompt, const ReadoutRecord& readout) {
    trace_of(prompt).write(readout_line(readout, prompts_.at(prompt).name));
  }
  void add(size_t, const RunRecord::Attribute& a) {
    if (!a.second.empty()) run_->write(run_attribute_line(a.first, a.second));
  }
  void add(size_t, const RunEnd& end);
  fs::path free_file(const std::string& prompt) const;
  LineFile& trace_of(size_t prompt);
  void close_traces();

  fs::path run_folder_;
  std::optional<LineFile> run_;
  std::vector<Prompt> prompts_;
  std::map<size_t, LineFile> open_;  // by prompt
  int64_t rows_ = 0;
};

/// The first name under which there is no run file yet; another process may be looking for one too.
FolderStore::FolderStore(const fs::path& folder, const RunRecord& record) {
  const fs::path base = folder / base_run_name(record);
  for (int64_t i = 1; !run_; ++i) {
    run_folder_ = base;
    if (i > 1) run_folder_ += "#" + std::to_string(i);
    fs::create_directories(run_folder_ / "traces");
    try {
      run_.emplace(run_folder_ / "run.jsonl", LineFile::Existing::kRefuse);
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::file_exists) throw;
    }
  }
  run_->write(run_start_line(record));
  run_->flush();
}

void FolderStore::write(const std::vector<RunItem>& items) {
  for (const RunItem& item : items) {
    std::visit([&](const auto& what) { add(item.prompt, what); }, item.what);
  }
  for (auto& [prompt, file] : open_) file.flush();
  if (run_) run_->flush();
}

/// Says that the run failed, if the folder still takes that: without its last line the export is
/// INCOMPLETE as well.
std::exception_ptr FolderStore::fail(std::exception_ptr cause) {
  try {
    if (run_) add(0, RunEnd{false});
  } catch (const std::system_error&) {
  }
  return cause;
}

fs::path FolderStore::free_file(const std::string& prompt) const {
  for (int64_t i = 1;; ++i) {
    fs::path file = run_folder_ / "traces" /
                    (file_stem(prompt) + (i > 1 ? "_" + std::to_string(i) : "") + "_trace.jsonl");
    const auto has_file = [&file](const Prompt& other) { return other.file == file; };
    if (std::none_of(prompts_.begin(), prompts_.end(), has_file)) return file;
  }
}

void FolderStore::add(size_t, const PromptRecord& prompt) {
  run_->write(run_prompt_line(prompt));
  const auto same = std::find_if(prompts_.begin(), prompts_.end(),
                                 [&](const Prompt& one) { return one.name == prompt.name; });
  prompts_.push_back({prompt.name, same == prompts_.end() ? free_file(prompt.name) : same->file});
}

LineFile& FolderStore::trace_of(size_t prompt) {
  if (const auto found = open_.find(prompt); found != open_.end()) return found->second;
  if (open_.size() == kMaxOpenFiles) close_traces();
  LineFile file(prompts_.at(prompt).file, LineFile::Existing::kAppend);
  return open_.emplace(prompt, std::move(file)).first->second;
}

void FolderStore::close_traces() {
  for (auto& [prompt, file] : open_) file.close();
  open_.clear();
}

void FolderStore::add(size_t prompt, const std::vector<TraceRecord>& rows) {
  LineFile& file = trace_of(prompt);
  const std::string& name = prompts_.at(prompt).name;
  for (const TraceRecord& row : rows) {
    file.write(stage_trace_line(row, name));
    if (row.difference) file.write(difference_line(row, name));
  }
  rows_ += static_cast<int64_t>(rows.size());
}

void FolderStore::add(size_t, const RunEnd& end) {
  close_traces();
  run_->write(run_end_line(end.complete, rows_, utc_now()));
  run_->close();
  run_.reset();
}

}  // namespace

std::unique_ptr<RunStore> store_in_lines(LineFile file, const RunRecord& run) {
  return std::make_unique<LinesStore>(std::move(file), run);
}

std::unique_ptr<RunStore> store_in_folder(const fs::path& folder, const RunRecord& run) {
  return std::make_unique<FolderStore>(folder, run);
}

std::vector<std::unique_ptr<RunStore>> open_stores(const RunTargets& targets,
                                                   const RunRecord& run) {
  std::vector<std::unique_ptr<RunStore>> stores;
  // Exports first: a folder that cannot be written must not leave an empty run behind.
  if (!targets.jsonl_folder.empty()) stores.push_back(store_in_folder(targets.jsonl_folder, run));
  if (!targets.delta_file.empty()) stores.push_back(store_lm_head(targets.delta_file));
  if (targets.database.empty()) return stores;
  try {
    stores.push_back(store_in_database(targets.database, run));
  } catch (const SQLite::Exception& error) {
    throw DatabaseError("cannot write to " + targets.database + ": " + error.what() +
                        "; check that its folder exists and can be written, or give another file");
  }
  return stores;
}

}  // namespace greta
