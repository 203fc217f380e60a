#include "cli/greta_infer/environment.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>

#include "common/environment.h"

namespace greta {
namespace {

constexpr std::array<EnvironmentVariable, 14> kVariables{{
    {"GRETA_DB", "the database (--db)"},
    {"GRETA_SEED", "the seed (--seed)"},
    {"GRETA_MAX_SEQ_LEN", "most positions to use of the model's context (--max-seq-len)"},
    {"GRETA_INT4_WEIGHTS", "1: refuse a model whose weights are not mostly 4-bit"},
    {"GRETA_B3_66_MODE", "as_designed, kv_aligned or batch_invariant (--mode)"},
    {"GRETA_TRACE_LAYERS", "layers to trace, as 0,1,2,4,8 (--layers)"},
    {"GRETA_TRACE_B3_66", "1: `run` first probes its prompt, as experiment b3_66"},
    {"GRETA_TRACE_PREFILL_DECODE_DELTA",
     "1: the checks of suite b3_13 beside any other; `run` first probes its prompt with them"},
    {"GRETA_TRACE_RMS_VERIFY", "1: recompute the final norm in double (--rms-verify)"},
    {"GRETA_TRACE_LMHEAD_CPU_PROBE", "1: recompute the logits in double (--cpu-probe)"},
    {"GRETA_TRACE_PREFILL_DECODE_OUT", "file for one JSON line per phase (--delta-out)"},
    {"HIP_LAUNCH_BLOCKING", "recorded with the run", false},
    {"AMD_SERIALIZE_KERNEL", "recorded with the run", false},
    {"HSA_ENABLE_SDMA", "recorded with the run", false},
}};

[[noreturn]] void refuse(std::string_view name, const std::string& value,
                         const std::string& wanted) {
  throw std::invalid_argument("environment variable " + std::string(name) + " is '" + value +
                              "'; " + wanted);
}

}  // namespace

std::span<const EnvironmentVariable> environment_variables() { return kVariables; }

namespace environment {

std::optional<std::string> text(std::string_view name) {
  const bool known = std::any_of(kVariables.begin(), kVariables.end(),
                                 [&](const auto& variable) { return variable.name == name; });
  if (!known)
    throw std::logic_error("environment variable " + std::string(name) + " is not listed");
  std::string value = environment_variable(std::string(name).c_str());
  if (value.empty()) return std::nullopt;
  return value;
}

std::optional<int64_t> number(std::string_view name, int64_t least) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  int64_t number = 0;
  const char* end = value->data() + value->size();
  const auto [stop, error] = std::from_chars(value->data(), end, number);
  if (error != std::errc() || stop != end || number < least) {
    refuse(name, *value, "it must be a whole number from " + std::to_string(least) + " on");
  }
  return number;
}

bool flag(std::string_view name) {
  const std::optional<std::string> value = text(name);
  if (!value) return false;
  for (const std::string_view yes : {"1", "on", "true", "yes"}) {
    if (*value == yes) return true;
  }
  for (const std::string_view no : {"0", "off", "false", "no"}) {
    if (*value == no) return false;
  }
  refuse(name, *value, "it must be 1 or 0");
}

std::vector<std::pair<std::string, std::string>> in_force() {
  std::vector<std::pair<std::string, std::string>> set;
  for (const EnvironmentVariable& variable : kVariables) {
    if (const auto value = text(variable.name)) set.emplace_back(variable.name, *value);
  }
  return set;
}

}  // namespace environment

}  // namespace greta
