#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "db/trace_row.h"
#include "engine/record/line_file.h"
#include "engine/record/run_queue.h"
#include "include/greta_trace.h"

namespace greta::trace {

/// A run that callers of the C API write, from any number of threads at once. Arguments that cannot
/// be taken are BadArgument; once the queue has failed, every call throws what it threw; what
/// comes beside or after end() and is not taken is RunEnded.
class Run {
 public:
  /// sample_values: leading values that are kept of each row.
  Run(std::unique_ptr<RunStore> store, size_t sample_values)
      : queue_(std::move(store)), sample_values_(sample_values) {}

  const std::string& name() const { return queue_.run_name(); }

  void add_prompt(const PromptRecord& prompt);
  void add_plan(const char* prompt, std::span<const greta_planned> rows);
  /// Rows of n values each, of consecutive positions from first's on, stride_bytes apart.
  /// token_ids: [n_rows], or empty.
  void add_values(const greta_row& first, ValueType type, const void* values, size_t n_rows,
                  size_t n, size_t stride_bytes, std::span<const int32_t> token_ids);
  void add_fingerprint(const greta_row& row, const Fingerprint& fingerprint);
  void add_attribute(const RunRecord::Attribute& fact);
  void flush() { queue_.flush(); }
  /// A call that adds rows or a plan was refused, for `why`: the run lacks what it was given.
  void note_refusal(const std::string& why);
  /// Refused where it was to be complete and lacks something: it has ended as failed then.
  void end(bool complete);

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  template <class What>
  using ByName = std::unordered_map<std::string, What, Hash, std::equal_to<>>;

  size_t prompt_of(const char* name);
  size_t the_only_prompt();
  size_t begin_prompt(const PromptRecord& prompt);
  TracePoint point_of(const char* tensor);

  RunQueue queue_;
  const size_t sample_values_;

  std::shared_mutex prompts_mutex_;  ///< also of the order in which the queue gets prompts
  ByName<size_t> prompts_;
  std::shared_mutex points_mutex_;
  ByName<TracePoint> points_;
  std::mutex refusals_mutex_;
  size_t n_refusals_ = 0;
  std::string first_refusal_;
  std::mutex still_hash_mutex_;
  StillHash still_hash_;  ///< of fingerprints that others worked out
};

/// Fingerprint of n values of any alignment.
Fingerprint fingerprint_of_values(ValueType type, const void* values, size_t n);

/// Target that runs are written to: a database, or one file of JSON lines. From any thread.
class Target {
 public:
  /// Throws what says that nothing can be written there.
  Target(const char* path, greta_kind kind);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  std::shared_ptr<Run> begin_run(const greta_run_info& info);

 private:
  const std::filesystem::path database_;  ///< empty for a file of JSON lines

  std::mutex mutex_;
  std::optional<LineFile> lines_;  ///< until its run begins
};

}  // namespace greta::trace
