#include "tests/engine/expected_findings.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace greta {
namespace {

std::vector<std::string_view> right_findings(FaultKind kind) {
  switch (kind) {
    case FaultKind::kRopePosOffByOne:
    case FaultKind::kRopeTheta:
    case FaultKind::kRopePairing:
      return {"TURNED"};
    case FaultKind::kKvWrongSlot:  // what nobody wrote is poisoned
      return {"ALL_NAN", "OTHER_POSITION"};
    case FaultKind::kStaleKvTail:
      return {"STALE_ROW", "OTHER_POSITION", "ALL_ZERO"};
    case FaultKind::kMaskOffByOne:
      return {"FEWER_VALUES", "NOT_ONE", "ALL_NAN", "SOME_NAN"};
    case FaultKind::kSoftmaxNoMax:
      return {"SOME_NAN", "ALL_NAN"};
    case FaultKind::kKvHeadStride:
    case FaultKind::kGqaHeadMapping:
    case FaultKind::kVLayoutTransposed:
      return {"SOME_HEADS", "UNRELATED"};
    case FaultKind::kRmsNormEps:
    case FaultKind::kQuantScale:
      return {"SCALED"};
    case FaultKind::kFp16Accumulate:
      return {"FEWER_BITS"};
    case FaultKind::kLmHeadRoute:
      return {"ROUNDING"};
    case FaultKind::kRace:
      return {"UNSTABLE"};
    case FaultKind::kKCacheSpoiled:
      return {"EARLIER_ROW"};
  }
  return {};
}

}  // namespace

bool tells(FaultKind kind, std::span<const std::string> findings, bool rounding) {
  if (findings.empty()) return false;
  const std::string& first = findings.front();
  const std::vector<std::string_view> right = right_findings(kind);
  return std::find(right.begin(), right.end(), first) != right.end() ||
         (rounding && first == "ROUNDING");
}

}  // namespace greta
