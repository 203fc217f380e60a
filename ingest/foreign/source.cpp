#include "ingest/foreign/source.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/json_document.h"
#include "ingest/text.h"

namespace greta {
namespace {

std::optional<int64_t> number_behind(std::string_view text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  text.remove_prefix(prefix.size());
  if (text.empty() || !text::is_digit(text.front())) return std::nullopt;
  return text::number<int64_t>(text);
}

/// "3" of TP0_PP0_Rank3_pid77.
std::optional<int64_t> rank_of_process(std::string_view name) {
  const size_t at = name.find("_Rank");
  if (!name.starts_with("TP") || at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(at + 5);
  return text::number<int64_t>(rest.substr(0, rest.find('_')));
}

/// True if a directory tells a step or a rank of one run.
bool take_directory(std::string_view name, ForeignPath& path) {
  if (const auto step = number_behind(name, "step")) return path.step = step, true;
  if (const auto rank = number_behind(name, "rank")) return path.rank = rank, true;
  if (const auto rank = rank_of_process(name)) return path.rank = rank, true;
  return name == "rank" || number_behind(name, "proc");
}

void take_field(std::string_view field, ForeignPath& path) {
  const size_t at = field.find('=');
  if (at == std::string_view::npos) return;
  const std::string_view key = field.substr(0, at), value = field.substr(at + 1);
  if (key == "name") path.name = value;
  if (key == "step" || key == "forward_pass_id") path.step = text::number<int64_t>(value);
  if (key == "rank") path.rank = text::number<int64_t>(value);
  if (key == "layer_id") path.layer = text::number<int64_t>(value);
}

void take_file(std::string_view stem, ForeignPath& path) {
  path.name = stem;
  if (const auto pass = number_behind(stem, "Pass")) {
    path.is_pass = true;
    path.step = pass;
    return;
  }
  path.is_dumped = stem.find('=') != stem.npos && stem.find("___") != stem.npos;
  if (!path.is_dumped) return;
  for (size_t at = 0; at <= stem.size();) {
    const size_t end = std::min(stem.find("___", at), stem.size());
    take_field(stem.substr(at, end - at), path);
    at = end + 3;
  }
}

/// Number that a row can have as its step or layer.
void keep_sensible(std::optional<int64_t>& number) {
  if (number && (*number < 0 || *number > INT32_MAX)) number.reset();
}

}  // namespace

ForeignPath read_foreign_path(const std::string& path) {
  ForeignPath said;
  const size_t file = path.find_last_of('/') + 1;
  said.place = path.substr(file);
  std::string_view folder = std::string_view(path).substr(0, file == 0 ? 0 : file - 1);
  while (!folder.empty()) {
    const size_t at = folder.find_last_of('/');
    const std::string_view name = folder.substr(at + 1);
    ForeignPath inner;
    if (!take_directory(name, inner)) break;
    if (inner.step) said.step = inner.step;
    if (inner.rank) said.rank = inner.rank;
    said.place = std::string(name) + "/" + said.place;
    folder = at == std::string_view::npos ? std::string_view() : folder.substr(0, at);
  }
  said.folder = folder;
  take_file(file_stem(path), said);
  for (auto* number : {&said.step, &said.rank, &said.layer}) keep_sensible(*number);
  return said;
}

nlohmann::json python_object(std::string_view text, const char* what) {
  constexpr size_t kMostValues = 500'000;
  nlohmann::json json;
  const std::string why = parse_json(with_quoted_nonfinite(text), kMostValues, json);
  if (json.is_object()) return json;
  throw ForeignError(what + (why.empty() ? "" : " (" + why + ")"));
}

}  // namespace greta
