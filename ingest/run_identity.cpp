#include "ingest/run_identity.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "common/utc_time.h"
#include "common/utf8.h"
#include "db/experiment.h"
#include "ingest/text.h"

namespace greta {
namespace {

using text::is_digit;
using text::is_word;

constexpr size_t kNone = static_cast<size_t>(-1);
constexpr std::string_view kRoot = "artifacts_remote";

// Directories that say where a tool put its output, not which run it was. `alignment/<date>` is
// the last part of the path that remote archives carry.
constexpr std::string_view kRemoteDateParent = "alignment";
constexpr std::array<std::string_view, 9> kTransparent = {
    "runs", "run", "traces", "logs", "root", "gretacore", "artifacts", kRemoteDateParent, kRoot};

constexpr std::array<std::string_view, 3> kModes = {"as_designed", "kv_aligned", "batch_invariant"};

struct Dimension {
  std::string_view key, prefix;
  bool numeric;
};

// In the order of run_name; an alias follows the spelling that run_name writes.
constexpr std::array<Dimension, 9> kDimensions = {{{"profile", "profile_", false},
                                                   {"span", "span_", true},
                                                   {"dtype", "dtype_", false},
                                                   {"kv_aligned", "kv_aligned_", true},
                                                   {"kv_aligned", "kv_", true},
                                                   {"seed", "seed_", true},
                                                   {"ctx", "ctx_", true},
                                                   {"batch", "batch_", true},
                                                   {"repeat", "repeat_", true}}};

// What a file name carries besides a prompt: never a prompt itself.
constexpr std::array<std::string_view, 9> kGenericNames = {
    "logits", "metadata", "config", "perf", "summary", "report", "tables", "analysis", "final"};

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_digit);
}

template <typename Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool starts_with_ignoring_case(std::string_view text, std::string_view prefix) {
  return text::to_lower(text.substr(0, prefix.size())) == text::to_lower(prefix);
}

bool is_experiment(std::string_view directory) {
  return experiment_head_length(directory) != 0 &&
         std::all_of(directory.begin(), directory.end(), is_word);
}

// ---- directories

bool is_date_shaped(std::string_view text) {
  constexpr std::string_view kShape = "dddd-dd-dd";
  return text.size() == kShape.size() &&
         std::equal(text.begin(), text.end(), kShape.begin(),
                    [](char c, char shape) { return shape == 'd' ? is_digit(c) : c == shape; });
}

std::optional<std::pair<std::string_view, std::string_view>> dimension_of(std::string_view name) {
  if (contains(kModes, name)) return std::pair(std::string_view("mode"), name);
  for (const Dimension& dimension : kDimensions) {
    if (!name.starts_with(dimension.prefix)) continue;
    const std::string_view value = name.substr(dimension.prefix.size());
    if (dimension.numeric ? is_number(value) : !value.empty()) {
      return std::pair(dimension.key, value);
    }
  }
  return std::nullopt;
}

bool is_dimension(std::string_view name) { return is_leg(name) || dimension_of(name).has_value(); }
bool is_transparent(std::string_view name) {
  return contains(kTransparent, name) || is_date_shaped(name);
}
bool is_archive_segment(std::string_view name) {
  return name.ends_with(".tgz") || name.ends_with(".tar.gz") || name.ends_with(".tar");
}

struct SplitPath {
  std::vector<std::string_view> directories;
  std::string_view file;
};

SplitPath split(std::string_view path) {
  SplitPath result;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find_first_of("/\\", begin), path.size());
    const std::string_view segment = path.substr(begin, end - begin);
    if (segment == "..") {
      if (!result.directories.empty()) result.directories.pop_back();
    } else if (!segment.empty() && segment != ".") {
      if (end == path.size()) {
        result.file = segment;
      } else {
        result.directories.push_back(segment);
      }
    }
    begin = end + 1;
  }
  std::erase_if(result.directories, is_archive_segment);
  return result;
}

// ---- where the path begins to count

struct Anchor {
  size_t start = 0;  // the first directory of the relative path
  size_t date = kNone;
  size_t experiment = kNone;
};

