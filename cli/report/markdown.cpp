#include "cli/report/markdown.h"

#include <algorithm>
#include <cstdio>

#include "common/shell_word.h"
#include "common/utf8.h"

namespace greta {
namespace {

std::string text_of(const Sentence& sentence, bool spanish) {
  return fill_text(spanish ? sentence.text->es : sentence.text->en, sentence.values);
}

}  // namespace

std::string escaped(std::string_view text) {
  constexpr std::string_view kMarkup = "\\|<[*`~";
  std::string cell;
  for (char c : utf8::printable(text)) {
    if (kMarkup.find(c) != std::string_view::npos) cell += '\\';
    cell += c;
  }
  return cell;
}

std::string escaped_line(std::string_view text) {
  std::string line = escaped(text);
  const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  const std::string_view rest = std::string_view(line).substr(digits);
  const bool item = digits > 0 && (rest.starts_with('.') || rest.starts_with(')'));
  const bool block =
      !line.empty() && std::string_view("#->+=").find(line[0]) != std::string_view::npos;
  if (item || block) line.insert(digits, 1, '\\');
  return line;
}

std::string in_code(std::string_view text) {
  std::string code = utf8::printable(text);
  std::replace(code.begin(), code.end(), '`', '\'');
  return code.empty() ? " " : code;
}

std::string in_single_quotes(std::string_view text) {
  const std::string word = shell_word(text);
  std::string quoted = word.substr(1, word.size() - 2);
  std::replace(quoted.begin(), quoted.end(), '`', '?');  // cannot be written inside `...`
  return quoted;
}

std::string real_text(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string percent_text(int64_t count, int64_t total) {
  if (total <= 0) return "-";
  std::string text =
      real_text(100.0 * static_cast<double>(count) / static_cast<double>(total), "%.2f");
  if (text == "100.00" && count < total) text = "99.99";
  if (text == "0.00" && count > 0) text = "<0.01";
  return text + "%";
}

void MarkdownWriter::heading(int level, const std::string& text) {
  line(std::string(static_cast<size_t>(level), '#') + " " + text);
  line();
}

void MarkdownWriter::field(const std::string& label, const std::string& value) {
  line("**" + label + "**: " + value + "  ");
}

void MarkdownWriter::table(const std::vector<std::string>& columns) {
  row(columns);
  std::string rule = "|";
  for (size_t i = 0; i < columns.size(); i++) rule += "---|";
  line(rule);
}

void MarkdownWriter::row(const std::vector<std::string>& cells) {
  std::string text = "|";
  for (const std::string& cell : cells) text += " " + cell + " |";
  line(text);
}

void MarkdownWriter::fence(std::string_view language, const std::string& text) {
  line("```" + std::string(language));
  sink_(text);
  line("```");
  line();
}

void MarkdownWriter::paragraph(const Sentence& sentence) {
  for (bool spanish : languages()) {
    line(text_of(sentence, spanish));
    line();
  }
}

void MarkdownWriter::list(const std::vector<Sentence>& sentences) {
  for (bool spanish : languages()) {
    if (words_.language() == Language::kBoth) {
      line(spanish ? "**(ES)**" : "**(EN)**");
      line();
    }
    int item = 0;
    for (const Sentence& s : sentences) line(std::to_string(++item) + ". " + text_of(s, spanish));
    line();
  }
}

std::vector<bool> MarkdownWriter::languages() const {
  if (words_.language() == Language::kBoth) return {false, true};
  return {words_.language() == Language::kSpanish};
}

}  // namespace greta
