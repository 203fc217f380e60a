#include "engine/probe/suite.h"

#include <stdexcept>

namespace greta {
namespace {

// Long enough for 32 tokens of any vocabulary: a word is at least one.
constexpr std::string_view kLongText =
    "The engine reads the whole prompt at once, and then it reads the last word again, alone. "
    "Both times the same weights meet the same numbers, in another order; what comes out should "
    "be the same up to rounding. If it is not, somebody has to find the first place where the two "
    "part ways, and say whether it matters.";

const std::vector<Suite>& all_suites() {
  static const std::vector<SuitePrompt> drift_prompts{
      {"p0_short", "Hi", 0}, {"p6_len_16", kLongText, 16}, {"p6_len_32", kLongText, 32}};
  static const std::vector<Suite> suites{
      {"b3_66",
       "prefill versus decode of the same token, every trace point",
       drift_prompts,
       {},
       false},
      {"b3_66_v2",
       "b3_66 with attention scores and KV alignment, as_designed or kv_aligned",
       drift_prompts,
       {},
       false},
      {"b3_13",
       "after the stack: RMS norm checked, LM head audited, logits recomputed in double",
       {{"p4_sys",
         "<|start_header_id|>system<|end_header_id|>\n\nYou answer in one short "
         "sentence.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nWhich city is the capital "
         "of Argentina?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
         0},
        {"p5_ba", "La capital de la República Argentina es la ciudad de Buenos", 0}},
       {TracePoint::kHidden, TracePoint::kFinalNorm, TracePoint::kLmHeadIn, TracePoint::kLogits,
        TracePoint::kLogitsTop1, TracePoint::kLogitsTopk},
       true},
  };
  return suites;
}

}  // namespace

std::span<const Suite> suites() { return all_suites(); }

const Suite& find_suite(std::string_view name) {
  std::string known;
  for (const Suite& suite : all_suites()) {
    if (suite.name == name) return suite;
    known.append(known.empty() ? "" : ", ").append(suite.name);
  }
  throw std::invalid_argument("no suite '" + std::string(name) + "'; there are " + known);
}

std::vector<int32_t> prompt_tokens(const SuitePrompt& prompt, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.encode(prompt.text, true, true);
  const auto n = static_cast<size_t>(prompt.n_tokens);
  if (ids.empty() || ids.size() < n) {
    throw std::invalid_argument(
        "prompt " + std::string(prompt.name) + " gives " + std::to_string(ids.size()) +
        " tokens with this vocabulary; it needs " + std::to_string(std::max<size_t>(n, 1)));
  }
  if (n > 0) ids.resize(n);
  return ids;
}

}  // namespace greta
