#include "engine/tokenizer/vocabulary.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/gguf/parser.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/gguf/bytes.h"

namespace greta {
namespace {

/// A GGUF file that has metadata only.
class VocabularyFile {
 public:
  VocabularyFile& text(std::string_view key, std::string_view value) {
    start(key, GgufType::kString).string(value);
    return *this;
  }
  VocabularyFile& number(std::string_view key, uint32_t value) {
    start(key, GgufType::kUint32).put(value);
    return *this;
  }
  VocabularyFile& flag(std::string_view key, bool value) {
    start(key, GgufType::kBool).put(static_cast<uint8_t>(value));
    return *this;
  }
  VocabularyFile& texts(std::string_view key, const std::vector<std::string>& values) {
    start_array(key, GgufType::kString, values.size());
    for (const std::string& value : values) entries_.string(value);
    return *this;
  }
  template <typename T>
  VocabularyFile& numbers(std::string_view key, GgufType type, const std::vector<T>& values) {
    start_array(key, type, values.size());
    for (const T value : values) entries_.put(value);
    return *this;
  }

  std::string bytes() const { return GgufBytes(0, n_entries_).text(entries_.str()).str(); }

 private:
  GgufBytes& start(std::string_view key, GgufType type) {
    ++n_entries_;
    return entries_.key(key, static_cast<uint32_t>(type));
  }
  void start_array(std::string_view key, GgufType element, size_t count) {
    start(key, GgufType::kArray).put(static_cast<uint32_t>(element)).put(uint64_t{count});
  }

  GgufBytes entries_;
  uint64_t n_entries_ = 0;
};

Vocabulary read(const VocabularyFile& file) {
  const std::string bytes = file.bytes();
  return Vocabulary::read(GgufFile::parse(std::as_bytes(std::span(bytes)), "made.gguf"));
}

std::string error_of(const std::function<void()>& use) {
  try {
    use();
  } catch (const GgufError& error) {
    return error.what();
  }
  return "no error";
}

void expect_error(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nwithout: " << part;
}

VocabularyFile llama_file() {
  VocabularyFile file;
  file.text("tokenizer.ggml.model", "llama");
  file.texts("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "▁a"});
  file.numbers<float>("tokenizer.ggml.scores", GgufType::kFloat32, {0, 0, 0, -1.5f});
  return file.numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kInt32, {2, 3, 3, 1});
}

VocabularyFile gpt2_file(size_t n_tokens, std::string_view pre = "llama3") {
  std::vector<std::string> tokens;
  for (size_t i = 0; i < n_tokens; ++i) {
    tokens.push_back(to_byte_level(std::string(1 + i / 256, static_cast<char>(i))));
  }
  VocabularyFile file;
  file.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  return file.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", {});
}

TEST(Vocabulary, LlamaDefaultsStandForWhatTheFileDoesNotSay) {
  const Vocabulary vocabulary = read(llama_file());
  EXPECT_EQ(vocabulary.source, "made.gguf");
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"<unk>", "<s>", "</s>", "▁a"}));
  EXPECT_EQ(vocabulary.scores, (std::vector<float>{0, 0, 0, -1.5f}));
  EXPECT_EQ(vocabulary.types[1], TokenType::kControl);
  EXPECT_EQ(vocabulary.unknown, 0);
  EXPECT_EQ(vocabulary.bos, 1);
  EXPECT_EQ(vocabulary.eos, 2);
  EXPECT_EQ(vocabulary.eot, -1);
  EXPECT_TRUE(vocabulary.add_bos);
  EXPECT_FALSE(vocabulary.add_eos);
  EXPECT_TRUE(vocabulary.add_space_prefix);
}

TEST(Vocabulary, Gpt2DefaultsStandForWhatTheFileDoesNotSay) {
  const Vocabulary vocabulary = read(gpt2_file(256));
  EXPECT_EQ(vocabulary.pre, "llama3");
  EXPECT_EQ(vocabulary.types, std::vector(256, TokenType::kNormal));
  EXPECT_EQ(vocabulary.bos, 11);
  EXPECT_EQ(vocabulary.eos, 11);
  EXPECT_EQ(vocabulary.unknown, -1);
  EXPECT_TRUE(vocabulary.add_bos);
  EXPECT_FALSE(vocabulary.add_eos);
  EXPECT_FALSE(vocabulary.add_space_prefix);
  EXPECT_EQ(read(gpt2_file(5)).bos, -1);
}

