// What a page consists of, as a reader of HTML finds it.
#pragma once
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
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

/// What a reader reads: texts between tags and what names or describes a tag, but no code, styles
/// or scripts. As written, not unescaped.
inline std::vector<std::string> texts_of(const std::string& html) {
  std::vector<std::string> texts;
  std::string skipped;
  for (size_t i = 0; i < html.size();) {
    const size_t end = std::min(html.find(html[i] == '<' ? '>' : '<', i), html.size());
    const std::string part = html.substr(i, end - i);
    i = end + (html[i] == '<' ? 1 : 0);
    if (part[0] != '<') {
      if (skipped.empty()) texts.push_back(part);
      continue;
    }
    const std::string name = part.substr(1, part.find_first_of(" \n", 1) - 1);
    for (const char* quiet : {"script", "style", "code", "pre"}) {
      if (name == quiet) skipped = name;
    }
    if (name == "/" + skipped) skipped.clear();
    for (const Tag& tag : tags_of(part + ">")) {
      for (const char* worded : {"aria-label", "title", "placeholder", "alt"}) {
        const auto found = tag.attributes.find(worded);
        if (found != tag.attributes.end()) texts.push_back(found->second);
      }
    }
  }
  return texts;
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

/// A column of cells, value by value.
inline std::vector<nlohmann::json> values_of(const std::string& name,
                                             const nlohmann::json& column) {
  std::vector<nlohmann::json> values;
  if (column.is_string()) {  // hashes, as unsigned decimals
    const std::string text = column;
    const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for (size_t i = 0; i < text.size();) {
      const size_t length = text[i] == '.' || text[i] == '=' ? 1 : 11;
      uint64_t hash = 0;
      for (const char c : text.substr(i, length)) hash = hash * 64 + digits.find(c);
      values.push_back(text[i] == '.'   ? nlohmann::json()
                       : text[i] == '=' ? nlohmann::json("=")
                                        : nlohmann::json(std::to_string(hash)));
      i += length;
    }
    return values;
  }
  int64_t line = 0;
  for (const nlohmann::json& part : column) {
    const nlohmann::json& value = part.is_array() ? part[0] : part;
    for (int64_t n = part.is_array() ? part[1].get<int64_t>() : 1; n > 0; --n) {
      const bool steps = name.ends_with("_line") && !value.is_null();
      values.push_back(steps ? nlohmann::json(line += value.get<int64_t>()) : value);
    }
  }
  return values;
}

/// Cells of a map as objects, with what is referred to spelled out; what a cell has not is no
/// member.
inline std::vector<nlohmann::json> cells_of(const nlohmann::json& map) {
  std::vector<nlohmann::json> cells;
  const std::map<std::string, std::string> lists{
      {"state", "states"},      {"tolerance", "tolerances"}, {"measure", "texts"},
      {"left_source", "texts"}, {"right_source", "texts"},   {"details", "texts"},
      {"origin", "texts"},      {"caused_by", "texts"},      {"segment", "texts"},
      {"location", "texts"},    {"left_route", "texts"},     {"right_route", "texts"}};
  for (const nlohmann::json& panel : map["panels"]) {
    const size_t first = cells.size();
    for (size_t l = 0; l < panel["rows"].size(); ++l) {
      const std::string there = map["rows"][panel["rows"][l].get<size_t>()];
      for (size_t t = 0; t < there.size(); ++t) {
        if (there[t] == '0') continue;
        cells.push_back({{"prompt", panel["prompt"]},
                         {"phase", panel.value("phase", "")},
                         {"layer", map["layers"][l]},
                         {"tensor", map["tensors"][t]},
                         {"row", l},
                         {"column", t}});
      }
    }
    for (const auto& [name, column] : panel["cells"].items()) {  // left before right
      const std::vector<nlohmann::json> values = values_of(name, column);
      if (first + values.size() != cells.size())
        throw std::runtime_error(name + ": too few values");
      for (size_t i = 0; i < values.size(); ++i) {
        nlohmann::json value = values[i];
        const auto list = lists.find(name);
        if (value == "=") {
          value = cells[first + i].value("left" + name.substr(5), nlohmann::json());
        } else if (list != lists.end() && !value.is_null()) {
          value = map[list->second][value.get<size_t>()];
        }
        if (!value.is_null()) cells[first + i][name] = value;
      }
    }
  }
  return cells;
}

}  // namespace greta
