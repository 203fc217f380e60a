#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/run/trace_sink.h"
#include "kernels/fingerprint/fingerprint.h"

// Known bugs on request, so that the instrument can be tested: each is one wrong number or one
// wrong step in an otherwise correct forward pass.

namespace greta {

enum class FaultKind : uint8_t {
  kRopePosOffByOne,    ///< position + magnitude
  kRopeTheta,          ///< theta · magnitude
  kRopeThetaKept,      ///< theta · magnitude once a longer prompt has run
  kRopePairing,        ///< halves instead of neighbours, or neighbours instead of halves
  kKvWrongSlot,        ///< K and V written `magnitude` rows further
  kKvHeadStride,       ///< K heads read head_dim + magnitude values apart
  kMaskOffByOne,       ///< sees `magnitude` keys more (or fewer: −1)
  kGqaHeadMapping,     ///< query head h reads KV head h mod n_kv_heads
  kSoftmaxNoMax,       ///< exp(score + magnitude) without subtracting the maximum
  kFp16Accumulate,     ///< output projection: sum rounded to fp16 every `magnitude` products
  kStaleKvTail,        ///< the token's K and V rows keep what the row before holds
  kRmsNormEps,         ///< attention norm: eps · magnitude
  kQuantScale,         ///< query projection: block scales · magnitude
  kVLayoutTransposed,  ///< V read as [head_dim][kv_head]
  kLmHeadRoute,        ///< LM head by another route than its phase's
  kRace,               ///< `magnitude` values of mlp_out take one bit from a neighbour
  kKCacheSpoiled,      ///< row 0 of the K cache · magnitude, while a later token is computed
};
inline constexpr int kFaultKinds = static_cast<int>(FaultKind::kKCacheSpoiled) + 1;

struct FaultInfo {
  FaultKind kind;
  std::string_view name;  ///< rope_pos_off_by_one
  TracePoint shows_at;    ///< first trace point that it changes
  double default_magnitude;
  bool both_ways;                ///< the opposite magnitude is a fault as well
  std::string_view description;  ///< one line, for --help
};
std::span<const FaultInfo> fault_catalogue();
const FaultInfo& fault_info(FaultKind kind);

/// Where a batch is: of its first token.
struct Moment {
  int64_t pos = 0;       ///< absolute
  int64_t step = 0;      ///< of decode, as rows number it
  int64_t n_prompt = 0;  ///< tokens of the prompt
};

/// One injected fault. Without a layer it applies to every layer.
struct Fault {
  FaultKind kind = FaultKind::kRopePosOffByOne;
  bool prefill = false;
  bool decode = true;
  std::optional<int> layer;
  double magnitude = 0;
  Moment onset = {};  ///< in force from there on; of prompts, those with at least so many tokens

  bool has_begun(const Moment& at) const {
    return at.pos >= onset.pos && at.step >= onset.step && at.n_prompt >= onset.n_prompt;
  }
  std::string text() const;  ///< canonical spelling, which parse_fault reads
};

/// kFaultGrammar, by default @decode on every layer from the start. Throws std::invalid_argument
/// that names what is wrong and what is allowed.
Fault parse_fault(std::string_view text);

inline constexpr std::string_view kFaultGrammar =
    "NAME[@prefill|@decode|@both][:layer=N][:pos=N][:step=N][:length=N][:magnitude=X]";

/// The faults of a run, asked by the forward pass.
class FaultSet {
 public:
  FaultSet() = default;
  explicit FaultSet(std::vector<Fault> faults) : faults_(std::move(faults)) {}

  /// Magnitude of a fault that is in force, else nothing; of several the first.
  std::optional<double> find(FaultKind kind, bool decode, int layer, const Moment& at = {}) const;
  /// Where a batch of prefill from position `first` on must end, at most at `end`: before the
  /// position from which a fault is in force.
  int64_t end_of_batch(int64_t first, int64_t end) const;
  std::span<const Fault> all() const { return faults_; }

 private:
  std::vector<Fault> faults_;
};

/// Which value of a row a race hits, and which bit it takes from the value beside it.
struct RaceHit {
  int64_t index;      ///< in [0, width)
  int64_t neighbour;  ///< index + 1, or index − 1 at the end; index when the row has one value
  uint32_t bit;
};

/// State of the race of one layer, which comes out otherwise when the prompt runs again.
constexpr uint64_t race_seed(int layer, int64_t repeat = 0) {
  return 0x7261636500000000u + (static_cast<uint64_t>(repeat) << 16) + static_cast<uint64_t>(layer);
}

/// The i-th hit of a race; the same for every backend and for the prediction of its effect.
constexpr RaceHit race_hit(uint64_t seed, int64_t i, int64_t width) {
  const uint64_t draw = mix64(seed + 0x9e3779b97f4a7c15u * static_cast<uint64_t>(i + 1));
  const int64_t index = static_cast<int64_t>((draw >> 8) % static_cast<uint64_t>(width));
  const int64_t neighbour = index + 1 < width ? index + 1 : index > 0 ? index - 1 : index;
  return {index, neighbour, static_cast<uint32_t>(draw & 31)};
}

/// `mine` with the bit taken from `theirs`.
constexpr float race_value(float mine, float theirs, uint32_t bit) {
  const uint32_t mask = uint32_t{1} << bit;
  return std::bit_cast<float>((std::bit_cast<uint32_t>(mine) & ~mask) |
                              (std::bit_cast<uint32_t>(theirs) & mask));
}

}  // namespace greta
