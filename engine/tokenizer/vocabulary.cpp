#include "engine/tokenizer/vocabulary.h"

#include <array>
#include <cmath>
#include <limits>

#include "engine/gguf/parser.h"
#include "engine/tokenizer/pre_tokenizer.h"

namespace greta {
namespace {

constexpr int kHighestType = static_cast<int>(TokenType::kByte);

const GgufArray& required_array(const GgufFile& file, std::string_view key, const Vocabulary& to) {
  const GgufArray* array = file.array_value(key);
  if (array == nullptr) to.fail("there is no " + std::string(key));
  return *array;
}

std::vector<std::string> read_strings(const GgufFile& file, std::string_view key,
                                      const Vocabulary& to) {
  const GgufArray& array = required_array(file, key, to);
  if (array.strings.size() != array.count) to.fail(std::string(key) + " is no array of strings");
  return {array.strings.begin(), array.strings.end()};
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// What a file means that does not say whether BOS goes before a text.
bool usually_adds_bos(const Vocabulary& vocabulary) {
  if (vocabulary.model != "gpt2") return true;
  const PreTokenizerKind* kind = find_pre_tokenizer(vocabulary.pre);
  return kind != nullptr && kind->adds_bos;
}

void read_special_ids(const GgufFile& file, Vocabulary& to) {
  const bool llama = to.model == "llama";
  struct Special {
    std::string_view key;
    int32_t& id;
    int32_t or_else;
  };
  const std::array<Special, 5> specials{{
      {"tokenizer.ggml.bos_token_id", to.bos, llama ? 1 : 11},
      {"tokenizer.ggml.eos_token_id", to.eos, llama ? 2 : 11},
      {"tokenizer.ggml.unknown_token_id", to.unknown, llama ? 0 : -1},
      {"tokenizer.ggml.eot_token_id", to.eot, -1},
      {"tokenizer.ggml.eom_token_id", to.eom, -1},
  }};
  const auto count = static_cast<int64_t>(to.tokens.size());
  for (const auto& [key, id, or_else] : specials) {
    if (file.find(key) == nullptr) {
      id = or_else < count ? or_else : -1;
      continue;
    }
    const uint64_t value = file.unsigned_value(key);
    if (value >= to.tokens.size()) {
      to.fail(std::string(key) + " is " + std::to_string(value) + ", but there are only " +
              std::to_string(count) + " tokens");
    }
    id = static_cast<int32_t>(value);
  }
}

}  // namespace

Vocabulary Vocabulary::read(const GgufFile& file) {
  Vocabulary to;
  to.source = file.name();
  to.model = file.string_value("tokenizer.ggml.model", "");
  to.pre = file.string_value("tokenizer.ggml.pre", "");
  to.tokens = read_strings(file, "tokenizer.ggml.tokens", to);
  if (to.tokens.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    to.fail("tokenizer.ggml.tokens has " + std::to_string(to.tokens.size()) + " tokens");
  }
  if (file.find("tokenizer.ggml.token_type") == nullptr) {
    to.types.resize(to.tokens.size(), TokenType::kNormal);
  } else {
    for (const int32_t type : file.int_array("tokenizer.ggml.token_type")) {
      to.types.push_back(static_cast<TokenType>(type));
    }
  }
  if (to.model == "llama") to.scores = file.float_array("tokenizer.ggml.scores");
  if (to.model == "gpt2") to.merges = read_strings(file, "tokenizer.ggml.merges", to);
  read_special_ids(file, to);
  to.add_bos = file.bool_value("tokenizer.ggml.add_bos_token", usually_adds_bos(to));
  to.add_eos = file.bool_value("tokenizer.ggml.add_eos_token", false);
  to.add_space_prefix =
      to.model == "llama" && file.bool_value("tokenizer.ggml.add_space_prefix", true);
  return to;
}

std::unordered_map<std::string_view, int32_t> Vocabulary::index() const {
  const auto check_length = [this](const char* what, size_t length) {
    if (length == tokens.size()) return;
    fail(std::to_string(length) + " " + what + " for " + std::to_string(tokens.size()) + " tokens");
  };
  if (tokens.empty()) fail("the vocabulary is empty");
  check_length("token types", types.size());
  if (model == "llama") check_length("scores", scores.size());
  for (const int32_t id : {bos, eos, eot, eom, unknown}) {
    if (id < -1 || id >= static_cast<int64_t>(tokens.size())) {
      fail("special token " + std::to_string(id) + " is not in the vocabulary");
    }
  }
  std::unordered_map<std::string_view, int32_t> ids;
  ids.reserve(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto type_number = static_cast<int>(types[i]);
    if (type_number < 0 || type_number > kHighestType) {
      fail("token " + std::to_string(i) + " has the unknown type " + std::to_string(type_number));
    }
    if (!scores.empty() && std::isnan(scores[i])) {
      fail("the score of token " + std::to_string(i) + " is not a number");
    }
    if (tokens[i].empty()) continue;
    const auto [other, is_new] = ids.try_emplace(tokens[i], static_cast<int32_t>(i));
    if (!is_new) {
      fail("tokens " + std::to_string(other->second) + " and " + std::to_string(i) +
           " have the same text");
    }
  }
  return ids;
}

std::string Vocabulary::byte_text(size_t id) const {
  const std::string& text = tokens[id];
  const bool framed = text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
  const int high = framed ? hex_digit(text[3]) : -1, low = framed ? hex_digit(text[4]) : -1;
  if (high < 0 || low < 0) {
    fail("byte token " + std::to_string(id) + " is " + gguf_quoted(text) +
         ", not of the form <0x0A>");
  }
  return {static_cast<char>(high * 16 + low)};
}

void Vocabulary::fail(const std::string& what) const {
  throw GgufError(source + ": tokenizer: " + what);
}

}  // namespace greta
