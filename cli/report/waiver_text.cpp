#include "cli/report/waiver_text.h"

#include "common/utf8.h"

namespace greta {

using std::to_string;

std::string waived_place(const AppliedWaiver& waiver, const Wording& words) {
  const std::string tensor = utf8::printable(waiver.tensor);
  return waiver.layer ? words("waiver.place", {tensor, to_string(*waiver.layer)}) : tensor;
}

std::string waiver_text(const AppliedWaiver& waiver, const Wording& words) {
  std::string what;
  if (waiver.pairs > 0 || waiver.rows == 0) {
    what = words(waiver.pairs == 1 ? TextId("waiver.pair") : TextId("waiver.pairs"),
                 {to_string(waiver.pairs)});
  }
  if (waiver.divergent < waiver.pairs) {
    what += " (" + to_string(waiver.divergent) + " " + words("remark.beyond rounding") + ")";
  }
  if (waiver.rows > 0) {
    const TextId rows = waiver.rows == 1 ? TextId("waiver.row") : TextId("waiver.rows");
    if (!what.empty()) what += words("waiver.and");
    what += words(rows, {to_string(waiver.rows)});
  }
  return words("waiver.text", {what, waived_place(waiver, words), utf8::printable(waiver.until),
                               utf8::printable(waiver.reason), to_string(waiver.id),
                               utf8::printable(waiver.created_by)});
}

}  // namespace greta
