#include "ingest/html_table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "ingest/text.h"

namespace greta {
namespace {

constexpr std::string_view kCommentStart = "<!--", kCommentEnd = "-->";

/// Bytes of the tag or comment at the start of `rest`, which begins with '<'; 0: it is none.
size_t tag_bytes(std::string_view rest) {
  if (rest.starts_with(kCommentStart)) {
    const size_t end = rest.find(kCommentEnd);
    return end == rest.npos ? rest.size() : end + kCommentEnd.size();
  }
  const size_t name = rest.starts_with("</") ? 2 : 1;
  if (rest.size() <= name || (!text::is_letter(rest[name]) && rest[1] != '!')) return 0;
  const size_t end = rest.find_first_of("<>", 1);
  return end == rest.npos || rest[end] == '<' ? 0 : end + 1;
}

/// "td" of "<TD class=x>", "/td" of its end.
std::string name_of_tag(std::string_view tag) {
  tag.remove_prefix(1);
  size_t end = tag.starts_with('/') ? 1 : 0;
  while (end < tag.size() && text::is_word(tag[end])) ++end;
  return text::to_lower(tag.substr(0, end));
}

struct Entity {
  std::string_view written;
  char c;
};
constexpr Entity kEntities[] = {{"&amp;", '&'},  {"&lt;", '<'},   {"&gt;", '>'},  {"&quot;", '"'},
                                {"&nbsp;", ' '}, {"&#160;", ' '}, {"&#39;", '\''}};

class HtmlTableReader {
 public:
  explicit HtmlTableReader(std::string_view text) : rest_(text) {}

  std::vector<Table> read() {
    while (!rest_.empty()) {
      const size_t tag = rest_[0] == '<' ? tag_bytes(rest_) : 0;
      if (tag > 0) {
        take_tag(name_of_tag(rest_.substr(0, tag)));
        skip(tag);
      } else {
        take_text();
      }
    }
    end_table();
    return std::move(tables_);
  }

 private:
  void skip(size_t bytes) {
    line_ += std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(bytes), '\n');
    rest_.remove_prefix(bytes);
  }

  void take_tag(const std::string& name) {
    if (name == "table" || name == "/table") {
      end_table();
    } else if (name == "tr" || name == "/tr") {
      end_row();
    } else if (name == "td" || name == "th") {
      end_cell();
      if (row_.cells.empty()) row_.line = line_;
      in_cell_ = true;
    } else if (name == "/td" || name == "/th") {
      end_cell();
    } else if (in_cell_) {
      cell_ += ' ';
    }
  }

  void take_text() {
    const auto entity =
        std::find_if(std::begin(kEntities), std::end(kEntities),
                     [this](const Entity& e) { return rest_.starts_with(e.written); });
    if (entity != std::end(kEntities)) {
      add(std::string_view(&entity->c, 1));
      return skip(entity->written.size());
    }
    const size_t bytes = std::min(rest_.find_first_of("<&", 1), rest_.size());
    add(rest_.substr(0, bytes));
    skip(bytes);
  }

  void add(std::string_view text) {
    if (!in_cell_) return;
    row_bytes_ += text.size();
    if (row_bytes_ > kMaxRowBytes) {
      row_.is_cut = true;
    } else {
      cell_ += text;
    }
  }

  void end_cell() {
    if (!std::exchange(in_cell_, false)) return;
    std::replace_if(
        cell_.begin(), cell_.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
    if (row_.cells.size() == kMaxCells) {
      row_.is_cut = true;
    } else {
      row_.cells.emplace_back(text::trim(cell_));
    }
    cell_.clear();
  }

  void end_row() {
    end_cell();
    row_bytes_ = 0;
    TableRow row = std::exchange(row_, {});
    if (row.cells.empty()) return;
    table_.note_cut(row);
    if (table_.line == 0) {
      table_.line = row.line;
      table_.columns = std::move(row.cells);
    } else if (cells_left_ == 0) {
      if (table_.refused_rows++ == 0) table_.first_refused_line = row.line;
    } else {
      cells_left_ -= std::min(cells_left_, row.cells.size() + 2);
      table_.rows.push_back(std::move(row));
    }
  }

  void end_table() {
    end_row();
    if (table_.line > 0) tables_.push_back(std::move(table_));
    table_ = {};
  }

  std::string_view rest_;
  int64_t line_ = 1;
  std::vector<Table> tables_;
  Table table_;
  TableRow row_;
  std::string cell_;
  bool in_cell_ = false;
  size_t row_bytes_ = 0, cells_left_ = kMaxDocumentCells;
};

}  // namespace

std::vector<Table> read_html_tables(std::string_view text) { return HtmlTableReader(text).read(); }

std::string with_bars_for_tags(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t tag = text[0] == '<' ? tag_bytes(text) : 0;
    const size_t bytes = tag > 0 ? tag : std::min(text.find('<', 1), text.size());
    out += tag > 0 ? std::string_view("|") : text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return out;
}

}  // namespace greta
