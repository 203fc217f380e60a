#include <algorithm>
#include <cstdio>

#include "cli/output/cell.h"
#include "cli/show/block.h"
#include "common/utf8.h"

namespace greta {
namespace {

/// Code, in which nothing is escaped but what ends a cell: GitHub makes no mention of it.
std::string in_code(std::string_view text, bool in_cell) {
  std::string code = "`";
  for (char c : utf8::printable(text)) {
    if (c == '|' && in_cell) code += code.back() == '\\' ? " \\" : "\\";  // \\| would end the cell
    code += c == '`' ? '\'' : c;
  }
  return (code.size() == 1 ? "` " : code) + "`";
}

std::string markdown_of(const Line& line, bool in_cell = false) {
  std::string text;
  for (const Span& span : line.spans()) {
    switch (span.kind) {
      case Span::Kind::kStrong:
      case Span::Kind::kVerdict:
        text += "**" + markdown_text(span.text) + "**";
        break;
      case Span::Kind::kCode:
        text += in_code(span.text, in_cell);
        break;
      case Span::Kind::kSquare:
        break;
      default:
        text += markdown_text(span.text);
    }
  }
  return text;
}

/// At the beginning of a line, where a text begins no heading, list or quotation either.
std::string markdown_of_line(const Line& of) {
  std::string line = markdown_of(of);
  if (of.empty() || of.spans()[0].kind != Span::Kind::kPlain) return line;
  const size_t digits = std::min(line.find_first_not_of("0123456789"), line.size());
  const std::string_view rest = std::string_view(line).substr(digits);
  const bool item = digits > 0 && (rest.starts_with('.') || rest.starts_with(')'));
  const bool block =
      !line.empty() && std::string_view("#->+=").find(line[0]) != std::string_view::npos;
  if (item || block) line.insert(digits, 1, '\\');
  return line;
}

class MarkdownPrinter {
 public:
  explicit MarkdownPrinter(const TextSink& sink) : sink_(sink) {}

  void print(const Blocks& blocks) {
    for (const Block& block : blocks) std::visit(*this, static_cast<const Block::variant&>(block));
  }

  void operator()(const Heading& heading) {
    std::string text = markdown_of(heading.text);
    if (!heading.headline.empty())
      text += (text.empty() ? "" : ": ") + markdown_of(heading.headline);
    line(std::string(static_cast<size_t>(heading.level), '#') + " " + text);
    line();
  }
  void operator()(const FactList& facts) {
    for (const auto& [label, value] : facts.items)
      line("**" + markdown_of(label) + "**: " + markdown_of(value) + "  ");
    line();
  }
  void operator()(const Note& note) {
    line(markdown_of_line(note.text));
    line();
  }
  void operator()(const List& list) {
    size_t n = 0;
    for (const Line& item : list.items)
      line((list.numbered ? std::to_string(++n) + ". " : "- ") + markdown_of_line(item));
    line();
  }
  void operator()(const ShownTable& table) {
    std::string names = "|", rule = "|";
    for (const ShownColumn& column : table.columns) {
      names += " " + markdown_text(column.name) + " |";
      rule += "---|";
    }
    line(names);
    line(rule);
    for (const ShownRow& one : table.rows) row(one);
    for (ShownRow next; table.more && table.more(next);) row(next);
    line();
  }
  void operator()(const Code& code) {
    line("```" + std::string(code.language));
    sink_(code.text);
    if (!code.text.ends_with('\n')) line();
    line("```");
    line();
  }
  void operator()(const Rule&) {
    line("---");
    line();
  }
  void operator()(const Group& group) { print(group.blocks); }
  // pictures, and what goes with them
  void operator()(const Map&) {}
  void operator()(const Legend&) {}
  void operator()(const Chart&) {}
  void operator()(const Controls&) {}

 private:
  void line(std::string_view text = "") { sink_(std::string(text) + "\n"); }
  void row(const ShownRow& of) {
    std::string text = "|";
    for (const Line& cell : of.cells) text += " " + markdown_of(cell, true) + " |";
    line(text);
  }

  const TextSink& sink_;
};

}  // namespace

void print_markdown(const Blocks& blocks, const TextSink& sink) {
  MarkdownPrinter(sink).print(blocks);
}

std::string real_text(double value, const char* format) {
  char text[64];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string short_real(double value) {
  std::string text = real_text(value, "%.5g");
  if (const size_t e = text.find('e'); e != std::string::npos) {  // e-07
    size_t digits = e + 2;
    if (text[e + 1] == '+') text.erase(e + 1, 1), --digits;
    while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  }
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

}  // namespace greta
