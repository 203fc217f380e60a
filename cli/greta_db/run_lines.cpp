#include "cli/greta_db/run_lines.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "cli/output/output.h"
#include "common/utf8.h"

namespace greta {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kSeparator = 2;
/// In the order in which runs are listed.
constexpr std::array<std::string_view, 6> kWorstFirst{"FAIL",        "INCOMPLETE", "INCOMPARABLE",
                                                      "NO_EVIDENCE", "UNJUDGED",   "PASS"};

/// Columns of names, which may be shortened.
enum Name { kRun, kCause, kPrompt, kNames };

/// What the names give up, one step after the other, until all fits: down to how many columns.
struct Step {
  Name name;
  size_t columns;
};
constexpr Step kSteps[] = {{kRun, 30},   {kPrompt, 10}, {kCause, 14}, {kRun, 26}, {kPrompt, 6},
                           {kCause, 12}, {kRun, 16},    {kCause, 8},  {kRun, 8}};

}  // namespace

void RunLines::add(const RunVerdict& run, const Headline& head) {
  const auto* rank = std::find(kWorstFirst.begin(), kWorstFirst.end(), head.verdict);
  lines_.push_back({static_cast<int>(rank - kWorstFirst.begin()), run.show("run"),
                    head.remark == kWithinRounding ? "PASS (rounding only)" : head.verdict,
                    utf8::printable(head.fail.cause), utf8::printable(head.fail.prompt),
                    head.fail.layer, run.number("pairs")});
  with_texts_ += run.has("unjudged_texts");
}

void RunLines::print() {
  std::stable_sort(lines_.begin(), lines_.end(),
                   [](const Line& a, const Line& b) { return a.rank < b.rank; });
  const std::vector<std::string> columns{"run",   "verdict", "first_fail",
                                         "layer", "prompt",  "pairs"};
  const auto names_of = [](const Line& line) {
    return std::array<const std::string*, kNames>{&line.run, &line.cause, &line.prompt};
  };
  size_t verdict = columns[1].size(), layer = columns[3].size(), pairs = columns[5].size();
  std::array<size_t, kNames> widths{columns[0].size(), columns[2].size(), columns[4].size()};
  for (const Line& line : lines_) {
    verdict = std::max(verdict, line.verdict.size());
    if (line.layer) layer = std::max(layer, std::to_string(*line.layer).size());
    pairs = std::max(pairs, std::to_string(line.pairs).size());
    const auto names = names_of(line);
    for (size_t i = 0; i < kNames; ++i) widths[i] = std::max(widths[i], display_width(*names[i]));
  }
  const size_t fixed = verdict + layer + pairs + kSeparator * (columns.size() - 1);
  const size_t allowed = out_.is_terminal() ? static_cast<size_t>(out_.width()) : kWidth;
  for (const auto& [name, least] : kSteps) {
    const size_t total = fixed + widths[kRun] + widths[kCause] + widths[kPrompt];
    if (total <= allowed) break;
    widths[name] -= std::min(total - allowed, widths[name] - std::min(widths[name], least));
  }

  bool any_shortened = false;
  RowPrinter table(out_, Format::kTable, columns);
  for (const Line& line : lines_) {
    std::array<std::string, kNames> shown;
    const auto names = names_of(line);
    for (size_t i = 0; i < kNames; ++i) {
      shown[i] = shortened_to_width(*names[i], widths[i]);
      any_shortened |= shown[i] != *names[i];
    }
    table.row({shown[kRun], line.verdict, or_null(shown[kCause]), or_null(line.layer),
               or_null(shown[kPrompt]), line.pairs});
  }
  table.finish();
  if (with_texts_ > 0) {
    out_.write("texts beside " + std::to_string(with_texts_) +
               (with_texts_ == 1 ? " run were" : " runs were") +
               " not judged: --run NAME names them\n");
  }
  if (any_shortened) {
    out_.write("names with … are shortened: --format csv and json have them whole\n");
  }
}

}  // namespace greta
