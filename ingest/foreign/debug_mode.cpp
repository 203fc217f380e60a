#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "common/json_document.h"
#include "common/json_text.h"
#include "common/utf8.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/files.h"
#include "ingest/foreign/tensor.h"
#include "ingest/text.h"

namespace greta {
namespace {

using Json = nlohmann::json;

/// A number that stands for a tensor: a norm (real) or an XOR of its bits (integer).
struct HashLeaf {
  std::string path;
  const Json* value;  ///< {"type": "scalar", "value": ...}
};

/// The shapes in "t: f32[8, 32], t: bf16[4]".
std::vector<std::vector<uint64_t>> shapes_in(std::string_view text) {
  std::vector<std::vector<uint64_t>> shapes;
  for (size_t at = 0; (at = text.find('[', at)) != text.npos && shapes.size() < 4096; ++at) {
    if (at == 0 || !text::is_word(text[at - 1])) continue;
    const size_t end = text.find(']', at);
    if (end == text.npos) break;
    std::vector<uint64_t> shape;
    std::string_view inside = text.substr(at + 1, end - at - 1);
    bool is_shape = true;
    while (!inside.empty() && is_shape) {
      const size_t comma = std::min(inside.find(','), inside.size());
      const auto size = text::number<uint64_t>(text::trim(inside.substr(0, comma)));
      is_shape = size && shape.size() < 64;
      if (is_shape) shape.push_back(*size);
      inside.remove_prefix(std::min(comma + 1, inside.size()));
    }
    if (is_shape) shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

/// The items of a serialised dict, list or tuple; null for others.
const Json* items_of(const Json& value) {
  if (!value.is_object()) return nullptr;
  const auto items = value.find("items");
  return items != value.end() && items->is_array() ? &*items : nullptr;
}

const Json* value_under(const Json& dict, std::string_view key) {
  const Json* items = items_of(dict);
  if (!items) return nullptr;
  for (const Json& item : *items) {
    if (item.is_array() && item.size() == 2 && item[0].is_string() &&
        item[0].get_ref<const std::string&>() == key) {
      return &item[1];
    }
  }
  return nullptr;
}

void collect_leaves(const Json& value, const std::string& path, int depth,
                    std::vector<HashLeaf>& leaves) {
  if (depth > 32 || leaves.size() > 4096) throw ForeignError("nests too many hashes");
  const Json* items = items_of(value);
  if (!items) {
    const std::string type = text_in(value, "type");
    const bool is_number = value.is_object() && value.contains("value") &&
                           (value["value"].is_number() || type == "nonfinite_float");
    if (is_number) leaves.push_back({path, &value});
    return;
  }
  const bool is_dict = text_in(value, "type") == "dict";
  for (size_t i = 0; i < items->size(); ++i) {
    const Json& item = (*items)[i];
    if (is_dict && item.is_array() && item.size() == 2 && item[0].is_string()) {
      collect_leaves(item[1], path + "." + item[0].get<std::string>(), depth + 1, leaves);
    } else if (!is_dict) {
      collect_leaves(item, path + "." + std::to_string(i), depth + 1, leaves);
    }
  }
}

class DebugLogs {
 public:
  explicit DebugLogs(const ForeignSource& source) : source_(source) {}

  void read() {
    constexpr const char* kNone = "is no whole JSON object with DebugMode's logs";
    const Json file = python_object(source_.text(), kNone);
    if (!file.contains("logs") || !file["logs"].is_array()) throw ForeignError(kNone);
    if (!file.contains("version") || file["version"] != 1) {
      throw ForeignError("is of a version of DebugMode's logs that is not known");
    }
    for (const Json& call : file["logs"]) {
      ++line_;
      try {
        take(call);
      } catch (const ForeignError& error) {
        source_.rows.find(0, true,
                          std::string("call ") + std::to_string(line_) + " " + error.what(),
                          json_text(call));
      }
    }
  }

 private:
  void take(const Json& call) {
    if (!call.is_object() || !call.contains("type") || !call["type"].is_string() ||
        !call.contains("call_depth") || !call["call_depth"].is_number_integer()) {
      throw ForeignError("has no type or depth");
    }
    const auto depth = call["call_depth"].get<int64_t>();
    while (!modules_.empty() && modules_.back().first >= depth) modules_.pop_back();
    const std::string type = call["type"].get<std::string>();
    if (type == "annotate") {
      if (text_in(call, "header").starts_with("nn.Mod") && modules_.size() < 256) {
        modules_.emplace_back(depth, text_in(call, "tag"));
      }
    } else if (type == "op") {
      take_op(call, text_in(call, "op_name"));
    } else if (type == "triton_kernel") {
      const std::string kernel = text_in(call, "kernel_name");
      begin_call(kernel);
      take_hashes(call, "pre_hashes", "input", text_in(call, "kwargs_str"));
      take_hashes(call, "post_hashes", "output", text_in(call, "kwargs_str"));
    }
  }

  void take_op(const Json& call, const std::string& name) {
    if (name.empty()) throw ForeignError("has no operator");
    begin_call(name);
    const auto log = call.find("log");
    if (log == call.end() || log->is_null()) return;
    if (const Json* inputs = value_under(*log, "input_hash")) {
      add_leaves(*inputs, "input", text_in(call, "args_str") + text_in(call, "kwargs_str"));
    }
    if (const Json* outputs = value_under(*log, "hash")) {
      add_leaves(*outputs, "output", text_in(call, "output_str"));
    }
  }

  void take_hashes(const Json& call, const char* key, const char* side, const std::string& shapes) {
    const auto found = call.find(key);
    if (found != call.end() && !found->is_null()) add_leaves(*found, side, shapes);
  }

  /// Which call of this name it is, in its module.
  void begin_call(const std::string& name) {
    const std::string module = modules_.empty() ? "" : modules_.back().second;
    const int64_t nth = seen_[{module, name}]++;
    call_ = (module.empty() ? "" : module + ".") + name;
    nth_ = nth;
  }

  void add_leaves(const Json& hashes, const char* side, const std::string& said_shapes) {
    std::vector<HashLeaf> leaves;
    collect_leaves(hashes, "", 0, leaves);
    const auto shapes = shapes_in(said_shapes);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const std::string behind = std::string(".") + side + leaves[i].path;
      TracePlace place = source_.rows.rules().place_of(call_ + "." + std::to_string(nth_) + behind);
      // Without a layer the number of the call stands for it, so that names stay few.
      if (place.layer < 0 && nth_ <= kMaxLayer) place = {call_ + behind, nth_};
      const auto* shape = shapes.size() == leaves.size() ? &shapes[i] : nullptr;
      add_row(place, *leaves[i].value, shape);
    }
  }

  void add_row(const TracePlace& place, const Json& leaf, const std::vector<uint64_t>* shape) {
    JsonObject extra;
    extra.add("name", call_).add("call", line_).raw("hash", leaf["value"].dump());
    if (shape) extra.raw("shape", text_of(*shape));
    source_.rows.begin(place, line_, extra.str());
    TraceRow& row = source_.rows.add_whole(source_.path.rank_name(), "forward",
                                           source_.path.step.value_or(kUnknownStep));
    if (shape) row.n = static_cast<int64_t>(count_of(*shape));
    const Json& value = leaf["value"];
    if (value.is_number_float() && std::isfinite(value.get<double>())) {
      row.abs_sum = value.get<double>();
    } else if (value.is_number_unsigned()) {
      source_.rows.set_hash(row, value.get<uint64_t>(), "torch-xor");
    } else if (value.is_number_integer()) {
      source_.rows.set_hash(row, static_cast<uint64_t>(value.get<int64_t>()), "torch-xor");
    } else {
      row.flags |= kFlagNonfiniteStatistic;
    }
  }

  const ForeignSource& source_;
  std::vector<std::pair<int64_t, std::string>> modules_;  // depth and name, outermost first
  std::map<std::pair<std::string, std::string>, int64_t> seen_;
  std::string call_;
  int64_t nth_ = 0, line_ = 0;
};

}  // namespace

void read_debug_mode(const ForeignSource& source) { DebugLogs(source).read(); }

bool is_debug_mode(std::string_view head) {
  return head.find("_debug_mode.DebugMode.logs\"") != head.npos &&
         head.find("\"format\"") != head.npos;
}

}  // namespace greta
