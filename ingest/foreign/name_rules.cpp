#include "ingest/foreign/name_rules.h"

#include <new>
#include <stdexcept>
#include <utility>

#include "db/trace_row.h"
#include "ingest/text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace greta {
namespace {

constexpr size_t kMaxPatternBytes = 4096;
constexpr uint32_t kMatchLimit = 100'000;

struct FreePattern {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

template <class T>
std::unique_ptr<T, FreePattern> owned(T* made) {
  if (made == nullptr) throw std::bad_alloc();
  return std::unique_ptr<T, FreePattern>(made);
}

std::string reason_of(int error, size_t at) {
  char text[256] = {};
  pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return "no pattern: " + std::string(text) + " at character " + std::to_string(at + 1);
}

std::optional<int64_t> layer_number(std::string_view digits) {
  const std::optional<int64_t> layer = text::number<int64_t>(digits);
  return layer && *layer >= 0 && *layer <= kMaxLayer ? layer : std::nullopt;
}

/// Where names have the number of a layer: modules (model.layers.3.mlp), llama.cpp's tensors with
/// their operation (Qcur-3 ROPE, cache_k_l3 (view) VIEW).
const std::vector<NamePattern>& layer_patterns() {
  static const std::vector<NamePattern> patterns = [] {
    std::vector<NamePattern> made;
    for (const char* pattern : {R"((?:^|\.)(?:layers|layer|blocks|block|blk|h)\.(\d{1,5})(?=\.|$))",
                                R"(-(\d{1,5})(?= ))", R"(_l(\d{1,5})(?= ))"}) {
      made.emplace_back(pattern);
    }
    return made;
  }();
  return patterns;
}

}  // namespace

struct NamePattern::Compiled {
  std::unique_ptr<pcre2_code, FreePattern> code;
  std::unique_ptr<pcre2_match_context, FreePattern> context;

  std::optional<Group> match(std::string_view text, uint32_t options) const {
    const auto data = owned(pcre2_match_data_create_from_pattern(code.get(), nullptr));
    const int found = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                  text.size(), 0, options, data.get(), context.get());
    if (found < 0) return std::nullopt;
    const PCRE2_SIZE* at = pcre2_get_ovector_pointer(data.get());
    if (found < 2 || at[2] == PCRE2_UNSET) return Group{};
    return Group{at[2], at[3]};
  }
};

NamePattern::NamePattern(const std::string& pattern) : compiled_(std::make_unique<Compiled>()) {
  if (pattern.size() > kMaxPatternBytes) {
    throw std::invalid_argument("no pattern: longer than 4096 bytes");
  }
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                      PCRE2_NEVER_BACKSLASH_C, &error, &at, nullptr));
  if (!compiled_->code) throw std::invalid_argument(reason_of(error, at));
  compiled_->context = owned(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(compiled_->context.get(), kMatchLimit);
}

NamePattern::~NamePattern() = default;
NamePattern::NamePattern(NamePattern&&) noexcept = default;
NamePattern& NamePattern::operator=(NamePattern&&) noexcept = default;

std::optional<NamePattern::Group> NamePattern::matches(std::string_view text) const {
  return compiled_->match(text, PCRE2_ANCHORED | PCRE2_ENDANCHORED);
}

std::optional<NamePattern::Group> NamePattern::found_in(std::string_view text) const {
  return compiled_->match(text, 0);
}

void NameRules::add(const std::string& pattern, std::string tensor) {
  rules_.emplace_back(NamePattern(pattern), std::move(tensor));
}

TracePlace NameRules::place_of(std::string_view name) const {
  for (const auto& [pattern, tensor] : rules_) {
    const auto group = pattern.matches(name);
    if (!group) continue;
    const std::string_view digits = name.substr(group->begin, group->end - group->begin);
    if (digits.empty()) return {tensor, tensor == "embed_out" ? 0 : -1};
    if (const auto layer = layer_number(digits)) return {tensor, *layer};
  }
  for (const NamePattern& pattern : layer_patterns()) {
    const auto group = pattern.found_in(name);
    if (!group) continue;
    const auto layer = layer_number(name.substr(group->begin, group->end - group->begin));
    if (!layer) continue;
    return {std::string(name.substr(0, group->begin)) + "N" + std::string(name.substr(group->end)),
            *layer};
  }
  return {std::string(name), -1};
}

}  // namespace greta
