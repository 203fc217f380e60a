#include "ingest/foreign/pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "common/utf8.h"

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
      step(opcode);
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

  /// The opcodes of protocols 2 to 5 that torch.save writes, and what each does.
  void step(uint8_t opcode) {
    struct Step {
      uint8_t opcode;
      void (*take)(Machine& m);
    };
    static constexpr Step kSteps[] = {
        {0x80, [](Machine& m) { m.begin_protocol(); }},
        {0x95, [](Machine& m) { m.take(8); }},  // FRAME
        // constants and texts
        {'N', [](Machine& m) { m.push(Kind::kNone); }},
        {0x88, [](Machine& m) { m.push(Kind::kBool).integer = 1; }},
        {0x89, [](Machine& m) { m.push(Kind::kBool); }},
        {'J', [](Machine& m) { m.push_integer(static_cast<int32_t>(m.number(4))); }},
        {'K', [](Machine& m) { m.push_integer(static_cast<int64_t>(m.number(1))); }},
        {'M', [](Machine& m) { m.push_integer(static_cast<int64_t>(m.number(2))); }},
        {0x8a, [](Machine& m) { m.push_long(m.number(1)); }},
        {0x8b, [](Machine& m) { m.push_long(m.number(4)); }},
        {'G', [](Machine& m) { m.push_real(); }},
        {0x8c, [](Machine& m) { m.push_text(1); }},
        {'U', [](Machine& m) { m.push_text(1); }},
        {'C', [](Machine& m) { m.push_text(1); }},
        {'X', [](Machine& m) { m.push_text(4); }},
        {'T', [](Machine& m) { m.push_text(4); }},
        {'B', [](Machine& m) { m.push_text(4); }},
        {0x8d, [](Machine& m) { m.push_text(8); }},
        {0x8e, [](Machine& m) { m.push_text(8); }},
        // the memo
        {'q', [](Machine& m) { m.remember(m.number(1)); }},
        {'r', [](Machine& m) { m.remember(m.number(4)); }},
        {0x94, [](Machine& m) { m.remember(m.memo_.size()); }},
        {'h', [](Machine& m) { m.recall(m.number(1)); }},
        {'j', [](Machine& m) { m.recall(m.number(4)); }},
        // containers
        {'(', [](Machine& m) { m.marks_.push_back(m.stack_.size()); }},
        {'0', [](Machine& m) { m.pop(); }},
        {'1', [](Machine& m) { m.pop_marked(); }},
        {'}', [](Machine& m) { m.push(Kind::kDict); }},
        {']', [](Machine& m) { m.push(Kind::kList); }},
        {')', [](Machine& m) { m.push(Kind::kTuple); }},
        {'t', [](Machine& m) { m.push_items(Kind::kTuple, m.pop_marked()); }},
        {'l', [](Machine& m) { m.push_items(Kind::kList, m.pop_marked()); }},
        {'d', [](Machine& m) { m.push_items(Kind::kDict, m.pop_marked()); }},
        {0x85, [](Machine& m) { m.push_items(Kind::kTuple, m.pop_last(1)); }},
        {0x86, [](Machine& m) { m.push_items(Kind::kTuple, m.pop_last(2)); }},
        {0x87, [](Machine& m) { m.push_items(Kind::kTuple, m.pop_last(3)); }},
        {'a', [](Machine& m) { m.add_items(Kind::kList, m.pop_last(1)); }},
        {'e', [](Machine& m) { m.add_items(Kind::kList, m.pop_marked()); }},
        {'s', [](Machine& m) { m.add_items(Kind::kDict, m.pop_last(2)); }},
        {'u', [](Machine& m) { m.add_items(Kind::kDict, m.pop_marked()); }},
        // names and calls
        {'c', [](Machine& m) { m.push_global(); }},
        {0x93, [](Machine& m) { m.push_named(); }},
        {'R', [](Machine& m) { m.call(); }},
        {'Q', [](Machine& m) { m.push(Kind::kNone) = storage_named(*m.pop()); }},
        {'b', [](Machine& m) { m.drop_attributes(); }}};
    for (const Step& one : kSteps) {
      if (one.opcode == opcode) return one.take(*this);
    }
    refuse_opcode(opcode);
  }

  void begin_protocol() {
    if (number(1) > 5) refuse_pickle("is of a protocol that is not known");
    has_protocol_ = true;
  }

  void push_real() {
    uint64_t bits = 0;
    for (char c : take(8)) bits = bits << 8 | static_cast<uint8_t>(c);
    push(Kind::kReal).real = std::bit_cast<double>(bits);
  }

  void push_text(size_t length_bytes) {
    const std::string_view text = take(number(length_bytes));
    push(Kind::kText).text = text;
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

  void push_items(Kind kind, std::vector<const PickleValue*> items) {
    if (kind == Kind::kDict && items.size() % 2 != 0) refuse_pickle("has a key without a value");
    push(kind).items = std::move(items);
  }

  std::vector<const PickleValue*> pop_last(size_t count) {
    std::vector<const PickleValue*> items(count);
    for (size_t i = count; i-- > 0;) items[i] = pop();
    return items;
  }

  void add_items(Kind kind, const std::vector<const PickleValue*>& more) {
    if (kind == Kind::kDict && more.size() % 2 != 0) refuse_pickle("has a key without a value");
    auto& items = top(kind).items;
    items.insert(items.end(), more.begin(), more.end());
  }

  void push_global() {
    const std::string module(line());
    push_name(module + "." + std::string(line()));
  }

  void push_named() {
    const auto names = pop_last(2);
    push_name(names[0]->text + "." + names[1]->text);
  }

  void call() {
    const auto given = pop_last(2);
    if (given[0]->kind != Kind::kName || given[1]->kind != Kind::kTuple) {
      refuse_pickle("calls what is no function");
    }
    push(Kind::kNone) = called(given[0]->text, given[1]->items);
  }

  /// BUILD would set attributes beside the items: they are dropped.
  void drop_attributes() {
    pop();
    constexpr Kind kWithAttributes[] = {Kind::kDict, Kind::kTensor, Kind::kUnread, Kind::kOther};
    if (stack_.empty() || std::find(std::begin(kWithAttributes), std::end(kWithAttributes),
                                    stack_.back()->kind) == std::end(kWithAttributes)) {
      refuse_pickle("sets attributes of an object, which greta does not read");
    }
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
