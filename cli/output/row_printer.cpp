#include "cli/output/row_printer.h"

#include <algorithm>

#include "cli/output/severity.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kMaxTerminalCell = 48;  // a longer cell is cut, on a terminal only

bool is_verdict_column(std::string_view name) {
  return name.ends_with("verdict") || name == "status" || name == "class" || name == "claimed" ||
         name == "numeric";
}

/// True if a spreadsheet may take the cell for a formula; a number is none.
bool may_be_formula(const Cell& cell, std::string_view text) {
  const bool number = cell.type == Cell::Type::kInteger || cell.type == Cell::Type::kReal;
  if (number && text != "-inf") return false;
  return !text.empty() && std::string_view("=+-@\t\r\n").find(text[0]) != std::string_view::npos;
}

/// RFC 4180: quoted when it must be; an empty text is quoted to tell it from NULL.
void append_csv(std::string& to, const Cell& cell, bool safe, bool shown) {
  std::string text = plain_text(cell);
  const bool prefix = safe && may_be_formula(cell, text);
  if (shown) text = utf8::printable(text);
  if (prefix) text.insert(0, 1, '\'');
  bool is_text = cell.type == Cell::Type::kText;
  if (!is_text || (!text.empty() && text.find_first_of(",\"\r\n") == std::string::npos)) {
    to += text;
    return;
  }
  to += '"';
  for (char c : text) {
    if (c == '"') to += '"';
    to += c;
  }
  to += '"';
}

void append_tsv(std::string& to, const Cell& cell) {
  std::string text;
  for (char c : plain_text(cell)) text.append(c == '\\' ? 2 : 1, c);
  to += utf8::printable(text);
}

}  // namespace

RowPrinter::RowPrinter(Output& out, Format format, std::vector<std::string> columns)
    : out_(out), format_(format), columns_(std::move(columns)) {
  for (std::string& name : columns_) {
    name = format_ == Format::kTable ? utf8::printable(name) : utf8::replace_invalid(name);
  }
  if (format_ == Format::kJson) {
    std::vector<std::string> keys;
    for (const std::string& name : columns_) {
      std::string key = name;
      for (int i = 1; std::find(keys.begin(), keys.end(), key) != keys.end(); i++) {
        key = name + ":" + std::to_string(i);
      }
      keys.push_back(key);
    }
    columns_ = std::move(keys);
    out_.write("[");
  } else if (format_ != Format::kTable) {
    std::vector<Cell> header(columns_.begin(), columns_.end());
    if (format_ == Format::kMarkdown) {
      markdown_row(header);
      line_ = "|";
      for (size_t i = 0; i < columns_.size(); i++) line_ += " --- |";
      out_.write(line_ + "\n");
    } else {
      separated_row(header);
    }
  }
}

void RowPrinter::row(std::span<const Cell> cells) {
  switch (format_) {
    case Format::kTable:
      table_row(cells);
      break;
    case Format::kJson:
      json_row(cells);
      break;
    case Format::kMarkdown:
      markdown_row(cells);
      break;
    default:
      separated_row(cells);
  }
  rows_++;
}

void RowPrinter::finish() {
  if (format_ == Format::kTable) {
    if (!sized_) size_columns();
    if (rows_ == 0) out_.write(indent_ + "(no rows)\n");
  } else if (format_ == Format::kJson) {
    out_.write(rows_ ? "\n]\n" : "]\n");
  }
}

void RowPrinter::table_row(std::span<const Cell> cells) {
  std::vector<Text> texts;
  texts.reserve(cells.size());
  for (const Cell& cell : cells) {
    bool numeric = cell.type == Cell::Type::kInteger || cell.type == Cell::Type::kReal;
    bool null = cell.type == Cell::Type::kNull;
    texts.push_back({display_text(cell), numeric || null, null});
  }
  if (sized_) {
    write_table_line(texts, false);
    return;
  }
  held_back_.push_back(std::move(texts));
  if (held_back_.size() == kRowsHeldBack) size_columns();
}

void RowPrinter::size_columns() {
  sized_ = true;
  size_t total = 0;
  for (size_t i = 0; i < columns_.size(); i++) {
    size_t width = display_width(columns_[i]);
    bool numeric = !held_back_.empty(), empty = hide_empty_;
    for (const auto& row : held_back_) {
      width = std::max(width, display_width(row[i].text));
      numeric = numeric && row[i].numeric;
      empty = empty && row[i].null;
    }
    widths_.push_back(width);
    right_aligned_.push_back(numeric);
    hidden_.push_back(empty);
    total += empty ? 0 : width + 2;
  }
  if (out_.is_terminal() && total > static_cast<size_t>(out_.width())) {
    for (size_t& width : widths_) width = std::min(width, kMaxTerminalCell);
  }
  std::vector<Text> header, rule;
  for (size_t i = 0; i < columns_.size(); i++) {
    header.push_back({columns_[i], right_aligned_[i]});
    rule.push_back({std::string(widths_[i], '-'), false});
  }
  write_table_line(header, true);
  write_table_line(rule, true);
  for (const auto& row : held_back_) write_table_line(row, false);
  held_back_.clear();
}

void RowPrinter::write_table_line(std::span<const Text> cells, bool header) {
  line_ = indent_;
  for (size_t i = 0; i < cells.size(); i++) {
    if (hidden_[i]) continue;
    std::string text = cells[i].text;
    size_t width = display_width(text);
    if (width > widths_[i] && out_.is_terminal()) {
      text = cut_to_width(text, widths_[i]);
      width = display_width(text);
    }
    size_t padding = widths_[i] > width ? widths_[i] - width : 0;
    if (right_aligned_[i]) line_.append(padding, ' ');
    line_ += !header && is_verdict_column(columns_[i]) ? colored(out_, text) : text;
    if (!right_aligned_[i]) line_.append(padding, ' ');
    line_ += "  ";
  }
  line_.erase(line_.find_last_not_of(' ') + 1);
  line_ += '\n';
  out_.write(line_);
}

void RowPrinter::json_row(std::span<const Cell> cells) {
  line_ = rows_ ? ",\n{" : "\n{";
  for (size_t i = 0; i < cells.size(); i++) {
    if (i) line_ += ',';
    append_json(line_, columns_[i]);
    line_ += ':';
    append_json(line_, cells[i]);
  }
  line_ += '}';
  out_.write(line_);
}

void RowPrinter::separated_row(std::span<const Cell> cells) {
  const bool csv = format_ != Format::kTsv, safe = format_ == Format::kCsvSafe;
  line_.clear();
  for (size_t i = 0; i < cells.size(); i++) {
    if (i) line_ += csv ? ',' : '\t';
    csv ? append_csv(line_, cells[i], safe, out_.is_terminal()) : append_tsv(line_, cells[i]);
  }
  line_ += csv ? "\r\n" : "\n";
  out_.write(line_);
}

void RowPrinter::markdown_row(std::span<const Cell> cells) {
  line_ = "|";
  for (const Cell& cell : cells) {
    line_ += ' ';
    line_ += markdown_text(display_text(cell));
    line_ += " |";
  }
  line_ += '\n';
  out_.write(line_);
}

}  // namespace greta
