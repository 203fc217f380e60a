#include "ingest/foreign/pickle.h"

#include <bit>
#include <cstring>
#include <unordered_map>

#include "common/utf8.h"
#include "ingest/foreign/error.h"
#include "ingest/foreign/pickle_names.h"

namespace greta {
namespace {

constexpr size_t kMaxValues = 500'000;

[[noreturn]] void refuse(const std::string& why) { throw ForeignError("its pickle " + why); }

/// The numbers of a shape or a stride.
std::vector<uint64_t> sizes_of(const PickleValue& tuple) {
  if (tuple.kind != PickleValue::kTuple) refuse("has a tensor without a shape");
  std::vector<uint64_t> sizes;
  constexpr size_t kMaxDimensions = 64;
  if (tuple.items.size() > kMaxDimensions) refuse("has a tensor of more than 64 dimensions");
  for (const PickleValue* item : tuple.items) {
    if (item->kind != PickleValue::kInteger || item->integer < 0) {
      refuse("has a tensor whose shape is not of numbers");
    }
    sizes.push_back(static_cast<uint64_t>(item->integer));
  }
  return sizes;
}

}  // namespace

const PickleValue* PickleValue::find(std::string_view key) const {
  if (kind != kDict) return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i]->is_text(key)) return items[i + 1];
  }
  return nullptr;
}

/// The stack machine that a pickle is a program of.
class Pickle::Machine {
 public:
  Machine(Pickle& pickle, std::string_view bytes) : pickle_(pickle), rest_(bytes) {}

  const PickleValue* run() {
    for (;;) {
      const auto opcode = static_cast<uint8_t>(take(1)[0]);
      if (opcode == '.') return pop();
      if (!push_constant(opcode) && !push_text(opcode) && !use_memo(opcode) &&
          !build_container(opcode)) {
        call(opcode);
      }
    }
  }

 private:
  using Kind = PickleValue::Kind;

  std::string_view take(size_t count) {
    if (count > rest_.size()) refuse("is truncated");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    std::memcpy(&value, take(bytes).data(), bytes);
    return value;
  }

