#include <algorithm>
#include <string>
#include <vector>

#include "cli/output/output.h"
#include "cli/output/severity.h"
#include "cli/show/block.h"
#include "cli/show/pair_map.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kPictureColumns = 80, kLeastLabel = 6;

/// How a terminal shows a look: a letter, or with colours blocks by its degree.
struct Sign {
  char look;  ///< the first letter of it
  const char* letter;
  const char* blocks[4];
  const char* color;
};
constexpr Sign kSigns[] = {
    {'m', ".", {"·", "·", "·", "·"}, "\x1b[32m"}, {'r', "r", {"▁", "▂", "▃", "▄"}, "\x1b[34m"},
    {'f', "D", {"▅", "▆", "▇", "█"}, "\x1b[31m"}, {'u', "?", {"?", "?", "?", "?"}, "\x1b[33m"},
    {'n', "N", {"N", "N", "N", "N"}, "\x1b[35m"}, {'x', "M", {"□", "□", "□", "□"}, "\x1b[31m"},
    {'i', "i", {"i", "i", "i", "i"}, "\x1b[33m"}, {'c', "!", {"!", "!", "!", "!"}, "\x1b[31m"},
    {'o', "o", {"o", "o", "o", "o"}, "\x1b[90m"}, {'t', "-", {"-", "-", "-", "-"}, "\x1b[90m"}};

const Sign& sign_of(const Look& look) {
  return *std::find_if(std::begin(kSigns), std::end(kSigns),
                       [&](const Sign& sign) { return look.starts_with(sign.look); });
}

/// a to z, A to Z, then #.
std::string column_letter(size_t column) {
  if (column < 26) return std::string(1, static_cast<char>('a' + column));
  return column < 52 ? std::string(1, static_cast<char>('A' + column - 26)) : "#";
}

class TerminalPrinter {
 public:
  explicit TerminalPrinter(Output& out) : out_(out) {}

  void print(const Blocks& blocks) {
    for (const Block& block : blocks) std::visit(*this, static_cast<const Block::variant&>(block));
    finish_maps();
  }

  /// "FAIL beyond rounding  NAME"
  void operator()(const Heading& heading) {
    if (any_) out_.write("\n");
    any_ = true;
    const std::string head = shown(heading.headline), text = shown(heading.text);
    out_.write(head + (head.empty() || text.empty() ? "" : "  ") + text + "\n");
  }
  void operator()(const FactList& facts) {
    for (const auto& [label, value] : facts.items) {
      std::string start = "  " + shown(label);
      start.resize(std::max<size_t>(12, start.size() + 1), ' ');
      out_.write(start + shown(value) + "\n");
    }
  }
  void operator()(const Note& note) { out_.write(shown(note.text) + "\n"); }
  void operator()(const List& list) {
    for (const Line& item : list.items) out_.write("  " + shown(item) + "\n");
  }
  void operator()(const Code& code) { out_.write(utf8::printable(code.text, "\n") + "\n"); }
  void operator()(const Group& group) { print(group.blocks); }
  /// Maps that look alike are one.
  void operator()(const Map& map) {
    columns_ = &map.columns;
    std::string text = picture(map);
    const auto same = std::find_if(pictures_.begin(), pictures_.end(),
                                   [&](const auto& other) { return other.first == text; });
    if (same == pictures_.end()) {
      pictures_.emplace_back(std::move(text), utf8::printable(map.name));
    } else {
      same->second += ", " + utf8::printable(map.name);
    }
  }
  // on a page and in a document
  void operator()(const ShownTable&) {}
  void operator()(const Rule&) {}
  void operator()(const Legend&) {}
  void operator()(const Chart&) {}
  void operator()(const Controls&) {}

 private:
  std::string shown(const Line& line) const {
    std::string text;
    for (const Span& span : line.spans()) {
      const std::string piece = utf8::printable(span.text);
      text += span.kind == Span::Kind::kVerdict ? colored(out_, piece) : piece;
    }
    return text;
  }

  std::string picture(const Map& map) {
    size_t label = kLeastLabel;
    for (const Map::Fold& fold : map.folds) label = std::max(label, fold.name.size() + 1);
    const bool wide = label + 2 * map.columns.size() <= kPictureColumns;  // a blank between columns
    const size_t per_line = (kPictureColumns - label) / (wide ? 2 : 1);
    const std::string gap = wide ? " " : "";
    std::string text;
    // of more trace points than fit, the rest below
    for (size_t from = 0; from < map.columns.size(); from += per_line) {
      const size_t end = std::min(from + per_line, map.columns.size());
      text += std::string(wide ? label - 1 : label, ' ');
      for (size_t c = from; c < end; ++c) text += gap + column_letter(c);
      text += "\n";
      auto fold = map.folds.begin();
      for (size_t r = 0; r < map.rows.size(); ++r) {
        const bool folded = fold != map.folds.end() && fold->first == r;
        const auto& squares = folded ? fold->squares : map.squares[r];
        std::string line, name = folded ? fold->name : map.rows[r];
        if (folded) r = fold++->last;
        for (size_t c = from; c < end; ++c)
          line += gap + (c < squares.size() ? square(squares[c]) : " ");
        while (line.ends_with(' ')) line.pop_back();
        if (line.empty()) continue;
        name.resize(std::max(name.size(), label - 1), ' ');
        text += name + (wide ? "" : " ") + line + "\n";
      }
    }
    return text;
  }

  std::string square(const std::optional<Square>& square) {
    if (!square) return " ";
    const Look& look = square->look;
    const Sign& sign = sign_of(look);
    seen_ += sign.look;
    if (!out_.colors()) return sign.letter;
    const bool has_degree = look.size() > 1 && look[1] >= '0' && look[1] <= '3';
    return sign.color + std::string(sign.blocks[has_degree ? look[1] - '0' : 0]) + "\x1b[0m";
  }

  void finish_maps() {
    if (pictures_.empty()) return;
    for (const auto& [text, names] : pictures_)
      out_.write("\n" + shortened_to_width("prompt " + names, kPictureColumns) + "\n" + text);
    std::vector<std::string> words;
    for (const Sign& sign : kSigns) {
      if (seen_.find(sign.look) == std::string::npos) continue;
      std::string shown = sign.letter;
      if (out_.colors()) {
        shown = sign.blocks[0];
        if (sign.blocks[1] != std::string_view(sign.blocks[0]))
          shown = shown + sign.blocks[1] + sign.blocks[2] + sign.blocks[3];
      }
      words.push_back(
          shown + " " +
          kEnglishWords.line(*find_report_text(std::string("cell.") + sign.look)).text());
    }
    out_.write("\n");
    write_list(words);
    words.clear();
    for (size_t c = 0; c < columns_->size(); ++c)
      words.push_back(column_letter(c) + " " + utf8::printable((*columns_)[c]));
    write_list(words);
    pictures_.clear();
  }

  void write_list(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) {
      if (!line.empty() && display_width(line) + 3 + display_width(word) > kPictureColumns) {
        out_.write(line + "\n");
        line.clear();
      }
      line += (line.empty() ? "" : "   ") + shortened_to_width(word, kPictureColumns);
    }
    out_.write(line + "\n");
  }

  Output& out_;
  bool any_ = false;
  std::vector<std::pair<std::string, std::string>> pictures_;  // and whose they are
  const std::vector<std::string>* columns_ = nullptr;
  std::string seen_;  // looks
};

}  // namespace

void print_terminal(const Blocks& blocks, Output& out) { TerminalPrinter(out).print(blocks); }

}  // namespace greta
