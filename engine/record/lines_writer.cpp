#include "engine/record/lines_writer.h"

#include <utility>

#include "common/utc_time.h"
#include "engine/record/trace_json.h"

namespace greta {

class LinesWriter::Target final : public RunTarget {
 public:
  Target(LineFile file, const RunRecord& run) : file_(std::move(file)) {
    file_.write(rows::start_line(run));
    file_.flush();
  }

  void write(const std::vector<RunItem>& items) override {
    for (const RunItem& item : items) std::visit([this](const auto& what) { add(what); }, item);
    file_.flush();
  }

  std::exception_ptr fail(std::exception_ptr cause) override { return cause; }

 private:
  void add(const PromptRecord& prompt) {
    prompts_.push_back(prompt.name);
    file_.write(rows::prompt_line(prompt));
  }
  void add(const OfPrompt<std::vector<PlannedRow>>& plan) {
    PromptRecord more;
    more.name = prompts_.at(plan.prompt);
    more.plan = plan.what;
    file_.write(rows::prompt_line(more));
  }
  void add(const OfPrompt<std::vector<TraceRecord>>& rows) {
    const std::string& prompt = prompts_.at(rows.prompt);
    for (const TraceRecord& row : rows.what) file_.write(rows::row_line(row, prompt));
    rows_ += static_cast<int64_t>(rows.what.size());
  }
  void add(const OfPrompt<ReadoutRecord>&) {}
  void add(const RunAttribute& a) {
    if (!a.value.empty()) file_.write(run_attribute_line(a.name, a.value));
  }
  void add(const RunEnd& end) {
    file_.write(run_end_line(end.complete, rows_, utc_now()));
    file_.close();
  }

  LineFile file_;
  std::vector<std::string> prompts_;
  int64_t rows_ = 0;
};

LinesWriter::LinesWriter(LineFile file, const RunRecord& run) : run_name_(base_run_name(run)) {
  start(std::make_unique<Target>(std::move(file), run));
}

}  // namespace greta
