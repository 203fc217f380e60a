#include "cli/pages/data_block.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "cli/report/markdown.h"
#include "cli/warehouse/sql_query.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

std::string real_json(const std::optional<double>& value) {
  if (!value) return "null";
  if (std::isinf(*value)) return *value > 0 ? "1e999" : "-1e999";
  return std::isnan(*value) ? "null" : short_real(*value);
}
std::string json_of(const std::optional<int64_t>& value) {
  return value ? std::to_string(*value) : "null";
}

/// Values by number: each stands once.
template <class T>
class Numbered {
 public:
  explicit Numbered(std::function<std::string(const T&)> json, const std::vector<T>& first = {})
      : json_(std::move(json)) {
    for (const T& value : first) at(value);
  }
  size_t at(const T& value) {
    const auto [known, is_new] = index_.try_emplace(value, list_.size());
    if (is_new) list_.push_back(json_(value));
    return known->second;
  }
  std::string json() const { return json_array(list_); }

 private:
  std::function<std::string(const T&)> json_;
  std::map<T, size_t> index_;
  std::vector<std::string> list_;
};

std::string text_json(const std::string& text) {
  return as_json(std::string_view(utf8::printable(text)));
}

std::string hash_json(const std::string& decimal) {
  uint64_t hash = 0;
  const char* end = decimal.data() + decimal.size();
  if (decimal.empty() || std::from_chars(decimal.data(), end, hash).ptr != end) return "null";
  char text[20];
  std::snprintf(text, sizeof text, "\"%016llx\"", static_cast<unsigned long long>(hash));
  return text;
}

constexpr std::string_view kColumns =
    R"(["state","positions","failing","pos_id","rel_l2","tolerance","measure","left_hash",)"
    R"("right_hash","left_source","left_line","right_source","right_line","details","origin",)"
    R"("caused_by","segment","location","differing","max_abs","max_abs_at","max_ulp","heads",)"
    R"("shares","left_values","right_values"])";

/// Writes the cells of one map.
class MapJson {
 public:
  explicit MapJson(const PairMap& map) : map_(map) {}

  std::string write() {
    std::vector<std::string> panels;
    for (const MapPanel& panel : map_.panels) panels.push_back(panel_json(panel));
    std::vector<std::string> layers, tensors, names, inputs;
    for (const auto& layer : map_.layers) layers.push_back(json_of(layer));
    for (const MapTensor& tensor : map_.tensors) {
      tensors.push_back(text_json(tensor.name));
      names.push_back(text_json(tensor.written));
    }
    for (const PairMap::Input& input : map_.inputs) {
      inputs.push_back("[" + std::to_string(input.to) + "," + std::to_string(input.from) + "," +
                       as_json(std::string_view(input.layer)) + "]");
    }
    JsonObject object;
    object.add("left", std::string_view(map_.left)).add("right", std::string_view(map_.right));
    object.raw("layers", json_array(layers))
        .raw("tensors", json_array(tensors))
        .raw("names", json_array(names));
    object.raw("inputs", json_array(inputs)).raw("columns", kColumns);
    object.raw("panels", json_array(panels));
    object.raw("states", states_.json()).raw("texts", texts_.json());
    object.raw("tolerances", tolerances_.json());
    return object.str();
  }

 private:
  std::string panel_json(const MapPanel& panel) {
    std::string rows;
    for (const auto& row : panel.cells) {
      std::string cells;
      for (const auto& cell : row)
        cells += (cells.empty() ? "" : ",") + (cell ? cell_json(*cell) : "0");
      rows += (rows.empty() ? "[" : ",\n[") + cells + "]";
    }
    JsonObject object;
    object.add("prompt", std::string_view(utf8::printable(panel.prompt)));
    if (!panel.phase.empty()) object.add("phase", std::string_view(panel.phase));
    return object.raw("cells", "[" + rows + "]").str();
  }

  std::string text(const std::string& text) { return std::to_string(texts_.at(text)); }

  std::string values(const MapSide& side) {
    return "[" + json_of(side.n) + "," + real_json(side.min) + "," + real_json(side.max) + "," +
           real_json(side.mean) + "," + real_json(side.abs_sum) + "," + json_of(side.nan) + "," +
           json_of(side.inf) + "," + text(side.route) + "]";
  }

  std::string cell_json(const MapCell& cell) {
    const std::string state =
        cell.row_class.empty() ? cell.status : cell.status + " " + cell.row_class;
    const bool same = cell.right.hash == cell.left.hash && !cell.left.hash.empty();
    std::vector<std::string> parts = {std::to_string(states_.at(state)),
                                      std::to_string(cell.positions),
                                      std::to_string(cell.failing),
                                      json_of(cell.pos_id),
                                      real_json(cell.rel_l2),
                                      std::to_string(tolerances_.at(cell.tolerance)),
                                      text(cell.measure),
                                      hash_json(cell.left.hash),
                                      same ? "0" : hash_json(cell.right.hash),
                                      text(cell.left.source_file),
                                      json_of(cell.left.source_line),
                                      text(cell.right.source_file),
                                      json_of(cell.right.source_line)};
    if (cell.detail || !cell.details.empty()) parts.push_back(text(cell.details));
    if (cell.detail) add_detail(parts, cell);
    while (parts.back() == "null") parts.pop_back();
    std::string json;
    for (const std::string& part : parts) json += (json.empty() ? "[" : ",") + part;
    return json + "]";
  }

  void add_detail(std::vector<std::string>& parts, const MapCell& cell) {
    const MapDetail& detail = *cell.detail;
    std::string shares;
    for (const double share : detail.shares) {
      shares += (shares.empty() ? "[" : ",") + std::to_string(std::lround(share * 1000));
    }
    for (const std::string* part :
         {&detail.origin, &detail.caused_by, &detail.segment, &detail.location}) {
      parts.push_back(text(*part));
    }
    for (const std::string& part :
         {json_of(detail.differing), real_json(detail.max_abs), json_of(detail.max_abs_at),
          json_of(detail.max_ulp), std::to_string(detail.heads),
          shares.empty() ? std::string("null") : shares + "]", values(cell.left),
          values(cell.right)}) {
      parts.push_back(part);
    }
  }

  const PairMap& map_;
  Numbered<std::string> texts_{text_json, {""}}, states_{text_json};
  Numbered<std::optional<double>> tolerances_{real_json};
};

}  // namespace

std::string short_real(double value) {
  std::string text = real_text(value, "%.5g");
  if (const size_t e = text.find('e'); e != std::string::npos) {  // e-07
    size_t digits = e + 2;
    if (text[e + 1] == '+') text.erase(e + 1, 1), --digits;
    while (digits + 1 < text.size() && text[digits] == '0') text.erase(digits, 1);
  }
  return text;
}

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

}  // namespace greta
