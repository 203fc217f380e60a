#include "common/near_words.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace greta {
namespace {

constexpr size_t kMaxNear = 5;
/// So few names are all listed.
constexpr size_t kFewNames = 12;
/// What is behind tells no name from others, and a distance costs the product of both lengths.
constexpr size_t kMaxLength = 200;

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); j++) {
      size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row[b.size()];
}

std::string lower(std::string_view text) {
  std::string lowered(text.substr(0, kMaxLength));
  for (char& c : lowered) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  }
  return lowered;
}

}  // namespace

std::vector<std::string> near_words(std::string_view wanted,
                                    const std::vector<std::string>& words) {
  std::vector<std::pair<size_t, std::string>> ranked;
  const std::string text = lower(wanted);
  for (const std::string& word : words) {
    const std::string candidate = lower(word);
    const bool contains = candidate.find(text) != std::string::npos;
    const size_t distance = contains ? 0 : edit_distance(text, candidate);
    if (distance <= std::max<size_t>(2, text.size() / 3)) ranked.emplace_back(distance, word);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<std::string> near;
  for (auto& [distance, word] : ranked) {
    if (near.size() < kMaxNear) near.push_back(std::move(word));
  }
  return near;
}

UsageError unknown_name(const std::string& noun, const std::string& name,
                        const std::vector<std::string>& names, const std::string& lister) {
  const std::string trouble = "no " + noun + " '" + name + "'";
  const auto with_lines = [&trouble](const char* words, const std::vector<std::string>& listed) {
    std::vector<std::string> lines;
    for (const std::string& one : listed) lines.push_back("  " + one);
    return UsageError(trouble + words, lines);
  };
  const std::vector<std::string> near = near_words(name, names);
  if (!near.empty()) return with_lines("; perhaps:", near);
  if (names.empty()) return UsageError(trouble + ": there is none");
  if (names.size() <= kFewNames) return with_lines("; there are:", names);
  return UsageError(trouble + "; " + lister + " lists them");
}

}  // namespace greta
