#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/forward/model.h"
#include "engine/forward/tracer.h"
#include "engine/tokenizer/tokenizer.h"

// Suites of prompts: those that greta brings along, files, and which prompts are computed together.

namespace greta {

/// A prompt of a suite, as text: token ids depend on the model.
struct SuitePrompt {
  std::string_view name;  ///< p6_len_16
  std::string_view text;
  int64_t n_tokens = 0;                   ///< cut to as many, BOS included; 0: as long as it is
  int64_t most_steps = kMaxModelContext;  ///< tokens that are decoded after it, at most
};

/// A fixed set of prompts and trace points.
struct Suite {
  std::string_view name;         ///< b3_66_v2; the experiment of its runs
  std::string_view description;  ///< one line, for --help
  std::vector<SuitePrompt> prompts;
  std::vector<TracePoint> points;  ///< empty: all
  bool head_checks = false;        ///< RMS verify, LM-head audit and CPU probe
  bool drops_prompts = false;      ///< those that a model's context has no room for
};

std::span<const Suite> suites();
/// Throws std::invalid_argument that lists the suites.
const Suite& find_suite(std::string_view name);

/// Token ids of a suite's prompt: with BOS where the model has one, cut to its length, the text
/// repeated where it is too short for that. Throws std::invalid_argument when the tokenizer gives
/// fewer tokens than the prompt needs, or none.
std::vector<int32_t> prompt_tokens(const SuitePrompt& prompt, const Tokenizer& tokenizer);

/// A prompt of a suite's file, as text or as ids.
struct FilePrompt {
  std::string name;
  std::optional<std::string> text;  ///< else tokens, at least one
  std::vector<int32_t> tokens;
  std::optional<int64_t> decode_steps;
  int64_t line = 0;
};

/// Prompts of one's own, JSON Lines: {"name": "a", "text": "Hi"} or {"name": "b", "tokens": [1,
/// 5]}, each with "decode_steps" where it is to have its own number. Blank lines are passed over.
struct SuiteFile {
  std::vector<FilePrompt> prompts;
  std::vector<std::string> mistakes;  ///< FILE:LINE: why, of every line that cannot be taken
};

/// vocab: ids that there are. Throws std::invalid_argument when the file cannot be read.
SuiteFile read_suite_file(const std::filesystem::path& file, int64_t vocab);

/// Numbers of a suite's prompts that run again after all others: the shortest that have two tokens
/// or more. Several as long as they are an eighth of all tokens at most; none of a single prompt.
/// lengths: their tokens.
std::vector<size_t> prompts_to_run_again(std::span<const int64_t> lengths);

/// Sequences that a batch has at most where nobody says how many: more gain nothing.
inline constexpr int64_t kMostSequences = 64;

/// Limits that a group of prompts must fit.
struct GroupLimits {
  int64_t sequences = 1;
  int64_t tokens = 0;  ///< of all; a prompt that has more is alone
};

/// Prompts in their order, some together: how many each group has. lengths: their tokens, with
/// those decoded after them.
std::vector<size_t> group_sizes(std::span<const int64_t> lengths, const GroupLimits& limits);

/// Sizes of the largest groups.
struct GroupExtent {
  int64_t sequences = 1;
  int64_t tokens = 0;
  int64_t cache_rows = 0;  ///< of groups of several, a spare one for each
};
GroupExtent extent_of(std::span<const int64_t> lengths, const GroupLimits& limits);

/// Bytes that a probe takes of a backend at most, about, but for the weights. kept_bytes: for the
/// rows of each sequence that wait for their other side.
int64_t probe_bytes(const ModelConfig& config, std::span<const int64_t> lengths,
                    const GroupLimits& limits, int64_t kept_bytes);

/// Sequences, at most limits.sequences, that fit free_bytes, with a reserve; at least one.
int64_t sequences_that_fit(const ModelConfig& config, std::span<const int64_t> lengths,
                           GroupLimits limits, int64_t kept_bytes, int64_t free_bytes);

}  // namespace greta
