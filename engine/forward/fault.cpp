#include "engine/forward/fault.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>

namespace greta {
namespace {

constexpr std::array<FaultInfo, kFaultKinds> kCatalogue{{
    {FaultKind::kRopePosOffByOne, "rope_pos_off_by_one", TracePoint::kQPostRope, 1, true,
     "RoPE turns by the position plus MAGNITUDE (1 or -1)"},
    {FaultKind::kRopeTheta, "rope_theta", TracePoint::kQPostRope, 0.5, false,
     "RoPE base frequency times MAGNITUDE"},
    {FaultKind::kRopeThetaKept, "rope_theta_kept", TracePoint::kQPostRope, 0.5, false,
     "RoPE base frequency times MAGNITUDE, kept from any longer prompt that ran before"},
    {FaultKind::kRopePairing, "rope_pairing", TracePoint::kQPostRope, 1, false,
     "RoPE pairs i with i + d/2 instead of 2i with 2i + 1, or the other way round"},
    {FaultKind::kKvWrongSlot, "kv_wrong_slot", TracePoint::kKCache, 1, false,
     "K and V are written MAGNITUDE rows further"},
    {FaultKind::kKvHeadStride, "kv_head_stride", TracePoint::kAttnScores, 1, true,
     "attention reads K heads head_dim + MAGNITUDE values apart"},
    {FaultKind::kMaskOffByOne, "mask_off_by_one", TracePoint::kAttnProbs, -1, true,
     "attention sees MAGNITUDE keys more (1) or fewer (-1)"},
    {FaultKind::kGqaHeadMapping, "gqa_head_mapping", TracePoint::kAttnScores, 1, false,
     "query head h reads KV head h mod n_kv_heads"},
    {FaultKind::kSoftmaxNoMax, "softmax_no_max", TracePoint::kAttnProbs, 100, false,
     "softmax of scores + MAGNITUDE without subtracting the maximum: overflows"},
    {FaultKind::kFp16Accumulate, "fp16_accumulate", TracePoint::kWoOut, 1, false,
     "output projection rounds its sum to fp16 every MAGNITUDE products"},
    {FaultKind::kStaleKvTail, "stale_kv_tail", TracePoint::kKCache, 1, false,
     "the token's K and V rows keep what the row before holds"},
    {FaultKind::kRmsNormEps, "rmsnorm_eps", TracePoint::kAttnNormOut, 1000, false,
     "attention norm's epsilon times MAGNITUDE"},
    {FaultKind::kQuantScale, "quant_scale", TracePoint::kQPreRope, 1.03125, false,
     "block scales of the query projection times MAGNITUDE"},
    {FaultKind::kVLayoutTransposed, "v_layout_transposed", TracePoint::kAttnOut, 1, false,
     "attention reads V as [head_dim][kv_head]"},
    {FaultKind::kLmHeadRoute, "lm_head_route", TracePoint::kLogits, 1, false,
     "LM head by another route than its phase's"},
    {FaultKind::kRace, "race", TracePoint::kMlpOut, 16, false,
     "MAGNITUDE values of mlp_out take one bit from a neighbouring value, other ones in a repeat"},
    {FaultKind::kKCacheSpoiled, "k_cache_spoiled", TracePoint::kKCacheRows, 2, false,
     "row 0 of the K cache times MAGNITUDE, once prefill has read it or before decode does"},
}};

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw std::invalid_argument("fault '" + std::string(text) + "': " + why);
}

const FaultInfo& by_name(std::string_view text, std::string_view name) {
  std::string known;
  for (const FaultInfo& info : kCatalogue) {
    if (info.name == name) return info;
    known.append(known.empty() ? "" : ", ").append(info.name);
  }
  refuse(text, "no fault is called '" + std::string(name) + "'; there are " + known);
}

void set_phase(std::string_view text, std::string_view phase, Fault& fault) {
  if (phase != "prefill" && phase != "decode" && phase != "both") {
    refuse(text, "the phase is prefill, decode or both, not '" + std::string(phase) + "'");
  }
  fault.prefill = phase != "decode";
  fault.decode = phase != "prefill";
}

template <class Number>
Number number(std::string_view text, std::string_view digits) {
  Number value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    refuse(text, "'" + std::string(digits) + "' is not a number");
  }
  return value;
}

