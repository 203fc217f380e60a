#include "engine/probe/suite_file.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "engine/forward/model.h"

namespace greta {
namespace {

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

}  // namespace greta