// First directory below the last `artifacts_remote` that has an identity below it, else 0.
size_t below_root(const SplitPath& path) {
  bool identity_below = experiment_head_length(path.file) != 0;
  for (size_t i = path.directories.size(); i-- > 0;) {
    const std::string_view name = path.directories[i];
    if (name == kRoot && identity_below) return i + 1;
    identity_below = identity_below || is_date_shaped(name) || is_experiment(name);
  }
  return 0;
}

void find_date_and_experiment(const std::vector<std::string_view>& names, size_t begin,
                              Anchor& anchor) {
  size_t first_date = kNone;
  for (size_t i = begin; i < names.size(); ++i) {
    if (is_experiment(names[i])) {
      if (anchor.experiment == kNone) anchor.experiment = i;
      const bool marked = i > begin && anchor.experiment == i &&
                          (names[i - 1].starts_with("--") || (begin > 0 && i == begin + 1));
      if (anchor.date == kNone && marked) anchor.date = i - 1;
      if (anchor.date != kNone) return;
    } else if (is_date_shaped(names[i])) {
      const bool repeats =
          (anchor.date != kNone || anchor.experiment != kNone) && names[i - 1] == kRemoteDateParent;
      if (repeats) continue;
      anchor.date = i;
      anchor.experiment = kNone;
      first_date = std::min(first_date, i);
    }
  }
  if (anchor.experiment == kNone) anchor.date = first_date;
}

size_t first_plain_directory(const std::vector<std::string_view>& names, size_t begin) {
  const auto plain = [](std::string_view name) {
    return !is_transparent(name) && !is_dimension(name);
  };
  const auto found =
      std::find_if(names.begin() + static_cast<std::ptrdiff_t>(begin), names.end(), plain);
  return found == names.end() ? kNone : static_cast<size_t>(found - names.begin());
}

// First of the dimension directories that lead to the file with nothing but transparent ones
// between them: all that is known of a path with neither date nor experiment.
size_t trailing_dimensions(const std::vector<std::string_view>& names, size_t begin) {
  size_t start = names.size();
  for (size_t i = names.size(); i-- > begin;) {
    if (is_dimension(names[i])) {
      start = i;
    } else if (!is_transparent(names[i])) {
      break;
    }
  }
  return start;
}

Anchor find_anchor(const SplitPath& path) {
  const std::vector<std::string_view>& names = path.directories;
  const size_t begin = below_root(path);
  Anchor anchor;
  find_date_and_experiment(names, begin, anchor);
  if (anchor.date != kNone) {
    if (anchor.experiment == kNone) {
      anchor.experiment = first_plain_directory(names, anchor.date + 1);
    }
    const std::string_view date = names[anchor.date];
    const bool needs_root = !is_date_shaped(date) && !date.starts_with("--");
    anchor.start = needs_root ? anchor.date - 1 : anchor.date;
  } else {
    anchor.start =
        anchor.experiment != kNone ? anchor.experiment : trailing_dimensions(names, begin);
  }
  return anchor;
}

void add_case(RunIdentity& id, std::string_view name) {
  std::string& joined = id.dims["case"];
  if (!joined.empty()) joined += '/';
  joined += name;
}

// A second value of a dimension becomes a case, so that it still tells runs apart.
void read_directory(RunIdentity& id, std::string_view name) {
  if (name == id.experiment || is_transparent(name)) return;
  if (is_leg(name)) {
    id.leg = name;
  } else if (const auto dimension = dimension_of(name)) {
    const auto [known, added] =
        id.dims.try_emplace(std::string(dimension->first), dimension->second);
    if (!added && known->second != dimension->second) add_case(id, name);
  } else {
    add_case(id, name);
  }
}

// ---- the file name

// Removes "_word" from the end of the stem, or the whole stem when it is the word.
bool take_suffix(std::string_view& stem, std::string_view word) {
  if (!stem.ends_with(word)) return false;
  const std::string_view rest = stem.substr(0, stem.size() - word.size());
  if (!rest.empty() && rest.back() != '_') return false;
  stem = rest.substr(0, rest.empty() ? 0 : rest.size() - 1);
  return true;
}

