#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace greta {

/// Operations that a backend can compute by more than one route.
enum class Op : uint8_t { kQkv, kWo, kGateUp, kDown, kLmHead, kAttention };
inline constexpr int kOps = 6;
std::string_view op_name(Op op);  ///< qkv, wo, gate_up, down, lm_head, attention

/// How an operation is computed. A backend offers some of them (Backend::routes).
enum class Route : uint8_t {
  kDot,      ///< CPU: one dot product per output
  kGemm,     ///< CPU: blocked matrix product
  kTwoPass,  ///< attention: all scores, then softmax, then the sum over V
  kOnline,   ///< attention: blocks of keys with a running softmax
  kValu,     ///< GPU: vector units
  kMfma,     ///< GPU: matrix cores
  kBlas,     ///< GPU: the vendor's library
};
std::string_view route_name(Route route);  ///< DOT, GEMM, TWO_PASS, ONLINE, VALU, MFMA, BLAS

/// How prefill and decode are meant to agree.
enum class Mode : uint8_t { kAsDesigned, kKvAligned, kBatchInvariant };
std::string_view mode_name(Mode mode);
Mode parse_mode(std::string_view name);  ///< throws std::invalid_argument that lists the modes

/// The route of every operation, for prefill and for decode.
class RouteTable {
 public:
  RouteTable(std::span<const Route, kOps> prefill, std::span<const Route, kOps> decode);

  Route of(Op op, bool decode) const { return routes_[decode][static_cast<size_t>(op)]; }
  void set(Op op, bool decode, Route route) { routes_[decode][static_cast<size_t>(op)] = route; }

  /// lm_head=GEMM/DOT qkv=DOT ...: prefill/decode where they differ. What the run record keeps.
  std::string text() const;

 private:
  std::array<std::array<Route, kOps>, 2> routes_;
};

/// One `--route OP=ROUTE[@prefill|@decode]`; the phase is both when not given.
struct RouteChoice {
  Op op;
  Route route;
  bool prefill = true;
  bool decode = true;
};

/// Throws std::invalid_argument that says what is allowed.
RouteChoice parse_route_choice(std::string_view text);

}  // namespace greta
