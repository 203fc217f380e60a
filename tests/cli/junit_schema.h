// Reads an XML document and holds it against the rules of junit-10.xsd, the schema by which
// Jenkins' xUnit plugin takes JUnit reports: which elements stand in which, with which attributes,
// and that the counts add up.
#pragma once
#include <cstdint>
#include <map>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "common/utf8.h"

namespace greta {

struct XmlElement {
  std::string name, text;  ///< text without markup, references resolved
  std::map<std::string, std::string> attributes;
  std::vector<XmlElement> children;

  int64_t number(const std::string& attribute) const {
    return std::stoll(attributes.at(attribute));
  }
  /// The first child element of that name; throws when there is none.
  const XmlElement& child(const std::string& wanted) const {
    for (const XmlElement& one : children) {
      if (one.name == wanted) return one;
    }
    throw std::runtime_error("<" + name + "> has no <" + wanted + ">");
  }
  bool has(const std::string& wanted) const {
    for (const XmlElement& one : children) {
      if (one.name == wanted) return true;
    }
    return false;
  }
};

/// Elements, attributes in double quotes, text and the references that escape: throws for all
/// else, and for characters that XML 1.0 forbids.
class XmlReader {
 public:
  explicit XmlReader(std::string_view text) : rest_(text) { check_characters(text); }

  XmlElement document() {
    const std::string_view declaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";
    if (!rest_.starts_with(declaration)) fail("no declaration");
    rest_.remove_prefix(declaration.size());
    skip_blanks();
    XmlElement root = element();
    skip_blanks();
    if (!rest_.empty()) fail("text behind the document");
    return root;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + " before: " + std::string(rest_.substr(0, 60)));
  }
  void check_characters(std::string_view text) const {
    while (!text.empty()) {
      const utf8::Head head = utf8::head(text);
      const char32_t c = head.code;
      const bool allowed = head.is_character() && (c == 9 || c == 10 || c == 13 || c >= 32) &&
                           c != 0xFFFE && c != 0xFFFF;
      if (!allowed) throw std::runtime_error("a character that XML 1.0 forbids");
      text.remove_prefix(head.bytes);
    }
  }
  void skip_blanks() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n')) rest_.remove_prefix(1);
  }
  void expect(std::string_view token) {
    if (!rest_.starts_with(token)) fail("no " + std::string(token));
    rest_.remove_prefix(token.size());
  }
  std::string name() {
    const size_t end = rest_.find_first_not_of("abcdefghijklmnopqrstuvwxyz-");
    if (end == 0 || end == std::string_view::npos) fail("no name");
    const std::string found(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return found;
  }
  /// Up to one of the characters in `ends`.
  std::string resolved_until(std::string_view ends) {
    static const std::map<std::string_view, char> entities = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}};
    std::string text;
    while (!rest_.empty() && ends.find(rest_[0]) == std::string_view::npos) {
      if (rest_[0] != '&') {
        text += rest_[0];
        rest_.remove_prefix(1);
        continue;
      }
      const size_t end = rest_.find(';');
      const auto found = entities.find(rest_.substr(0, end + 1));
      if (end == std::string_view::npos || found == entities.end()) fail("a bare &");
      text += found->second;
      rest_.remove_prefix(end + 1);
    }
    return text;
  }
  XmlElement element() {
    XmlElement one;
    expect("<");
    one.name = name();
    for (skip_blanks(); !rest_.empty() && rest_[0] != '>' && rest_[0] != '/'; skip_blanks()) {
      const std::string key = name();
      expect("=\"");
      if (!one.attributes.emplace(key, resolved_until("\"<")).second) fail("attribute twice");
      expect("\"");
    }
    if (rest_.starts_with("/>")) {
      expect("/>");
      return one;
    }
    expect(">");
    while (!rest_.starts_with("</")) {
      one.text += resolved_until("<");
      if (rest_.empty()) fail("an element that does not end");
      if (!rest_.starts_with("</")) one.children.push_back(element());
    }
    expect("</" + one.name + ">");
    return one;
  }

  std::string_view rest_;
};

