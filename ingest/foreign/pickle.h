#pragma once
#include <cstdint>
#include <deque>
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

}  // namespace greta
