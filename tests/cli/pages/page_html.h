// What a page consists of, as a reader of HTML finds it.
#pragma once
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

/// A start tag.
struct Tag {
  std::string name;
  std::map<std::string, std::string> attributes;  // as written, not unescaped

  bool has_class(const std::string& name_of) const {
    const auto found = attributes.find("class");
    if (found == attributes.end()) return false;
    return (" " + found->second + " ").find(" " + name_of + " ") != std::string::npos;
  }
};

/// The start tags of a page in order; the content of scripts and styles is none. Follows the states
/// of the HTML standard's tokenizer that well-formed pages reach.
inline std::vector<Tag> tags_of(std::string_view html) {
  std::vector<Tag> tags;
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  for (size_t i = 0; i < html.size();) {
    if (html[i] != '<') {
      ++i;
      continue;
    }
    if (html.substr(i, 4) == "<!--") {
      i = html.find("-->", i);
      continue;
    }
    const bool end = i + 1 < html.size() && html[i + 1] == '/';
    size_t at = i + 1 + (end ? 1 : 0);
    if (at >= html.size() || !std::isalpha(static_cast<unsigned char>(html[at]))) {
      ++i;
      continue;
    }
    Tag tag;
    while (at < html.size() && !is_space(html[at]) && html[at] != '>' && html[at] != '/')
      tag.name += static_cast<char>(std::tolower(html[at++]));
    while (at < html.size() && html[at] != '>') {
      if (is_space(html[at]) || html[at] == '/') {
        ++at;
        continue;
      }
      std::string name, value;
      while (at < html.size() && !is_space(html[at]) && html[at] != '>' && html[at] != '=')
        name += html[at++];
      if (at < html.size() && html[at] == '=') {
        ++at;
        if (html[at] == '"' || html[at] == '\'') {
          const char quote = html[at++];
          while (at < html.size() && html[at] != quote) value += html[at++];
          ++at;
        } else {
          while (at < html.size() && !is_space(html[at]) && html[at] != '>') value += html[at++];
        }
      }
      tag.attributes[name] = value;
    }
    i = at + 1;
    if (end) continue;
    if (tag.name == "script" || tag.name == "style") i = html.find("</" + tag.name, i);
    tags.push_back(std::move(tag));
  }
  return tags;
}

/// How many of each there are, with the names of their attributes: "td class" and so on.
inline std::map<std::string, int> structure_of(std::string_view html) {
  std::map<std::string, int> counts;
  for (const Tag& tag : tags_of(html)) {
    std::string text = tag.name;
    for (const auto& [name, value] : tag.attributes) text += " " + name;
    ++counts[text];
  }
  return counts;
}

/// The script that runs.
inline std::string script_of(const std::string& html) {
  const size_t from = html.rfind("<script>") + 8;
  return html.substr(from, html.find("</script>", from) - from);
}

/// The data block.
inline nlohmann::json data_of(const std::string& html) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const size_t from = html.find(begin) + begin.size();
  return nlohmann::json::parse(html.substr(from, html.find("</script>", from) - from));
}

}  // namespace greta
