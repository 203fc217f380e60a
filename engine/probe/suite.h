#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/forward/tracer.h"
#include "engine/tokenizer/tokenizer.h"

// Suites of prompts that greta brings along.

namespace greta {

/// A prompt of a suite, as text: token ids depend on the model.
struct SuitePrompt {
  std::string_view name;  ///< p6_len_16
  std::string_view text;
  int64_t n_tokens = 0;     ///< cut to as many, BOS included; 0: as long as it is
  bool over_batch = false;  ///< cut to one token more than prefill takes at once
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
/// repeated where it is too short for that. max_batch: tokens that prefill takes at once. Throws
/// std::invalid_argument when the tokenizer gives fewer tokens than the prompt needs, or none.
std::vector<int32_t> prompt_tokens(const SuitePrompt& prompt, const Tokenizer& tokenizer,
                                   int64_t max_batch = 0);

}  // namespace greta
