#pragma once
#include <cstring>
#include <string>

#include "engine/run/trace_sink.h"
#include "include/greta_trace.h"
#include "trace/status.h"

// What callers of the C API give, checked and made into what the writers take. All throw
// BadArgument with the name of the argument.

namespace greta::trace {

/// A structure as this build has it, of a caller that may know fewer fields, or more that say
/// nothing. `what`: its name; `first_bytes`: its size in the first version.
template <class T>
T known_part(const T* given, const char* what, size_t first_bytes) {
  if (given == nullptr) throw BadArgument(std::string(what) + " is NULL");
  const size_t size = given->size;
  if (size < first_bytes || size > 64 * sizeof(T)) {
    throw BadArgument(std::string(what) + ".size is not set: begin with its _INIT");
  }
  const auto* bytes = reinterpret_cast<const char*>(given);
  for (size_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) throw BadArgument(std::string(what) + " has fields of a newer library");
  }
  T known{};
  std::memcpy(&known, given, size < sizeof(T) ? size : sizeof(T));
  return known;
}

/// "" for NULL. Valid UTF-8 without control characters, of at most so many bytes.
std::string text_of(const char* text, const char* what, size_t max_bytes = 1024);
/// The same, which must say something.
std::string required_text(const char* text, const char* what, size_t max_bytes = 1024);

ValueType value_type_of(greta_dtype dtype);
Phase phase_of(int32_t phase);
int layer_of(int32_t layer);

RunRecord run_record_of(const greta_run_info& info);
PromptRecord prompt_record_of(const greta_prompt& prompt);

/// All of a row but its tensor, fingerprint and sample. `n_rows`: of consecutive positions from its
/// own on.
TraceRecord record_of(const greta_row& row, size_t n_rows = 1);

/// What some row has; else BadArgument says what contradicts.
Fingerprint fingerprint_of(const greta_fingerprint& given);
void set_fingerprint(greta_fingerprint& to, const Fingerprint& from);

/// A fact that has no field of its own.
RunRecord::Attribute attribute_of(const char* name, const char* value);

}  // namespace greta::trace
