#include <vector>

#include "common/json_text.h"
#include "ingest/foreign/bytes.h"
#include "ingest/foreign/pickle.h"

namespace greta {
namespace {

constexpr int kMaxTreeDepth = 32;
constexpr size_t kMaxVisits = 100'000;
constexpr size_t kMaxNameBytes = 512;
constexpr size_t kMaxJsonValues = 256;

class TreeWalk {
 public:
  TreeWalk(const std::function<void(std::string, const Tensor&)>& on_tensor,
           const std::function<void(const std::string&, const PickleValue&)>& on_other)
      : on_tensor_(on_tensor), on_other_(on_other) {}

  void visit(const PickleValue& value, const std::string& name, int depth) {
    if (depth > kMaxTreeDepth || ++visits_ > kMaxVisits || name.size() > kMaxNameBytes) {
      throw ForeignError("its pickle nests too many values");
    }
    const auto below = [&](const std::string& key) {
      return name.empty() ? key : name + "." + key;
    };
    switch (value.kind) {
      case PickleValue::kTensor:
        return on_tensor_(name, *value.tensor);
      case PickleValue::kDict:
        for (size_t i = 0; i + 1 < value.items.size(); i += 2) {
          const PickleValue& key = *value.items[i];
          const std::string text = key.kind == PickleValue::kText ? key.text : json_of(key);
          visit(*value.items[i + 1], below(text), depth + 1);
        }
        return;
      case PickleValue::kList:
      case PickleValue::kTuple:
        for (size_t i = 0; i < value.items.size(); ++i) {
          visit(*value.items[i], below(std::to_string(i)), depth + 1);
        }
        return;
      case PickleValue::kNone:
        return;
      default:
        on_other_(name, value);
    }
  }

 private:
  const std::function<void(std::string, const Tensor&)>& on_tensor_;
  const std::function<void(const std::string&, const PickleValue&)>& on_other_;
  size_t visits_ = 0;
};

std::string json_of_some(const PickleValue& value, int depth, size_t& left) {
  if (left > 0) --left;
  switch (value.kind) {
    case PickleValue::kNone:
      return "null";
    case PickleValue::kBool:
      return value.integer ? "true" : "false";
    case PickleValue::kInteger:
      return as_json(value.integer);
    case PickleValue::kReal:
      return as_json(value.real);
    case PickleValue::kName:
    case PickleValue::kText:
      return as_json(std::string_view(value.text).substr(0, kMaxNameBytes));
    case PickleValue::kTensor:
      return as_json("tensor " + text_of(value.tensor->shape));
    case PickleValue::kList:
    case PickleValue::kTuple: {
      std::vector<std::string> items;
      for (const PickleValue* item : value.items) {
        if (depth == 0 || left == 0) break;
        items.push_back(json_of_some(*item, depth - 1, left));
      }
      return json_array(items);
    }
    case PickleValue::kDict: {
      JsonObject object;
      for (size_t i = 0; i + 1 < value.items.size() && depth > 0 && left > 0; i += 2) {
        const PickleValue& key = *value.items[i];
        object.raw(key.kind == PickleValue::kText ? key.text.substr(0, kMaxNameBytes)
                                                  : json_of_some(key, 0, left),
                   json_of_some(*value.items[i + 1], depth - 1, left));
      }
      return object.str();
    }
    case PickleValue::kUnread:
      return as_json("a tensor that " + value.text);
    case PickleValue::kStorage:
      return as_json(std::string_view("a storage"));
    default:
      return as_json(value.text);
  }
}

}  // namespace

void for_each_tensor(const PickleValue& root, const std::string& alone,
                     const std::function<void(std::string, const Tensor&)>& on_tensor,
                     const std::function<void(const std::string&, const PickleValue&)>& on_other) {
  const bool is_one = root.kind == PickleValue::kTensor || root.kind == PickleValue::kUnread;
  TreeWalk(on_tensor, on_other).visit(root, is_one ? alone : std::string(), 0);
}

std::string json_of(const PickleValue& value) {
  size_t left = kMaxJsonValues;
  return json_of_some(value, 4, left);
}

}  // namespace greta