void set_option(std::string_view text, std::string_view option, Fault& fault) {
  const size_t equals = option.find('=');
  const std::string_view key = option.substr(0, equals);
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view{} : option.substr(equals + 1);
  const auto from = [&](int64_t least, const char* what) {
    const auto n = number<int64_t>(text, value);
    if (n < least) refuse(text, std::string(what) + " start at " + std::to_string(least));
    return n;
  };
  if (key == "layer") {
    fault.layer = number<int>(text, value);
    if (*fault.layer < 0) refuse(text, "layers start at 0");
  } else if (key == "pos") {
    fault.onset.pos = from(0, "positions");
  } else if (key == "step") {
    fault.onset.step = from(1, "decode steps");
  } else if (key == "length") {
    fault.onset.n_prompt = from(1, "lengths of prompts");
  } else if (key == "magnitude") {
    fault.magnitude = number<double>(text, value);
    if (!std::isfinite(fault.magnitude)) refuse(text, "the magnitude must be finite");
  } else {
    refuse(text, "'" + std::string(key) + "' is neither layer, pos, step, length nor magnitude: " +
                     std::string(kFaultGrammar));
  }
}

/// What a magnitude must be for the fault to mean what its name says.
void check_magnitude(std::string_view text, const Fault& fault) {
  const double m = fault.magnitude;
  const bool whole = m == std::floor(m);
  switch (fault.kind) {
    case FaultKind::kRopePosOffByOne:
    case FaultKind::kMaskOffByOne:
    case FaultKind::kKvHeadStride:
      if (m != 1 && m != -1) refuse(text, "its magnitude is 1 or -1");
      return;
    case FaultKind::kKvWrongSlot:
      if (m != 1) refuse(text, "its magnitude is 1: the cache has one spare row");
      return;
    case FaultKind::kFp16Accumulate:
    case FaultKind::kRace:
      if (!whole || m < 1 || m > 1e6) refuse(text, "its magnitude is a whole number from 1 on");
      return;
    case FaultKind::kRopeTheta:
    case FaultKind::kRopeThetaKept:
    case FaultKind::kRmsNormEps:
      if (m <= 0) refuse(text, "its magnitude is a factor above 0");
      return;
    default:
      return;
  }
}

}  // namespace

std::span<const FaultInfo> fault_catalogue() { return kCatalogue; }

const FaultInfo& fault_info(FaultKind kind) { return kCatalogue[static_cast<size_t>(kind)]; }

std::string Fault::text() const {
  std::string text(fault_info(kind).name);
  text += prefill && decode ? "@both" : prefill ? "@prefill" : "@decode";
  const auto add = [&](const char* key, int64_t value) {
    text.append(":").append(key).append("=").append(std::to_string(value));
  };
  if (layer) add("layer", *layer);
  if (onset.pos > 0) add("pos", onset.pos);
  if (onset.step > 0) add("step", onset.step);
  if (onset.n_prompt > 0) add("length", onset.n_prompt);
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), magnitude).ptr;
  return text + ":magnitude=" + std::string(digits.data(), end);
}

Fault parse_fault(std::string_view text) {
  const size_t name_end = std::min(text.find('@'), text.find(':'));
  const FaultInfo& info = by_name(text, text.substr(0, name_end));
  Fault fault{.kind = info.kind, .layer = {}, .magnitude = info.default_magnitude};
  std::string_view rest = name_end == std::string_view::npos ? "" : text.substr(name_end);
  if (rest.starts_with('@')) {
    const size_t end = rest.find(':');
    set_phase(text, rest.substr(1, end == std::string_view::npos ? end : end - 1), fault);
    rest = end == std::string_view::npos ? "" : rest.substr(end);
  }
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t end = std::min(rest.find(':'), rest.find(','));
    set_option(text, rest.substr(0, end), fault);
    rest = end == std::string_view::npos ? "" : rest.substr(end);
  }
  if (fault.kind == FaultKind::kLmHeadRoute && fault.layer)
    refuse(text, "the LM head has no layer");
  if (fault.onset.step > 0 && fault.prefill) {
    refuse(text, "steps are those of decode: say @decode, or pos=N for both");
  }
  check_magnitude(text, fault);
  return fault;
}

std::optional<double> FaultSet::find(FaultKind kind, bool decode, int layer,
                                     const Moment& at) const {
  for (const Fault& fault : faults_) {
    if (fault.kind == kind && (decode ? fault.decode : fault.prefill) &&
        (!fault.layer || *fault.layer == layer) && fault.has_begun(at)) {
      return fault.magnitude;
    }
  }
  return std::nullopt;
}

int64_t FaultSet::end_of_batch(int64_t first, int64_t end) const {
  for (const Fault& fault : faults_) {
    if (fault.prefill && fault.onset.pos > first) end = std::min(end, fault.onset.pos);
  }
  return end;
}

}  // namespace greta
