#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace greta {

/// How long the stages of a program took, one after the other from its start on.
class StageTimes {
 public:
  struct Stage {
    std::string name;
    double seconds;
  };

  /// The first stage began with the process.
  StageTimes();

  /// The stage at hand is over, and the next one begins. One that is named again goes on.
  void end(const std::string& name);

  const std::vector<Stage>& stages() const { return stages_; }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_;
  std::vector<Stage> stages_;
};

}  // namespace greta
