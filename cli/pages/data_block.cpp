#include "cli/pages/data_block.h"

#include <string_view>
#include <vector>

#include "cli/pages/cell_columns.h"
#include "common/json_text.h"
#include "common/utf8.h"

namespace greta {
namespace {

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
    return object.raw("rows", json_array(rows)).raw("cells", json_of_cells(panel, values_)).str();
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

}  // namespace greta