TEST(Vocabulary, WhetherBosIsAddedFollowsThePreTokenizerWhereTheFileDoesNotSay) {
  const auto adds_bos = [](const char* pre) { return read(gpt2_file(256, pre)).add_bos; };
  for (const char* pre : {"llama-bpe", "llama3", "llama-v3", "tekken"}) {
    EXPECT_TRUE(adds_bos(pre)) << pre;
  }
  for (const char* pre : {"qwen2", "smollm", "deepseek-llm", "gpt-2", "default", "", "other"}) {
    EXPECT_FALSE(adds_bos(pre)) << pre;
  }
  VocabularyFile file = gpt2_file(256, "qwen2");
  EXPECT_TRUE(read(file.flag("tokenizer.ggml.add_bos_token", true)).add_bos);
}

TEST(Vocabulary, AFileThatNamesNoPreTokenizerIsSplitByDefault) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) {
    tokens.push_back(to_byte_level(std::string(1, static_cast<char>(byte))));
  }
  tokens.push_back("34");
  VocabularyFile file;
  file.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", tokens);
  const std::string bytes = file.texts("tokenizer.ggml.merges", {"3 4"}).bytes();
  const auto tokenizer =
      Tokenizer::load(GgufFile::parse(std::as_bytes(std::span(bytes)), "made.gguf"));
  EXPECT_EQ(tokenizer->encode("1234", true, true), (std::vector<int32_t>{'1', '2', '3', '4'}));
  EXPECT_EQ(tokenizer->encode("34", true, true), std::vector<int32_t>{256});
}

TEST(Vocabulary, WhatTheFileSaysWins) {
  VocabularyFile file = llama_file();
  file.number("tokenizer.ggml.bos_token_id", 2).number("tokenizer.ggml.eos_token_id", 1);
  file.number("tokenizer.ggml.eot_token_id", 3).number("tokenizer.ggml.unknown_token_id", 3);
  file.number("tokenizer.ggml.eom_token_id", 0);
  file.flag("tokenizer.ggml.add_bos_token", false).flag("tokenizer.ggml.add_eos_token", true);
  const Vocabulary vocabulary = read(file.flag("tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ(vocabulary.bos, 2);
  EXPECT_EQ(vocabulary.eos, 1);
  EXPECT_EQ(vocabulary.eot, 3);
  EXPECT_EQ(vocabulary.eom, 0);
  EXPECT_EQ(vocabulary.unknown, 3);
  EXPECT_FALSE(vocabulary.add_bos);
  EXPECT_TRUE(vocabulary.add_eos);
  EXPECT_FALSE(vocabulary.add_space_prefix);
}

TEST(Vocabulary, FilesThatDoNotFitAreRefusedInOneLine) {
  VocabularyFile numbers;
  numbers.text("tokenizer.ggml.model", "llama");
  numbers.numbers<int32_t>("tokenizer.ggml.tokens", GgufType::kInt32, {1, 2});
  VocabularyFile no_scores;
  no_scores.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"a"});
  VocabularyFile no_merges;
  no_merges.text("tokenizer.ggml.model", "gpt2").texts("tokenizer.ggml.tokens", {"a"});
  const std::vector<std::pair<VocabularyFile, std::string>> cases{
      {VocabularyFile{}, "tokenizer.ggml.tokens"},
      {VocabularyFile{}.text("tokenizer.ggml.tokens", "a"), "tokenizer.ggml.tokens"},
      {numbers, "no array of strings"},
      {no_scores, "tokenizer.ggml.scores"},
      {no_merges, "tokenizer.ggml.merges"},
      {llama_file().number("tokenizer.ggml.eos_token_id", 4), "eos_token_id is 4"},
      {llama_file().number("tokenizer.ggml.bos_token_id", 0xffffffff), "bos_token_id"},
      {llama_file().text("tokenizer.ggml.add_bos_token", "yes"), "add_bos_token"},
  };
  for (const auto& [file, part] : cases) {
    const std::string message = error_of([&made = file] { read(made); });
    expect_error(message, part);
    expect_error(message, "made.gguf: ");
    EXPECT_EQ(message.find('\n'), std::string::npos);
  }
}