/// What the schema allows.
class JunitSchema {
 public:
  /// The document; throws where it is not valid.
  static XmlElement valid(const std::string& text) {
    XmlElement root = XmlReader(text).document();
    if (root.name != "testsuites") throw std::runtime_error("no testsuites");
    check(root);
    int64_t tests = 0, failures = 0, errors = 0;
    for (const XmlElement& suite : root.children) {
      check_counts(suite);
      tests += suite.number("tests");
      failures += suite.number("failures");
      errors += suite.number("errors");
    }
    if (root.number("tests") != tests || root.number("failures") != failures ||
        root.number("errors") != errors) {
      throw std::runtime_error("testsuites: counts do not add up");
    }
    return root;
  }

 private:
  struct Rule {
    std::set<std::string> children, required, optional;
    bool mixed;  ///< text may stand in it
  };

  static const Rule& rule(const std::string& element) {
    static const std::map<std::string, Rule> rules = {
        {"testsuites", {{"testsuite"}, {}, {"name", "time", "tests", "failures", "errors"}, false}},
        {"testsuite",
         {{"testsuite", "properties", "testcase", "system-out", "system-err"},
          {"name"},
          {"tests", "failures", "errors", "group", "time", "skipped", "timestamp", "hostname", "id",
           "package", "file", "log", "url", "version"},
          false}},
        {"testcase",
         {{"skipped", "error", "failure", "system-out", "system-err"},
          {"name"},
          {"time", "classname", "group"},
          false}},
        {"failure", {{}, {}, {"type", "message"}, true}},
        {"error", {{}, {}, {"type", "message"}, true}},
        {"skipped", {{}, {}, {"type", "message"}, true}},
        {"system-out", {{}, {}, {}, true}},
        {"system-err", {{}, {}, {}, true}}};
    const auto found = rules.find(element);
    if (found == rules.end()) throw std::runtime_error("no element " + element);
    return found->second;
  }

  static void check(const XmlElement& one) {
    const Rule& allowed = rule(one.name);
    for (const std::string& key : allowed.required) one.attributes.at(key);
    for (const auto& [key, value] : one.attributes) {
      if (!allowed.required.contains(key) && !allowed.optional.contains(key)) {
        throw std::runtime_error(one.name + " has no attribute " + key);
      }
      static const std::regex count("[0-9]+"), time("([0-9]{0,3},)*[0-9]{1,3}(\\.[0-9]{0,3})?"),
          timestamp("[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z");
      const bool right =
          key == "time"        ? std::regex_match(value, time)
          : key == "timestamp" ? std::regex_match(value, timestamp)
          : key == "tests" || key == "failures" || key == "errors" || key == "skipped"
              ? std::regex_match(value, count)
              : true;
      if (!right) throw std::runtime_error(one.name + "." + key + " is " + value);
    }
    if (!allowed.mixed && one.text.find_first_not_of(" \n") != std::string::npos) {
      throw std::runtime_error("text in " + one.name);
    }
    for (const XmlElement& inner : one.children) {
      if (!allowed.children.contains(inner.name)) {
        throw std::runtime_error(inner.name + " in " + one.name);
      }
      check(inner);
    }
  }

  static void check_counts(const XmlElement& suite) {
    std::map<std::string, int64_t> seen;
    std::set<std::string> names;
    for (const XmlElement& one : suite.children) {
      if (!names.insert(one.attributes.at("name")).second) {
        throw std::runtime_error("two cases " + one.attributes.at("name"));
      }
      for (const XmlElement& outcome : one.children) ++seen[outcome.name];
    }
    if (suite.number("tests") != static_cast<int64_t>(suite.children.size()) ||
        suite.number("failures") != seen["failure"] || suite.number("errors") != seen["error"] ||
        suite.number("skipped") != seen["skipped"]) {
      throw std::runtime_error("testsuite: counts do not add up");
    }
  }
};

}  // namespace greta
