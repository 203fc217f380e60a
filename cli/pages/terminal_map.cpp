#include "cli/pages/terminal_map.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/output/output.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kPictureColumns = 80, kLabel = 6;

struct Sign {
  char first;  ///< of look_of
  const char* letter;
  const char* blocks[4];  ///< by the degree of r and f
  const char* color;
  const char* meaning;
};
constexpr Sign kSigns[] = {
    {'m', ".", {"·", "·", "·", "·"}, "\x1b[32m", "equal"},
    {'r', "r", {"▁", "▂", "▃", "▄"}, "\x1b[34m", "within rounding"},
    {'f', "D", {"▅", "▆", "▇", "█"}, "\x1b[31m", "beyond rounding"},
    {'u', "?", {"?", "?", "?", "?"}, "\x1b[33m", "differs, size unknown"},
    {'n', "N", {"N", "N", "N", "N"}, "\x1b[35m", "NaN or infinite"},
    {'x', "M", {"□", "□", "□", "□"}, "\x1b[31m", "no partner"},
    {'i', "i", {"i", "i", "i", "i"}, "\x1b[33m", "undecided"},
    {'c', "!", {"!", "!", "!", "!"}, "\x1b[31m", "contradictory"},
    {'o', "o", {"o", "o", "o", "o"}, "\x1b[90m", "one side only, by design"}};

const Sign& look_at(char first) {
  return *std::find_if(std::begin(kSigns), std::end(kSigns),
                       [first](const Sign& look) { return look.first == first; });
}

/// a to z, A to Z, then #.
std::string column_letter(size_t tensor) {
  if (tensor < 26) return std::string(1, static_cast<char>('a' + tensor));
  return tensor < 52 ? std::string(1, static_cast<char>('A' + tensor - 26)) : "#";
}

class TerminalMap {
 public:
  TerminalMap(Output& out, const PairMap& map)
      : out_(out),
        map_(map),
        wide_(kLabel + 2 * map.tensors.size() <= kPictureColumns),
        per_line_((kPictureColumns - kLabel) / (wide_ ? 2 : 1)) {}

  void print() {
    std::vector<std::pair<std::string, std::vector<std::string>>> pictures;
    for (const MapPanel& panel : map_.panels) {
      std::string text = picture(panel);
      const auto same = std::find_if(pictures.begin(), pictures.end(),
                                     [&](const auto& other) { return other.first == text; });
      if (same == pictures.end()) {
        pictures.push_back({std::move(text), {panel.prompt}});
      } else {
        same->second.push_back(panel.prompt);
      }
    }
    for (const auto& [text, prompts] : pictures) {
      std::string names;
      for (const std::string& prompt : prompts)
        names += (names.empty() ? "" : ", ") + utf8::printable(prompt);
      out_.write("\n" + shortened_to_width("prompt " + names, kPictureColumns) + "\n" + text);
    }
    legend();
  }

 private:
  std::string picture(const MapPanel& panel) {
    std::string text;
    // of more trace points than fit, the rest below
    for (size_t from = 0; from < map_.tensors.size(); from += per_line_) {
      const size_t end = std::min(from + per_line_, map_.tensors.size());
      text += std::string(wide_ ? kLabel - 1 : kLabel, ' ');
      for (size_t t = from; t < end; ++t) text += gap() + column_letter(t);
      text += "\n";
      for (size_t l = 0; l < map_.layers.size(); ++l) {
        std::string line;
        for (size_t t = from; t < end; ++t) line += gap() + cell(panel, l, t);
        while (line.ends_with(' ')) line.pop_back();
        if (line.empty()) continue;
        const auto& layer = map_.layers[l];
        std::string label = !layer ? "-" : *layer == -1 ? "head" : std::to_string(*layer);
        label.resize(std::max(label.size(), kLabel - 1), ' ');
        text += label + (wide_ ? "" : " ") + line + "\n";
      }
    }
    return text;
  }

  const char* gap() const { return wide_ ? " " : ""; }

  std::string cell(const MapPanel& panel, size_t l, size_t t) {
    const auto& cell = panel.cells[l][t];
    if (!cell) {
      if (!map_.applies(l, t)) return " ";
      untraced_ = true;
      return out_.colors() ? "\x1b[90m-\x1b[0m" : "-";
    }
    const std::string kind = look_of(*cell);
    const Sign& look = look_at(kind.front());
    seen_ += kind.front();
    if (!out_.colors()) return look.letter;
    const size_t degree = kind.size() > 1 ? static_cast<size_t>(kind[1] - '0') : 0;
    return std::string(look.color) + look.blocks[degree] + "\x1b[0m";
  }

  void legend() {
    std::vector<std::string> words;
    for (const Sign& look : kSigns) {
      if (seen_.find(look.first) == std::string::npos) continue;
      const bool degrees = look.first == 'r' || look.first == 'f';
      std::string sign = look.letter;
      if (out_.colors()) {
        sign = look.blocks[0];
        if (degrees) sign = sign + look.blocks[1] + look.blocks[2] + look.blocks[3];
      }
      words.push_back(sign + " " + look.meaning);
    }
    if (untraced_) words.emplace_back("- not traced");
    out_.write("\n");
    write_list(words);
    words.clear();
    for (size_t t = 0; t < map_.tensors.size(); ++t)
      words.push_back(column_letter(t) + " " + utf8::printable(map_.tensors[t].written));
    write_list(words);
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
  const PairMap& map_;
  bool wide_;  ///< a blank between columns
  size_t per_line_;
  std::string seen_;
  bool untraced_ = false;
};

}  // namespace

void print_map(Output& out, const PairMap& map) {
  if (map.empty()) return;
  TerminalMap(out, map).print();
}

}  // namespace greta