TEST(Vocabulary, FileMakesATokenizer) {
  const std::string bytes = llama_file().bytes();
  const auto tokenizer =
      Tokenizer::load(GgufFile::parse(std::as_bytes(std::span(bytes)), "made.gguf"));
  EXPECT_EQ(tokenizer->encode("é", true, true), (std::vector<int32_t>{1, 0, 0, 0}));
  EXPECT_EQ(tokenizer->encode("", true, true), std::vector<int32_t>{1});
}

Vocabulary sound_gpt2() {
  Vocabulary vocabulary = read(gpt2_file(300));
  vocabulary.merges = {"a a"};
  return vocabulary;
}

TEST(Vocabulary, UnsoundVocabulariesAreRefused) {
  using Change = std::function<void(Vocabulary&)>;
  const std::vector<std::pair<std::string, Change>> cases{
      {"'gpt3'; supported: gpt2 llama", [](auto& v) { v.model = "gpt3"; }},
      {"is ''; supported: gpt2 llama", [](auto& v) { v.model.clear(); }},
      {"'falcon'; supported: llama-bpe llama3 llama-v3 qwen2 smollm deepseek-llm tekken gpt-2 "
       "default",
       [](auto& v) { v.pre = "falcon"; }},
      {"vocabulary is empty", [](auto& v) { v.tokens.clear(); }},
      {"299 token types for 300 tokens", [](auto& v) { v.types.pop_back(); }},
      {"299 scores for 300 tokens",
       [](auto& v) {
         v.model = "llama";
         v.scores.resize(299);
       }},
      {"score of token 7 is not a number",
       [](auto& v) {
         v.model = "llama";
         v.scores.resize(300);
         v.scores[7] = std::numeric_limits<float>::quiet_NaN();
       }},
      {"type 7", [](auto& v) { v.types[3] = static_cast<TokenType>(7); }},
      {"type -1", [](auto& v) { v.types[3] = static_cast<TokenType>(-1); }},
      {"tokens 10 and 299 have the same text", [](auto& v) { v.tokens[299] = v.tokens[10]; }},
      {"special token 300", [](auto& v) { v.eos = 300; }},
      {"special token -2", [](auto& v) { v.eot = -2; }},
      {"no BOS token", [](auto& v) { v.bos = -1; }},
      {"no EOS token",
       [](auto& v) {
         v.eos = -1;
         v.add_eos = true;
       }},
      {"no token is the byte 65", [](auto& v) { v.tokens['A'] = "none"; }},
      {"no token is the byte 244", [](auto& v) { v.tokens[0xf4] = "none"; }},
      {"no token is the byte 65", [](auto& v) { v.types['A'] = TokenType::kControl; }},
      {"byte token 65 is 'A'", [](auto& v) { v.types['A'] = TokenType::kByte; }},
      {"byte token 65 is '<0xG0>'",
       [](auto& v) {
         v.types['A'] = TokenType::kByte;
         v.tokens['A'] = "<0xG0>";
       }},
      {"merge 1 is not two texts", [](auto& v) { v.merges.push_back("ab"); }},
      {"merge 1 is not two texts", [](auto& v) { v.merges.push_back(""); }},
      {"merge 1, 'a xyz', needs 'xyz'", [](auto& v) { v.merges.push_back("a xyz"); }},
      {"merge 1, 'a b', needs 'ab'", [](auto& v) { v.merges.push_back("a b"); }},
      {"merge 1, 'a ', needs ''", [](auto& v) { v.merges.push_back("a "); }},
  };
  ASSERT_EQ(error_of([] { Tokenizer::make(sound_gpt2()); }),
            "made.gguf: tokenizer: merge 0, 'a a', needs 'aa', which is no token");
  for (const auto& [part, change] : cases) {
    Vocabulary vocabulary = sound_gpt2();
    vocabulary.tokens[280] = "aa";
    ASSERT_NO_THROW(Tokenizer::make(vocabulary));
    change(vocabulary);
    expect_error(error_of([&] { Tokenizer::make(vocabulary); }), part);
  }
}

TEST(Vocabulary, EmptyTokensAreNeverTakenFromText) {
  Vocabulary vocabulary = sound_gpt2();
  vocabulary.merges.clear();
  vocabulary.tokens[290].clear();
  vocabulary.tokens[291].clear();
  vocabulary.types[291] = TokenType::kControl;
  const auto tokenizer = Tokenizer::make(vocabulary);
  EXPECT_EQ(tokenizer->encode("xy", false, true), (std::vector<int32_t>{'x', 'y'}));
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{290, 'x', 291}, true), "x");
}

}  // namespace
}  // namespace greta