  std::string_view line() {
    const size_t end = rest_.find('\n');
    if (end == rest_.npos) refuse("is truncated");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  PickleValue& make(Kind kind) {
    if (pickle_.values_.size() >= kMaxValues) refuse("has more than half a million values");
    PickleValue& value = pickle_.values_.emplace_back();
    value.kind = kind;
    return value;
  }

  PickleValue& push(Kind kind) {
    PickleValue& value = make(kind);
    stack_.push_back(&value);
    return value;
  }

  PickleValue* pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) {
      refuse("takes from an empty stack");
    }
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  PickleValue& top(Kind kind) {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size()) ||
        stack_.back()->kind != kind) {
      refuse("adds to what is no container");
    }
    return *stack_.back();
  }

  /// What lies above the last mark.
  std::vector<const PickleValue*> pop_marked() {
    if (marks_.empty()) refuse("has no mark where it needs one");
    const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<const PickleValue*> items(from, stack_.end());
    stack_.erase(from, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_integer(int64_t value) { push(Kind::kInteger).integer = value; }

  /// Little-endian two's complement of any length.
  void push_long(size_t bytes) {
    const std::string_view digits = take(bytes);
    if (bytes > 8) {
      push(Kind::kOther).text = "a number beyond 64 bits";
      return;
    }
    uint64_t value = 0;
    std::memcpy(&value, digits.data(), bytes);
    const bool negative = bytes > 0 && (digits.back() & 0x80);
    if (negative && bytes < 8) value |= ~uint64_t{0} << (8 * bytes);
    push_integer(static_cast<int64_t>(value));
  }

  bool push_constant(uint8_t opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        if (number(1) > 5) refuse("is of a protocol that is not known");
        has_protocol_ = true;
        return true;
      case 0x95:
        take(8);
        return true;  // FRAME
      case 'N':
        push(Kind::kNone);
        return true;
      case 0x88:
        push(Kind::kBool).integer = 1;
        return true;
      case 0x89:
        push(Kind::kBool).integer = 0;
        return true;
      case 'J':
        push_integer(static_cast<int32_t>(number(4)));
        return true;
      case 'K':
        push_integer(static_cast<int64_t>(number(1)));
        return true;
      case 'M':
        push_integer(static_cast<int64_t>(number(2)));
        return true;
      case 0x8a:
        push_long(number(1));
        return true;
      case 0x8b:
        push_long(number(4));
        return true;
      case 'G': {
        uint64_t bits = 0;
        for (char c : take(8)) bits = bits << 8 | static_cast<uint8_t>(c);
        push(Kind::kReal).real = std::bit_cast<double>(bits);
        return true;
      }
      default:
        return false;
    }
  }

  bool push_text(uint8_t opcode) {
    size_t length_bytes = 0;
    switch (opcode) {
      case 0x8c:
      case 'U':
      case 'C':
        length_bytes = 1;
        break;
      case 'X':
      case 'T':
      case 'B':
        length_bytes = 4;
        break;
      case 0x8d:
      case 0x8e:
        length_bytes = 8;
        break;
      default:
        return false;
    }
    const std::string_view text = take(number(length_bytes));
    push(Kind::kText).text = text;
    return true;
  }

  bool use_memo(uint8_t opcode) {
    switch (opcode) {
      case 'q':
        remember(number(1));
        return true;
      case 'r':
        remember(number(4));
        return true;
      case 0x94:
        remember(memo_.size());
        return true;
      case 'h':
        recall(number(1));
        return true;
      case 'j':
        recall(number(4));
        return true;
      default:
        return false;
    }
  }

  void remember(uint64_t at) {
    PickleValue* value = pop();
    stack_.push_back(value);
    memo_[at] = value;
  }

  void recall(uint64_t at) {
    const auto found = memo_.find(at);
    if (found == memo_.end()) refuse("recalls what it did not remember");
    stack_.push_back(found->second);
  }

  bool build_container(uint8_t opcode) {
    switch (opcode) {
      case '(':
        marks_.push_back(stack_.size());
        return true;
      case '0':
        pop();
        return true;
      case '1':
        pop_marked();
        return true;
      case '}':
        push(Kind::kDict);
        return true;
      case ']':
        push(Kind::kList);
        return true;
      case ')':
        push(Kind::kTuple);
        return true;
      case 't':
        push_items(Kind::kTuple, pop_marked());
        return true;
      case 'l':
        push_items(Kind::kList, pop_marked());
        return true;
      case 'd':
        push_items(Kind::kDict, pop_marked());
        return true;
      case 0x85:
        push_last(1);
        return true;
      case 0x86:
        push_last(2);
        return true;
      case 0x87:
        push_last(3);
        return true;
      case 'a': {
        const PickleValue* item = pop();
        top(Kind::kList).items.push_back(item);
        return true;
      }
      case 'e':
        add_items(Kind::kList, pop_marked());
        return true;
      case 's': {
        const PickleValue* value = pop();
        const PickleValue* key = pop();
        add_items(Kind::kDict, {key, value});
        return true;
      }
      case 'u':
        add_items(Kind::kDict, pop_marked());
        return true;
      default:
        return false;
    }
  }

  void push_items(Kind kind, std::vector<const PickleValue*> items) {
    if (kind == Kind::kDict && items.size() % 2 != 0) refuse("has a key without a value");
    push(kind).items = std::move(items);
  }

  void push_last(size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push(Kind::kTuple).items = std::move(items);
  }

  void add_items(Kind kind, const std::vector<const PickleValue*>& more) {
    if (kind == Kind::kDict && more.size() % 2 != 0) refuse("has a key without a value");
    auto& items = top(kind).items;
    items.insert(items.end(), more.begin(), more.end());
  }

  void call(uint8_t opcode) {
    switch (opcode) {
      case 'c': {
        const std::string module(line());
        return push_name(module + "." + std::string(line()));
      }
      case 0x93: {
        const PickleValue* name = pop();
        const PickleValue* module = pop();
        return push_name(module->text + "." + name->text);
      }
      case 'R': {
        const PickleValue* arguments = pop();
        const PickleValue* function = pop();
        return reduce(*function, *arguments);
      }
      case 'Q':
        return push_storage(*pop());
      case 'b':  // BUILD: what it would set are attributes beside the items
        pop();
        if (!may_have_attributes()) {
          refuse("sets attributes of an object, which greta does not read");
        }
        return;
      default:
        refuse_opcode(opcode);
    }
  }

  bool may_have_attributes() const {
    if (stack_.empty()) return false;
    const Kind kind = stack_.back()->kind;
    return kind == Kind::kDict || kind == Kind::kTensor || kind == Kind::kUnread ||
           kind == Kind::kOther;
  }

  [[noreturn]] void refuse_opcode(uint8_t opcode) const {
    // protocols 0 and 1 write numbers and texts as lines, and do not say which they are
    constexpr std::string_view kOfOldProtocols = "FILPSVgip";
    if (!has_protocol_ && kOfOldProtocols.find(static_cast<char>(opcode)) != std::string::npos) {
      refuse("is of protocol 0 or 1; greta reads 2 and later: torch.save(..., pickle_protocol=2)");
    }
    refuse("has opcode " + std::to_string(opcode) + ", which greta does not read");
  }

  void push_name(std::string name) {
    if (name.starts_with("__builtin__.")) name.replace(0, 12, "builtins.");
    if (!is_known_name(name)) {
      constexpr size_t kMaxShown = 200;
      refuse("asks for " + utf8::printable(name.substr(0, kMaxShown)) +
             ", which greta does not read; nothing of it is run");
    }
    push(Kind::kName).text = std::move(name);
  }

  void reduce(const PickleValue& function, const PickleValue& arguments) {
    if (function.kind != Kind::kName || arguments.kind != Kind::kTuple) {
      refuse("calls what is no function");
    }
    const auto& items = arguments.items;
    const std::string& name = function.text;
    if (name == "collections.OrderedDict" && items.empty()) {
      push(Kind::kDict);
    } else if (name == "torch._utils._rebuild_tensor_v2" && items.size() >= 6) {
      rebuild(items, items[0]->dtype, nullptr, items.size() > 6 ? items[6] : nullptr);
    } else if (name == "torch._utils._rebuild_tensor_v3" && items.size() >= 7) {
      rebuild(items, items[6]->kind == Kind::kName ? dtype_named(items[6]->text) : std::nullopt,
              items[6], items.size() > 7 ? items[7] : nullptr);
    } else if (name.starts_with("torch._utils._rebuild_parameter") && !items.empty()) {
      push(Kind::kNone) = *items[0];
    } else if (name == "torch.Size" && items.size() == 1 && items[0]->kind == Kind::kTuple) {
      push(Kind::kTuple).items = items[0]->items;
    } else if ((name == "torch.device" || name == "torch.serialization._get_layout" ||
                name == "_codecs.encode") &&
               !items.empty() && items[0]->kind == Kind::kText) {
      push(Kind::kText).text = items[0]->text;
    } else if (makes_number(name)) {
      push(Kind::kOther).text = "a number of NumPy";
    } else if (const std::string_view why = unread_tensor_of(name); !why.empty()) {
      push(Kind::kUnread).text = why;
    } else {
      refuse("calls " + name + " otherwise than torch.save does");
    }
  }

  /// `type` is what names the dtype where the storage's class does not; `bits` what is said of all
  /// values, a dict or nothing.
  void rebuild(const std::vector<const PickleValue*>& items, std::optional<Dtype> dtype,
               const PickleValue* type, const PickleValue* bits) {
    if (items[0]->kind != Kind::kStorage || items[1]->kind != Kind::kInteger ||
        items[1]->integer < 0) {
      refuse("has a tensor without a storage");
    }
    if (!type) type = items[0]->items[0];
    if (!dtype) return push_unread("is of " + type->text + ", which greta does not read");
    Tensor tensor;
    tensor.dtype = *dtype;
    tensor.storage = items[0]->text;
    tensor.shape = sizes_of(*items[2]);
    tensor.stride = sizes_of(*items[3]);
    if (tensor.stride.size() != tensor.shape.size()) refuse("has a tensor without strides");
    constexpr int64_t kMostOffset = int64_t{1} << 58;
    if (items[1]->integer > kMostOffset) refuse("has a tensor that begins beyond any file");
    tensor.offset = static_cast<uint64_t>(items[1]->integer) * bytes_of(*dtype);
    if (const std::string why = take_bits(bits, tensor); !why.empty()) return push_unread(why);
    push(Kind::kTensor).tensor = std::make_shared<const Tensor>(std::move(tensor));
  }

  void push_unread(const std::string& why) {
    constexpr size_t kMaxShown = 200;
    push(Kind::kUnread).text = utf8::printable(why.substr(0, kMaxShown));
  }

  /// {'conj': True, 'neg': True}, of values that are stored otherwise than they are. Returns what
  /// keeps the tensor from being read.
  static std::string take_bits(const PickleValue* bits, Tensor& tensor) {
    if (!bits || bits->kind == Kind::kNone) return "";
    if (bits->kind != Kind::kDict) return "has bits of its values that are no dict";
    for (size_t i = 0; i + 1 < bits->items.size(); i += 2) {
      const PickleValue& key = *bits->items[i];
      const PickleValue& value = *bits->items[i + 1];
      if (value.kind == Kind::kBool && value.integer == 0) continue;
      const bool is_neg = key.is_text("neg"), is_conj = key.is_text("conj");
      if (value.kind != Kind::kBool || !is_neg || is_integer(tensor.dtype)) {
        return "is stored with '" + key.text + "', which greta does not read" +
               (is_neg || is_conj ? ": resolve_" + key.text + "() before it is saved" : "");
      }
      tensor.is_negated = true;
    }
    return "";
  }

  /// ('storage', class, key, device, size)
  void push_storage(const PickleValue& id) {
    if (id.kind != Kind::kTuple || id.items.size() < 5 || !id.items[0]->is_text("storage") ||
        id.items[1]->kind != Kind::kName || id.items[2]->kind != Kind::kText ||
        id.items[4]->kind != Kind::kInteger) {
      refuse("refers to something that is no storage");
    }
    PickleValue& storage = push(Kind::kStorage);
    storage.text = id.items[2]->text;
    storage.integer = id.items[4]->integer;
    storage.dtype = dtype_of_storage(id.items[1]->text);
    storage.items = {id.items[1]};
  }

  Pickle& pickle_;
  std::string_view rest_;
  bool has_protocol_ = false;  // says that it is of protocol 2 or later
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

Pickle::Pickle(std::string_view bytes) {
  if (bytes.size() > kMaxPickleBytes) refuse("is larger than 16 MiB");
  root_ = Machine(*this, bytes).run();
}

}  // namespace greta
