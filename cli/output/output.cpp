#include "cli/output/output.h"

#include <locale.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <system_error>

#include "common/environment.h"
#include "common/hex.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kBufferBytes = 64 * 1024;
constexpr int kDefaultTerminalWidth = 80;
constexpr size_t kMaxTerminalCell = 48;  // a longer cell is cut, on a terminal only

/// wcwidth in a UTF-8 locale, whatever the environment says.
int character_width(char32_t code) {
  if (code < 0x300) return 1;
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return 1;
  locale_t old = uselocale(utf8);
  int width = wcwidth(static_cast<wchar_t>(code));
  uselocale(old);
  return width < 0 ? 1 : width;
}

/// The first characters of `text` that fit into `width` columns, the last one being an ellipsis.
std::string cut(std::string_view text, size_t width) {
  std::string result;
  size_t used = 0;
  while (!text.empty()) {
    utf8::Head head = utf8::head(text);
    size_t columns = static_cast<size_t>(character_width(head.code));
    if (used + columns + 1 > width) break;
    result.append(text.substr(0, head.bytes));
    used += columns;
    text.remove_prefix(head.bytes);
  }
  return result + "…";
}

bool is_verdict_column(std::string_view name) {
  return name.ends_with("verdict") || name == "status" || name == "class" || name == "claimed" ||
         name == "numeric";
}

/// Value as every format but JSON spells it; NULL is "".
std::string plain_text(const Cell& cell) {
  std::string text;
  switch (cell.type) {
    case Cell::Type::kNull:
      break;
    case Cell::Type::kInteger:
      text = std::to_string(cell.integer);
      break;
    case Cell::Type::kReal:
      text = shortest_real(cell.real);
      break;
    case Cell::Type::kText:
      text = utf8::replace_invalid(cell.text);
      break;
    case Cell::Type::kBlob:
      append_hex(text, cell.text);
      break;
  }
  return text;
}

/// RFC 4180: quoted when it must be; an empty text is quoted to tell it from NULL.
void append_csv(std::string& to, const Cell& cell) {
  std::string text = plain_text(cell);
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
  for (char c : plain_text(cell)) {
    switch (c) {
      case '\t':
        to += "\\t";
        break;
      case '\n':
        to += "\\n";
        break;
      case '\r':
        to += "\\r";
        break;
      case '\\':
        to += "\\\\";
        break;
      default:
        to += c;
    }
  }
}

void append_markdown(std::string& to, std::string_view text) {
  for (char c : text) {
    if (c == '|') to += '\\';
    to += c;
  }
}

}  // namespace

Output::Output() {
  if (!isatty(STDOUT_FILENO)) return;
  winsize size{};
  width_ = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                           : kDefaultTerminalWidth;
  colors_ = environment_variable("NO_COLOR").empty();
}

void Output::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kBufferBytes) flush();
}

void Output::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    ssize_t n = ::write(STDOUT_FILENO, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      int error = errno;
      buffer_.clear();
      if (error == EPIPE) throw OutputClosed("standard output was closed");
      throw std::system_error(error, std::generic_category(), "cannot write to standard output");
    }
    rest.remove_prefix(static_cast<size_t>(n));
  }
  buffer_.clear();
}

Cell Cell::blob(std::string_view bytes) {
  Cell cell(bytes);
  cell.type = Type::kBlob;
  return cell;
}

size_t display_width(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    utf8::Head head = utf8::head(text);
    width += static_cast<size_t>(character_width(head.code));
    text.remove_prefix(head.bytes);
  }
  return width;
}

std::string shortest_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  std::string text(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void append_json_cell(std::string& to, const Cell& cell) {
  switch (cell.type) {
    case Cell::Type::kNull:
      to += "null";
      break;
    case Cell::Type::kInteger:
      append_json(to, cell.integer);
      break;
    case Cell::Type::kReal:
      if (std::isinf(cell.real)) {
        to += cell.real < 0 ? "-1e999" : "1e999";
      } else {
        to += std::isnan(cell.real) ? "null" : shortest_real(cell.real);
      }
      break;
    case Cell::Type::kText:
      append_json(to, cell.text);
      break;
    case Cell::Type::kBlob:
      to += '"';
      append_hex(to, cell.text);
      to += '"';
      break;
  }
}

std::string display_text(const Cell& cell) {
  switch (cell.type) {
    case Cell::Type::kNull:
      return "-";
    case Cell::Type::kText:
      return utf8::printable(cell.text);
    case Cell::Type::kBlob:
      return "(" + std::to_string(cell.text.size()) + " bytes)";
    default:
      return plain_text(cell);
  }
}

std::string colored(const Output& out, std::string_view text) {
  std::string result(text);
  if (!out.colors() || text == "-") return result;
  static constexpr std::string_view kBad[] = {"FAIL",      "DRIFT",   "NONFINITE",
                                              "AMBIGUOUS", "MISSING", "DIVERGENT"};
  bool good = text == "PASS" || text == "MATCH" || text == "ROUNDING";
  bool bad = std::find(std::begin(kBad), std::end(kBad), text) != std::end(kBad);
  return (good ? "\x1b[32m" : bad ? "\x1b[31m" : "\x1b[33m") + result + "\x1b[0m";
}

RowPrinter::RowPrinter(Output& out, Format format, std::vector<std::string> columns)
    : out_(out), format_(format), columns_(std::move(columns)) {
  for (std::string& name : columns_) name = utf8::replace_invalid(name);
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
      text = cut(text, widths_[i]);
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
  bool csv = format_ == Format::kCsv;
  line_.clear();
  for (size_t i = 0; i < cells.size(); i++) {
    if (i) line_ += csv ? ',' : '\t';
    csv ? append_csv(line_, cells[i]) : append_tsv(line_, cells[i]);
  }
  line_ += csv ? "\r\n" : "\n";
  out_.write(line_);
}

void RowPrinter::markdown_row(std::span<const Cell> cells) {
  line_ = "|";
  for (const Cell& cell : cells) {
    line_ += ' ';
    append_markdown(line_, display_text(cell));
    line_ += " |";
  }
  line_ += '\n';
  out_.write(line_);
}

}  // namespace greta
