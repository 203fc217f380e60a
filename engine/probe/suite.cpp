#include "engine/probe/suite.h"

#include <stdexcept>

namespace greta {
namespace {

// Long enough for 32 tokens of any vocabulary: a word is at least one. Longer prompts repeat it.
constexpr std::string_view kLongText =
    "The engine reads the whole prompt at once, and then it reads the last word again, alone. "
    "Both times the same weights meet the same numbers, in another order; what comes out should "
    "be the same up to rounding. If it is not, somebody has to find the first place where the two "
    "part ways, and say whether it matters.";

const std::vector<Suite>& all_suites() {
  static const std::vector<SuitePrompt> drift_prompts{
      {"p0_short", "Hi", 0}, {"p6_len_16", kLongText, 16}, {"p6_len_32", kLongText, 32}};
  // One token; one beside what kernels take at once, and one more; many; more than a batch.
  static const std::vector<SuitePrompt> lengths{
      {"len_1", kLongText, 1},     {"len_2", kLongText, 2},     {"len_3", kLongText, 3},
      {"len_16", kLongText, 16},   {"len_17", kLongText, 17},   {"len_32", kLongText, 32},
      {"len_33", kLongText, 33},   {"len_43", kLongText, 43},   {"len_97", kLongText, 97},
      {"len_129", kLongText, 129}, {"len_300", kLongText, 300}, {"over_batch", kLongText, 0, true}};
  static const std::vector<Suite> suites{
      {"default",
       "prefill versus decode of the same token, every trace point, at many lengths",
       lengths,
       {},
       false,
       true},
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

std::vector<int32_t> prompt_tokens(const SuitePrompt& prompt, const Tokenizer& tokenizer,
                                   int64_t max_batch) {
  std::vector<int32_t> ids = tokenizer.encode(prompt.text, true, true);
  const auto n = static_cast<size_t>(prompt.over_batch ? max_batch + 1 : prompt.n_tokens);
  std::string text(prompt.text);
  for (size_t before = 0; ids.size() > before && ids.size() < n;) {
    before = ids.size();
    text += " " + text;
    ids = tokenizer.encode(text, true, true);
  }
  if (ids.empty() || ids.size() < n) {
    throw std::invalid_argument(
        "prompt " + std::string(prompt.name) + " gives " + std::to_string(ids.size()) +
        " tokens with this vocabulary; it needs " + std::to_string(std::max<size_t>(n, 1)));
  }
  if (n > 0) ids.resize(n);
  return ids;
}

}  // namespace greta
