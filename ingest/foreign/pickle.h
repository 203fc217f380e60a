#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ingest/foreign/tensor.h"

namespace greta {

/// A value of a pickle. Containers refer to values of the same Pickle.
struct PickleValue {
  enum Kind {
    kNone,
    kBool,
    kInteger,
    kReal,
    kText,
    kTuple,
    kList,
    kDict,
    kName,     ///< of something that a REDUCE calls: text
    kStorage,  ///< text: its key; integer: its size; items: the name of its class
    kTensor,
    kUnread,  ///< a tensor that greta does not read: text says why, behind its name
    kOther,   ///< what greta does not read and is no tensor: text says what
  };

  Kind kind = kNone;
  int64_t integer = 0;  ///< also of a bool
  double real = 0;
  std::string text;                       ///< also bytes
  std::vector<const PickleValue*> items;  ///< of a dict: key, value, key, value, ...
  std::optional<Dtype> dtype;             ///< of a storage, when its class tells
  std::shared_ptr<const Tensor> tensor;   ///< of a kTensor

  bool is_text(std::string_view is) const { return kind == kText && text == is; }
  /// The value under a key of a dict; null when it is no dict or has none.
  const PickleValue* find(std::string_view key) const;
};

/// What torch.save writes: plain values and tensors, whose values lie elsewhere. Nothing is
/// executed: the opcodes of such files are known, and the few names that they call
/// (_rebuild_tensor_v2, storages, OrderedDict, dtypes, torch.Size and the like); any other is
/// refused, and named. A tensor that greta cannot read is one that says so: the others are there.
class Pickle {
 public:
  /// Throws ForeignError for what is no such pickle; it is of at most 16 MiB.
  explicit Pickle(std::string_view bytes);

  const PickleValue& root() const { return *root_; }

 private:
  class Machine;

  std::deque<PickleValue> values_;
  const PickleValue* root_ = nullptr;
};

inline constexpr size_t kMaxPickleBytes = size_t{16} << 20;

/// Calls `on_tensor` for every tensor of a pickle, with its name: keys and numbers joined by ".",
/// of a pickle that is one tensor `alone`. `on_other` gets the names of values that are none, and
/// of tensors that greta does not read (kUnread). Throws ForeignError for containers in containers
/// beyond 32, and beyond 100,000 values.
void for_each_tensor(
    const PickleValue& root, const std::string& alone,
    const std::function<void(std::string name, const Tensor& tensor)>& on_tensor,
    const std::function<void(const std::string& name, const PickleValue& value)>& on_other);

/// A plain value as JSON: its first 256 values, containers up to 4 deep. What has no JSON is a text
/// of what it is.
std::string json_of(const PickleValue& value);

/// "module.name", as a pickle asks for it, is one that torch.save writes.
bool is_known_name(std::string_view name);

/// Value of a call of a name that torch.save writes. Nothing is run: it is told from the arguments.
/// Throws ForeignError for arguments that torch.save does not write.
PickleValue called(const std::string& name, const std::vector<const PickleValue*>& arguments);

/// The storage that a persistent id stands for: ('storage', class, key, device, size). Throws
/// ForeignError for any other.
PickleValue storage_named(const PickleValue& id);

/// Throws ForeignError: "its pickle " and why.
[[noreturn]] void refuse_pickle(const std::string& why);

}  // namespace greta