template <typename Words>
std::string_view take_any_suffix(std::string_view& stem, const Words& words) {
  for (const std::string_view word : words) {
    if (take_suffix(stem, word)) return word;
  }
  return {};
}

// Removes the experiment, or any numbered head, from the front of the stem.
bool take_experiment(std::string_view& stem, std::string_view experiment) {
  const auto take = [&stem](size_t length) {
    if (length == 0 || (stem.size() > length && stem[length] != '_')) return false;
    stem.remove_prefix(std::min(stem.size(), length + 1));
    return true;
  };
  return (starts_with_ignoring_case(stem, experiment) && take(experiment.size())) ||
         take(experiment_head_length(stem));
}

bool is_generic(std::string_view name) {
  return contains(kGenericNames, name) || name.find("readout") != std::string_view::npos ||
         name == "delta" || name.ends_with("_delta");
}

void read_file_name(RunIdentity& id, std::string_view stem) {
  constexpr std::array<std::string_view, 3> kTraceKinds = {"trace", "prefill_decode", "landscape"};
  if (stem.ends_with(".gz")) stem.remove_suffix(3);
  const size_t dot = std::min(stem.rfind('.'), stem.size());
  const std::string_view extension = stem.substr(dot);
  stem = stem.substr(0, dot);

  const bool is_log = extension == ".log";
  bool names_prompt = take_experiment(stem, id.experiment) && is_log;
  if (extension == ".jsonl" || extension == ".json") {
    names_prompt = !take_any_suffix(stem, kTraceKinds).empty();
  } else if (is_log) {
    names_prompt |= take_suffix(stem, "run");
  }
  const std::string_view mode = take_any_suffix(stem, kModes);
  if (!mode.empty()) id.dims.try_emplace("mode", mode);
  names_prompt |= is_log && !mode.empty();
  if (names_prompt && !is_generic(stem)) id.prompt = stem;
}

// ---- names

std::string join_from(const SplitPath& path, size_t start) {
  std::string joined;
  for (size_t i = start; i < path.directories.size(); ++i) {
    joined += path.directories[i];
    joined += '/';
  }
  joined += path.file;
  return joined;
}

}  // namespace

RunIdentity identify_run(std::string_view path) {
  const SplitPath parts = split(path);
  const std::vector<std::string_view>& names = parts.directories;
  const Anchor anchor = find_anchor(parts);

  RunIdentity id;
  if (anchor.date != kNone) id.date_segment = names[anchor.date];
  if (is_day(id.date_segment)) id.date = id.date_segment;
  id.experiment = anchor.experiment != kNone ? std::string(names[anchor.experiment])
                                             : experiment_head(parts.file);
  const ExperimentName name = split_experiment(id.experiment);
  id.family = name.family;
  id.variant = name.variant;
  const size_t first = anchor.date != kNone ? anchor.date + 1 : anchor.start;
  for (size_t i = first; i < names.size(); ++i) read_directory(id, names[i]);
  read_file_name(id, parts.file);
  id.relative_path = join_from(parts, anchor.start);
  return id;
}

std::string run_name(std::string_view date_segment, std::string_view experiment,
                     const std::map<std::string, std::string>& dims) {
  std::string name;
  name += utf8::printable(date_segment.empty() ? "undated" : date_segment);
  name += '/';
  name += utf8::printable(experiment.empty() ? "unnamed" : experiment);
  const auto append = [&](std::string_view key, std::string_view prefix) {
    const auto found = dims.find(std::string(key));
    if (found == dims.end()) return;
    name += '/';
    name += prefix;
    name += utf8::printable(found->second);
  };
  append("mode", "");
  std::string_view previous;
  for (const Dimension& dimension : kDimensions) {
    if (dimension.key != previous) append(dimension.key, dimension.prefix);
    previous = dimension.key;
  }
  append("case", "");
  return name;
}

std::string RunIdentity::run_name() const {
  return stated_name.empty() ? greta::run_name(date_segment, experiment, dims) : stated_name;
}

}  // namespace greta
