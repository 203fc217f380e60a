#include "cli/pages/cell_columns.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "cli/report/markdown.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr std::string_view kNull = "null", kAsLeft = R"("=")";

std::string integer_json(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : std::string(kNull);
}

/// 64 bits, the highest first, in 11 digits.
std::string hash_digits(const std::string& decimal) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  uint64_t hash = 0;
  const char* end = decimal.data() + decimal.size();
  if (decimal.empty() || std::from_chars(decimal.data(), end, hash).ptr != end) return ".";
  std::string digits(11, 'A');
  for (size_t i = digits.size(); i-- > 0; hash >>= 6) digits[i] = kDigits[hash & 63];
  return digits;
}

/// A column: what follows itself stands once.
class Column {
 public:
  void add(std::string json) {
    if (count_ > 0 && json != last_) flush();
    if (json != kNull) any_ = true;
    last_ = std::move(json);
    ++count_;
  }
  /// `right`, which is often what the left column has.
  void add_right(std::string right, const std::string& left) {
    add(right == left && right != kNull ? std::string(kAsLeft) : std::move(right));
  }
  bool any() const { return any_; }
  std::string take() {
    flush();
    return "[" + json_ + "]";
  }

 private:
  void flush() {
    if (!json_.empty()) json_ += ',';
    json_ += count_ == 1 ? last_ : "[" + last_ + "," + std::to_string(count_) + "]";
    count_ = 0;
  }

  std::string json_, last_;
  size_t count_ = 0;
  bool any_ = false;
};

/// Distances between lines, which mostly ascend by one.
class LineSteps {
 public:
  std::string next(const std::optional<int64_t>& line) {
    if (!line) return std::string(kNull);
    return std::to_string(*line - std::exchange(last_, *line));
  }

 private:
  int64_t last_ = 0;
};

class CellColumns {
 public:
  explicit CellColumns(CellValues& values) : values_(values) {}

  void add(const MapCell& cell) {
    const bool classed = !cell.row_class.empty();
    const std::string state = classed ? cell.status + " " + cell.row_class : cell.status;
    column("state").add(std::to_string(values_.states.at(text_json(state))));
    column("positions").add(std::to_string(cell.positions));
    column("failing").add(std::to_string(cell.failing));
    column("pos_id").add(integer_json(cell.pos_id));
    column("rel_l2").add(real_json(cell.rel_l2));
    column("tolerance").add(std::to_string(values_.tolerances.at(real_json(cell.tolerance))));
    column("measure").add(text(cell.measure));
    column("details").add(text(cell.details));
    left_hashes_ += hash_digits(cell.left.hash);
    const bool same = !cell.left.hash.empty() && cell.right.hash == cell.left.hash;
    right_hashes_ += same ? "=" : hash_digits(cell.right.hash);
    column("left_line").add(left_lines_.next(cell.left.source_line));
    column("right_line").add(right_lines_.next(cell.right.source_line));
    add_right("source", text(cell.left.source_file), text(cell.right.source_file));
    add_detail(cell);
  }

  std::string take() {
    JsonObject object;
    object.add("left_hash", std::string_view(left_hashes_));
    object.add("right_hash", std::string_view(right_hashes_));
    for (auto& [name, column] : columns_) {
      if (column.any()) object.raw(name, column.take());
    }
    return object.str();
  }

 private:
  Column& column(std::string_view name) { return columns_[std::string(name)]; }
  std::string text(const std::string& text) {
    return text.empty() ? std::string(kNull) : std::to_string(values_.texts.at(text_json(text)));
  }
  void add_right(const std::string& name, const std::string& left, const std::string& right) {
    column("left_" + name).add(left);
    column("right_" + name).add_right(right, left);
  }

  void add_detail(const MapCell& cell) {
    static const MapDetail kNothing;
    static const MapSide kNoSide;
    const MapDetail& detail = cell.detail ? *cell.detail : kNothing;
    column("told").add(cell.detail ? "1" : std::string(kNull));
    column("origin").add(text(detail.origin));
    column("caused_by").add(text(detail.caused_by));
    column("segment").add(text(detail.segment));
    column("location").add(text(detail.location));
    column("differing").add(integer_json(detail.differing));
    column("max_abs").add(real_json(detail.max_abs));
    column("max_abs_at").add(integer_json(detail.max_abs_at));
    column("max_ulp").add(integer_json(detail.max_ulp));
    column("heads").add(detail.shares.empty() ? std::string(kNull) : std::to_string(detail.heads));
    column("shares").add(shares_json(detail.shares));
    add_values(cell.detail ? cell.left : kNoSide, cell.detail ? cell.right : kNoSide);
  }

  void add_values(const MapSide& left, const MapSide& right) {
    add_right("n", integer_json(left.n), integer_json(right.n));
    add_right("min", real_json(left.min), real_json(right.min));
    add_right("max", real_json(left.max), real_json(right.max));
    add_right("mean", real_json(left.mean), real_json(right.mean));
    add_right("abs_sum", real_json(left.abs_sum), real_json(right.abs_sum));
    add_right("nan", integer_json(left.nan), integer_json(right.nan));
    add_right("inf", integer_json(left.inf), integer_json(right.inf));
    add_right("route", text(left.route), text(right.route));
  }

  static std::string shares_json(const std::vector<double>& shares) {
    if (shares.empty()) return std::string(kNull);
    std::string text;
    for (const double share : shares)
      text += (text.empty() ? "" : " ") + std::to_string(std::lround(share * 1000));
    return as_json(std::string_view(text));
  }

  CellValues& values_;
  std::map<std::string, Column> columns_;
  std::string left_hashes_, right_hashes_;
  LineSteps left_lines_, right_lines_;
};

}  // namespace

size_t NumberedValues::at(std::string json) {
  const auto [known, is_new] = index_.try_emplace(std::move(json), list_.size());
  if (is_new) list_.push_back(known->first);
  return known->second;
}

std::string NumberedValues::json() const { return json_array(list_); }

std::string json_of_cells(const MapPanel& panel, CellValues& values) {
  CellColumns columns(values);
  for (const auto& row : panel.cells) {
    for (const auto& cell : row) {
      if (cell) columns.add(*cell);
    }
  }
  return columns.take();
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

std::string real_json(const std::optional<double>& value) {
  if (!value || std::isnan(*value)) return std::string(kNull);
  if (std::isinf(*value)) return *value > 0 ? "1e999" : "-1e999";
  return short_real(*value);
}

std::string text_json(const std::string& text) {
  return as_json(std::string_view(utf8::printable(text)));
}

}  // namespace greta
