#include "ingest/foreign/pickle.h"

#include <bit>
#include <cstring>
#include <unordered_map>

#include "common/utf8.h"
#include "ingest/foreign/pickle_calls.h"

namespace greta {
namespace {

constexpr size_t kMaxValues = 500'000;

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
    if (count > rest_.size()) refuse_pickle("is truncated");
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
    if (end == rest_.npos) refuse_pickle("is truncated");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  PickleValue& make(Kind kind) {
    if (pickle_.values_.size() >= kMaxValues) refuse_pickle("has more than half a million values");
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
      refuse_pickle("takes from an empty stack");
    }
    PickleValue* value = stack_.back();
    stack_.pop_back();
    return value;
  }

  PickleValue& top(Kind kind) {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size()) ||
        stack_.back()->kind != kind) {
      refuse_pickle("adds to what is no container");
    }
    return *stack_.back();
  }

  /// What lies above the last mark.
  std::vector<const PickleValue*> pop_marked() {
    if (marks_.empty()) refuse_pickle("has no mark where it needs one");
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
        if (number(1) > 5) refuse_pickle("is of a protocol that is not known");
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
    if (found == memo_.end()) refuse_pickle("recalls what it did not remember");
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
    if (kind == Kind::kDict && items.size() % 2 != 0) refuse_pickle("has a key without a value");
    push(kind).items = std::move(items);
  }

  void push_last(size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    push(Kind::kTuple).items = std::move(items);
  }

  void add_items(Kind kind, const std::vector<const PickleValue*>& more) {
    if (kind == Kind::kDict && more.size() % 2 != 0) refuse_pickle("has a key without a value");
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
        if (function->kind != Kind::kName || arguments->kind != Kind::kTuple) {
          refuse_pickle("calls what is no function");
        }
        push(Kind::kNone) = called(function->text, arguments->items);
        return;
      }
      case 'Q':
        push(Kind::kNone) = storage_named(*pop());
        return;
      case 'b':  // BUILD: what it would set are attributes beside the items
        pop();
        if (!may_have_attributes()) {
          refuse_pickle("sets attributes of an object, which greta does not read");
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
      refuse_pickle(
          "is of protocol 0 or 1; greta reads 2 and later: torch.save(..., pickle_protocol=2)");
    }
    refuse_pickle("has opcode " + std::to_string(opcode) + ", which greta does not read");
  }

  void push_name(std::string name) {
    if (name.starts_with("__builtin__.")) name.replace(0, 12, "builtins.");
    if (!is_known_name(name)) {
      constexpr size_t kMaxShown = 200;
      refuse_pickle("asks for " + utf8::printable(name.substr(0, kMaxShown)) +
                    ", which greta does not read; nothing of it is run");
    }
    push(Kind::kName).text = std::move(name);
  }

  Pickle& pickle_;
  std::string_view rest_;
  bool has_protocol_ = false;  // says that it is of protocol 2 or later
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

Pickle::Pickle(std::string_view bytes) {
  if (bytes.size() > kMaxPickleBytes) refuse_pickle("is larger than 16 MiB");
  root_ = Machine(*this, bytes).run();
}

}  // namespace greta
