#include "engine/forward/route.h"

#include <cctype>
#include <stdexcept>

namespace greta {
namespace {

constexpr std::array<std::string_view, kOps> kOpNames{"qkv",  "wo",      "gate_up",
                                                      "down", "lm_head", "attention"};
constexpr std::array<std::string_view, 7> kRouteNames{"DOT",  "GEMM", "TWO_PASS", "ONLINE",
                                                      "VALU", "MFMA", "BLAS"};
constexpr std::array<std::string_view, 3> kModeNames{"as_designed", "kv_aligned",
                                                     "batch_invariant"};

bool same_letters(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::tolower(static_cast<unsigned char>(a[i])) !=
        std::tolower(static_cast<unsigned char>(b[i]))) {
      return false;
    }
  }
  return true;
}

template <size_t n>
std::string list(const std::array<std::string_view, n>& names) {
  std::string text;
  for (const std::string_view name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

/// Index of a name in any case; std::invalid_argument with the list otherwise.
template <size_t n>
size_t index_of(const std::array<std::string_view, n>& names, std::string_view name,
                const char* what) {
  for (size_t i = 0; i < n; ++i) {
    if (same_letters(names[i], name)) return i;
  }
  throw std::invalid_argument("no " + std::string(what) + " '" + std::string(name) +
                              "'; there are " + list(names));
}

}  // namespace

std::string_view op_name(Op op) { return kOpNames[static_cast<size_t>(op)]; }
std::string_view route_name(Route route) { return kRouteNames[static_cast<size_t>(route)]; }
std::string_view mode_name(Mode mode) { return kModeNames[static_cast<size_t>(mode)]; }

Mode parse_mode(std::string_view name) {
  return static_cast<Mode>(index_of(kModeNames, name, "mode"));
}

RouteTable::RouteTable(std::span<const Route, kOps> prefill, std::span<const Route, kOps> decode) {
  for (size_t op = 0; op < kOps; ++op) {
    routes_[0][op] = prefill[op];
    routes_[1][op] = decode[op];
  }
}

std::string RouteTable::text() const {
  std::string text;
  for (size_t op = 0; op < kOps; ++op) {
    if (op > 0) text += ' ';
    text.append(kOpNames[op]).append("=").append(route_name(routes_[0][op]));
    if (routes_[0][op] != routes_[1][op]) text.append("/").append(route_name(routes_[1][op]));
  }
  return text;
}

RouteChoice parse_route_choice(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    throw std::invalid_argument("route '" + std::string(text) +
                                "' is not OP=ROUTE[@prefill|@decode], as in lm_head=dot@decode");
  }
  const size_t at = text.find('@', equals);
  RouteChoice choice{.op = static_cast<Op>(index_of(kOpNames, text.substr(0, equals), "operation")),
                     .route = static_cast<Route>(
                         index_of(kRouteNames, text.substr(equals + 1, at - equals - 1), "route"))};
  if (at == std::string_view::npos) return choice;
  const std::string_view phase = text.substr(at + 1);
  if (phase != "prefill" && phase != "decode") {
    throw std::invalid_argument("route '" + std::string(text) +
                                "': the phase is prefill or decode, not '" + std::string(phase) +
                                "'");
  }
  choice.prefill = phase == "prefill";
  choice.decode = phase == "decode";
  return choice;
}

}  // namespace greta
