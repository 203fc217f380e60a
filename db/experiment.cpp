#include "db/experiment.h"

#include <algorithm>
#include <utility>

namespace greta {
namespace {

constexpr std::string_view kPrefix = "b3_";
constexpr size_t kNone = static_cast<size_t>(-1);

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
char to_lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_letter(char c) { return to_lower(c) >= 'a' && to_lower(c) <= 'z'; }

bool has_prefix(std::string_view text) {
  return text.size() >= kPrefix.size() &&
         std::equal(kPrefix.begin(), kPrefix.end(), text.begin(),
                    [](char a, char b) { return a == to_lower(b); });
}

bool is_word_end(std::string_view text, size_t at) {
  return at == text.size() || !(is_letter(text[at]) || is_digit(text[at]));
}

/// End of a number at `begin` with at most one capital letter ("10A"); kNone if there is none.
size_t number_end(std::string_view text, size_t begin, size_t max_digits) {
  size_t end = begin;
  while (end < text.size() && is_digit(text[end])) ++end;
  if (end == begin || end - begin > max_digits) return kNone;
  const bool has_letter = end < text.size() && is_upper(text[end]) && is_word_end(text, end + 1);
  return has_letter ? end + 1 : end;
}

}  // namespace

// A further number counts when it stands alone and is too short for a year.
size_t experiment_head_length(std::string_view text) {
  if (!has_prefix(text)) return 0;
  size_t end = number_end(text, kPrefix.size(), kNone);
  if (end == kNone) return 0;
  while (end < text.size() && text[end] == '_') {
    const size_t next = number_end(text, end + 1, 3);
    if (next == kNone || !is_word_end(text, next)) break;
    end = next;
  }
  return end;
}

std::string experiment_head(std::string_view text) {
  std::string head(text.substr(0, experiment_head_length(text)));
  if (!head.empty()) head[0] = 'b';
  return head;
}

ExperimentName split_experiment(std::string_view name) {
  std::string head = experiment_head(name);
  std::string_view rest = name.substr(head.size());
  if (!head.empty() && rest.starts_with('_')) rest.remove_prefix(1);
  if (head.empty() || (!rest.empty() && !is_letter(rest.front()))) return {std::string(name), ""};
  return {std::move(head), std::string(rest)};
}

}  // namespace greta
