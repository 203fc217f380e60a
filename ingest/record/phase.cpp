#include "ingest/record/phase.h"

#include "ingest/text.h"

namespace greta::record {
namespace {

constexpr size_t kMaxPhaseName = 64;

bool is_gap(char c) { return c == '_' || c == '-' || c == ' ' || c == '.'; }

bool names_a_side(std::string_view name) {
  return name.starts_with("prefill") || name.starts_with("decode");
}

/// decode0 is the first decode step, and every later one is decode.
std::optional<std::string> numbered_decode(std::string_view name) {
  name.remove_prefix(std::string_view("decode").size());
  if (name.empty() || name.find_first_not_of("0123456789") != name.npos) return std::nullopt;
  return name.find_first_not_of('0') == name.npos ? "decode0" : "decode";
}

}  // namespace

std::optional<std::string> phase_meant(std::string_view written) {
  if (written.size() > kMaxPhaseName) return std::nullopt;
  std::string spaced = text::to_lower(text::trim(written)), joined;
  for (char& c : spaced) {
    if (is_gap(c)) c = '_';
    if (!text::is_word(c)) return std::nullopt;
    if (c != '_') joined += c;
  }
  if (joined == "repeatprefill") return "repeat_prefill";  // of neither side: compared with nothing
  if (joined == "repeatdecode") return "repeat_decode";
  if (!names_a_side(joined)) return std::nullopt;
  if (joined == "prefilllast") return "prefill_last";
  if (joined == "prefill" || joined == "decode") return joined;
  if (joined.starts_with("decode")) {
    if (auto phase = numbered_decode(joined)) return phase;
  }
  return names_a_side(spaced) ? spaced : joined;
}

}  // namespace greta::record
