#include "engine/probe/suite.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "engine/forward/model.h"

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
  // One token; every remainder of 8; what kernels take at once, and one more; more than two
  // batches. What is decoded after a prompt has it prefilled once more: after the longest, nothing
  // is.
  static const std::vector<SuitePrompt> lengths{
      {"len_1", kLongText, 1},        {"len_2", kLongText, 2},
      {"len_3", kLongText, 3},        {"len_5", kLongText, 5},
      {"len_6", kLongText, 6},        {"len_7", kLongText, 7},
      {"len_13", kLongText, 13},      {"len_16", kLongText, 16},
      {"len_17", kLongText, 17},      {"len_32", kLongText, 32, 4},
      {"len_33", kLongText, 33, 4},   {"len_43", kLongText, 43, 4},
      {"len_97", kLongText, 97, 4},   {"len_129", kLongText, 129, 0},
      {"len_300", kLongText, 300, 0}, {"len_1030", kLongText, 1030, 0}};
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

using Json = nlohmann::json;

constexpr size_t kShown = 64;  // characters of a value

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

/// A whole number of [0, end). JSON that is none, or too large for one, is of another type.
int64_t whole_number(const Json& value, int64_t end, const std::string& what) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= static_cast<uint64_t>(end)) {
    refuse(what + " " + value.dump(-1, ' ', true).substr(0, kShown) +
           "; it must be a whole number from 0 to " + std::to_string(end - 1));
  }
  return value.get<int64_t>();
}

std::vector<int32_t> read_tokens(const Json& value, int64_t vocab) {
  if (!value.is_array() || value.empty()) refuse("\"tokens\" must be a list of ids");
  std::vector<int32_t> ids;
  ids.reserve(value.size());
  for (const Json& id : value) {
    ids.push_back(static_cast<int32_t>(whole_number(id, vocab, "there is no token")));
  }
  return ids;
}

const std::string& read_text(const Json& value, const std::string& key) {
  if (!value.is_string()) refuse("\"" + key + "\" must be a text");
  return value.get_ref<const std::string&>();
}

FilePrompt read_prompt(const std::string& line, int64_t vocab) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object()) refuse("it is not one JSON object");
  FilePrompt prompt;
  for (const auto& [key, value] : object.items()) {
    if (key == "name") {
      prompt.name = read_text(value, key);
    } else if (key == "text") {
      prompt.text = read_text(value, key);
    } else if (key == "tokens") {
      prompt.tokens = read_tokens(value, vocab);
    } else if (key == "decode_steps") {
      prompt.decode_steps = whole_number(value, kMaxModelContext, "decode_steps is");
    } else {
      refuse("\"" + key + "\" is none of name, text, tokens and decode_steps");
    }
  }
  if (prompt.name.empty()) refuse("a prompt needs a \"name\"");
  if (prompt.text.has_value() == !prompt.tokens.empty()) {
    refuse("a prompt is either \"text\" or \"tokens\"");
  }
  return prompt;
}

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t\r") == std::string::npos;
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

SuiteFile read_suite_file(const std::filesystem::path& file, int64_t vocab) {
  std::ifstream in(file, std::ios::binary);
  if (!in.is_open()) throw std::invalid_argument("suite " + file.string() + " cannot be read");
  SuiteFile suite;
  std::map<std::string, int64_t> line_of;  // by name
  int64_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (is_blank(line)) continue;
    try {
      FilePrompt prompt = read_prompt(line, vocab);
      prompt.line = number;
      const auto [found, is_new] = line_of.emplace(prompt.name, number);
      if (!is_new) {
        refuse("the name " + prompt.name + " is that of line " + std::to_string(found->second));
      }
      suite.prompts.push_back(std::move(prompt));
    } catch (const std::invalid_argument& mistake) {
      suite.mistakes.push_back(file.string() + ":" + std::to_string(number) + ": " +
                               mistake.what());
    }
  }
  if (in.bad()) throw std::invalid_argument("suite " + file.string() + " cannot be read");
  return suite;
}

std::vector<size_t> prompts_to_run_again(std::span<const int64_t> lengths) {
  constexpr size_t kMost = 3;
  if (lengths.size() < 2) return {};
  std::vector<size_t> order(lengths.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(lengths[a] < 2, lengths[a]) < std::pair(lengths[b] < 2, lengths[b]);
  });
  const int64_t all = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  int64_t tokens = 0;
  size_t n = 0;
  while (n < std::min(kMost, order.size()) && (tokens += lengths[order[n]]) <= all / 8) ++n;
  order.resize(std::max<size_t>(n, 1));
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<size_t> group_sizes(std::span<const int64_t> lengths, const GroupLimits& limits) {
  std::vector<size_t> sizes;
  int64_t tokens = 0;
  for (const int64_t length : lengths) {
    const bool fits = !sizes.empty() && tokens + length <= limits.tokens &&
                      static_cast<int64_t>(sizes.back()) < limits.sequences;
    if (!fits) {
      sizes.push_back(0);
      tokens = 0;
    }
    ++sizes.back();
    tokens += length;
  }
  return sizes;
}

GroupExtent extent_of(std::span<const int64_t> lengths, const GroupLimits& limits) {
  GroupExtent extent;
  size_t first = 0;
  for (const size_t n : group_sizes(lengths, limits)) {
    const auto group = lengths.subspan(first, n);
    const auto sequences = static_cast<int64_t>(n);
    const int64_t tokens = std::accumulate(group.begin(), group.end(), int64_t{0});
    first += n;
    if (n == 1) continue;
    extent.sequences = std::max(extent.sequences, sequences);
    extent.tokens = std::max(extent.tokens, tokens);
    extent.cache_rows = std::max(extent.cache_rows, tokens + sequences);
  }
  return extent;
}

int64_t probe_bytes(const ModelConfig& config, std::span<const int64_t> lengths,
                    const GroupLimits& limits, int64_t kept_bytes) {
  const auto size = static_cast<int64_t>(sizeof(float));
  const GroupExtent extent = extent_of(lengths, limits);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const int64_t tokens = std::max(extent.tokens, std::min(longest, limits.tokens));
  const int64_t cache = 2 * config.n_layers * config.kv_dim() * (longest + 1 + extent.cache_rows);
  // Bytes that activations hold of a token, and as much again of a backend's own.
  const int64_t token = 8 * config.dim + 3 * config.q_dim() + 3 * config.kv_dim() + config.ffn_dim;
  const int64_t sequence = config.vocab + 2 * config.dim + 2 * (longest + 1) * config.n_heads;
  return size * (cache + 2 * tokens * token + extent.sequences * sequence) +
         extent.sequences * kept_bytes;
}

int64_t sequences_that_fit(const ModelConfig& config, std::span<const int64_t> lengths,
                           GroupLimits limits, int64_t kept_bytes, int64_t free_bytes) {
  constexpr int64_t kReserve = 16;  // one part in so many is left to others
  const int64_t usable = free_bytes - free_bytes / kReserve;
  while (limits.sequences > 1 && probe_bytes(config, lengths, limits, kept_bytes) > usable) {
    limits.sequences /= 2;
  }
  return std::max<int64_t>(limits.sequences, 1);
}

}  // namespace greta
