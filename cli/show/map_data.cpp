#include <charconv>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "cli/show/page.h"
#include "cli/show/pair_map.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr std::string_view kNull = "null", kAsLeft = R"("=")";

/// A text of data as JSON.
std::string text_json(const std::string& text) {
  return as_json(std::string_view(utf8::printable(text)));
}

/// A real, null without a value or for NaN, and what is read as infinite.
std::string real_json(const std::optional<double>& value) {
  if (!value || std::isnan(*value)) return std::string(kNull);
  if (std::isinf(*value)) return *value > 0 ? "1e999" : "-1e999";
  return short_real(*value);
}

/// Values by number: each stands once, as JSON.
class NumberedValues {
 public:
  size_t at(std::string json) {
    const auto [known, is_new] = index_.try_emplace(std::move(json), list_.size());
    if (is_new) list_.push_back(known->first);
    return known->second;
  }
  std::string json() const { return json_array(list_); }

 private:
  std::map<std::string, size_t> index_;
  std::vector<std::string> list_;
};

/// Values that the cells of a map refer to by number.
struct CellValues {
  NumberedValues states, texts, tolerances;
};

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
class ValueColumn {
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

/// The cells of a panel, column by column in the order of rows, as a JSON object. A column is an
/// array; [value, n] in it is n cells that have this value, and null is a value that a cell has
/// not. A column without a value is left out. "state", "tolerance" and texts are numbers in
/// `values`; each "left_line" and "right_line" is the distance from the one before; "=" in a right
/// column is the left one's value; "shares" are thousandths between blanks; "told" is 1 where the
/// cell has its MapDetail. A column of hashes is a text: of each 11 digits of base 64, "." without
/// one, "=" for that of the left.
class CellColumns {
 public:
  explicit CellColumns(CellValues& values) : values_(values) {}

  void add(const MapCell& cell) {
    column("state").add(std::to_string(values_.states.at(text_json(cell.state()))));
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
  ValueColumn& column(std::string_view name) { return columns_[std::string(name)]; }
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
  std::map<std::string, ValueColumn> columns_;
  std::string left_hashes_, right_hashes_;
  LineSteps left_lines_, right_lines_;
};

/// Writes one map.
class MapJson {
 public:
  explicit MapJson(const PairMap& map) : map_(map) {}

  std::string write() {
    JsonObject object;
    object.add("left", std::string_view(map_.left)).add("right", std::string_view(map_.right));
    add_axes(object);
    std::vector<std::string> panels;
    for (const MapPanel& panel : map_.panels) panels.push_back("\n" + panel_json(panel));
    object.raw("panels", json_array(panels)).raw("rows", rows_.json());
    object.raw("states", values_.states.json()).raw("texts", values_.texts.json());
    object.raw("tolerances", values_.tolerances.json());
    return object.str();
  }

 private:
  void add_axes(JsonObject& object) const {
    std::vector<std::string> layers, tensors, names, inputs;
    for (const auto& layer : map_.layers)
      layers.push_back(layer ? std::to_string(*layer) : std::string("null"));
    for (const MapTensor& tensor : map_.tensors) {
      tensors.push_back(text_json(tensor.name));
      names.push_back(text_json(tensor.written));
    }
    for (const PairMap::Input& input : map_.inputs) {
      inputs.push_back("[" + std::to_string(input.to) + "," + std::to_string(input.from) + "," +
                       as_json(std::string_view(input.layer)) + "]");
    }
    object.raw("layers", json_array(layers)).raw("tensors", json_array(tensors));
    object.raw("names", json_array(names)).raw("inputs", json_array(inputs));
  }

  std::string panel_json(const MapPanel& panel) {
    std::vector<std::string> rows;
    for (const auto& row : panel.cells) {
      std::string there;
      for (const auto& cell : row) there += cell ? '1' : '0';
      rows.push_back(std::to_string(rows_.at(text_json(there))));
    }
    JsonObject object;
    object.add("prompt", std::string_view(utf8::printable(panel.prompt)));
    if (!panel.phase.empty()) object.add("phase", std::string_view(panel.phase));
    return object.raw("rows", json_array(rows)).raw("cells", cells_json(panel)).str();
  }

  std::string cells_json(const MapPanel& panel) {
    CellColumns columns(values_);
    for (const auto& row : panel.cells) {
      for (const auto& cell : row) {
        if (cell) columns.add(*cell);
      }
    }
    return columns.take();
  }

  const PairMap& map_;
  CellValues values_;
  NumberedValues rows_;
};

}  // namespace

std::string json_of_map(const PairMap& map) { return MapJson(map).write(); }

std::string json_of_measures(QueryPool& statements) {
  Query rows(statements, "SELECT name, low, high FROM measure WHERE low IS NOT NULL");
  JsonObject object;
  while (rows.step()) {
    object.raw(rows.text(0),
               "[" + short_real(rows.cell(1).real) + "," + short_real(rows.cell(2).real) + "]");
  }
  return object.str();
}

std::string json_of_map_words(const Wording& words, TextId untold) {
  return json_of_words(
      {untold,           "prompt",      "layer",          "position",       "hash",
       "rel_l2",         "tolerance",   "page.close",     "page.inputs",    "page.caused_by",
       "page.arises",    "page.where",  "page.furthest",  "page.shares",    "page.per_head",
       "page.per_slice", "page.source", "page.interval",  "page.rows",      "page.same_hash",
       "page.no_row",    "page.route",  "measure.exact",  "measure.sketch", "measure.sample",
       "measure.hash",   "details",     "tree.positions", "cell.m",         "cell.r",
       "cell.f",         "cell.u",      "cell.n",         "cell.x",         "cell.i",
       "cell.c",         "cell.o",      "cell.t"},
      words);
}

}  // namespace greta
