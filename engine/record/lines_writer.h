#pragma once

#include <string>

#include "engine/record/line_file.h"
#include "engine/record/queued_writer.h"

namespace greta {

/// Writes a run to one file in the row format of docs/traces.md, by a thread of its own
/// (QueuedWriter): run_start, then prompts, plans and rows as they come, then run_end. Readouts
/// have no place in it. Errors are std::system_error.
class LinesWriter : public QueuedWriter {
 public:
  /// The first line is in the file when this returns. Throws std::invalid_argument for a name that
  /// no run can have.
  LinesWriter(LineFile file, const RunRecord& run);

  const std::string& run_name() const { return run_name_; }  ///< base_run_name

 private:
  class Target;
  std::string run_name_;
};

}  // namespace greta
