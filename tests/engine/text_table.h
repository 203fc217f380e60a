#pragma once

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

namespace greta {

/// Rows of text in aligned columns on standard output; the first row is the heading.
class TextTable {
 public:
  explicit TextTable(bool markdown) : markdown_(markdown) {}

  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

  void print() const {
    std::vector<size_t> widths(rows_.front().size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    for (size_t r = 0; r < rows_.size(); ++r) {
      print_row(rows_[r], widths, ' ');
      if (r == 0 && markdown_) {
        print_row(std::vector<std::string>(widths.size()), widths, '-');
      }
    }
  }

 private:
  void print_row(const std::vector<std::string>& cells, const std::vector<size_t>& widths,
                 char filler) const {
    std::string line = markdown_ ? "| " : "";
    for (size_t i = 0; i < cells.size(); ++i) {
      line += cells[i] + std::string(widths[i] - cells[i].size(), filler);
      line += markdown_ ? (i + 1 < cells.size() ? " | " : " |") : "  ";
    }
    std::cout << line.substr(0, line.find_last_not_of(' ') + 1) << "\n";
  }

  bool markdown_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace greta
