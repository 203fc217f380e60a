#include "include/greta_trace.h"

#include <span>
#include <string>

#include "trace/arguments.h"
#include "trace/handles.h"
#include "trace/run.h"
#include "trace/status.h"
#include "trace/target.h"

// The C API: arguments are checked, exceptions become statuses, and all work is that of trace/.

using namespace greta::trace;

namespace {

template <class T>
T& required(T* given, const char* what) {
  if (given == nullptr) throw BadArgument(std::string(what) + " is NULL");
  return *given;
}

// Sizes of the first version, which later ones only add to.
greta_row row_of(const greta_row* row) { return known_part(row, "row", sizeof(greta_row)); }

/// Does `add` to the run, which remembers that it lacks what is refused.
template <class Add>
greta_status adding(greta_run* handle, const Add& add) noexcept {
  return guarded([&] {
    const std::shared_ptr<Run> run = handles::find(handle);
    try {
      add(*run);
    } catch (const greta::RunEnded&) {
      throw;
    } catch (const std::exception& error) {
      run->note_refusal(error.what());
      throw;
    }
  });
}

}  // namespace

uint32_t greta_abi_version(void) noexcept { return GRETA_TRACE_ABI_VERSION; }
const char* greta_version(void) noexcept { return GRETA_VERSION; }
const char* greta_error_text(void) noexcept { return error_text(); }

const char* greta_status_text(greta_status status) noexcept {
  switch (static_cast<int>(status)) {
    case GRETA_OK:
      return "no error";
    case GRETA_ERROR_ARGUMENT:
      return "an argument cannot be taken";
    case GRETA_ERROR_STATE:
      return "the call is out of order";
    case GRETA_ERROR_EXISTS:
      return "the name is taken already";
    case GRETA_ERROR_FORMAT:
      return "the file is no greta database, or of a newer version";
    case GRETA_ERROR_IO:
      return "the file cannot be opened or written";
    case GRETA_ERROR_BUSY:
      return "others hold the database";
    case GRETA_ERROR_MEMORY:
      return "out of memory, or of threads";
    case GRETA_ERROR_INTERNAL:
      return "a mistake of the library";
    case GRETA_ERROR_REFUSED:
      return "the run lacks rows that were refused";
    default:
      return "no status of this library";
  }
}

greta_status greta_trace_open(const char* path, greta_kind kind, greta_trace** trace) noexcept {
  if (trace != nullptr) *trace = nullptr;
  return guarded_writing([&] {
    greta_trace*& handle = required(trace, "trace");  // before a file is made
    handle = handles::add(std::make_shared<Target>(path, kind));
  });
}

greta_status greta_trace_close(greta_trace* trace) noexcept {
  return guarded_writing([&] {
    if (trace != nullptr) handles::drop(trace);
  });
}

greta_status greta_run_begin(greta_trace* trace, const greta_run_info* info,
                             greta_run** run) noexcept {
  if (run != nullptr) *run = nullptr;
  return guarded_writing([&] {
    greta_run*& handle = required(run, "run");
    const std::shared_ptr<Target> target = handles::find(trace);
    const greta_run_info known = known_part(info, "info", sizeof(greta_run_info));
    handle = handles::add(target->begin_run(known), trace);
  });
}

const char* greta_run_name(const greta_run* run) noexcept {
  const char* name = "";
  guarded([&] {
    if (run != nullptr) name = handles::find(run)->name().c_str();
  });
  return name;
}

greta_status greta_run_add_attribute(greta_run* run, const char* name, const char* value) noexcept {
  return guarded([&] { handles::find(run)->add_attribute(attribute_of(name, value)); });
}

greta_status greta_run_add_prompt(greta_run* run, const greta_prompt* prompt) noexcept {
  return guarded([&] {
    handles::find(run)->add_prompt(
        prompt_record_of(known_part(prompt, "prompt", sizeof(greta_prompt))));
  });
}

greta_status greta_run_add_plan(greta_run* run, const char* prompt, const greta_planned* rows,
                                size_t n_rows) noexcept {
  return adding(run, [&](Run& of) {
    if (n_rows > 0) required(rows, "rows");
    of.add_plan(prompt, {rows, n_rows});
  });
}

greta_status greta_run_add_values(greta_run* run, const greta_row* row, greta_dtype dtype,
                                  const void* values, size_t n) noexcept {
  return adding(
      run, [&](Run& of) { of.add_values(row_of(row), value_type_of(dtype), values, 1, n, 0, {}); });
}

greta_status greta_run_add_positions(greta_run* run, const greta_row* first, greta_dtype dtype,
                                     const void* values, size_t n_rows, size_t n,
                                     size_t stride_bytes, const int32_t* token_ids) noexcept {
  return adding(run, [&](Run& of) {
    greta_row row = row_of(first);
    row.token_id = GRETA_UNKNOWN;
    std::span<const int32_t> ids;
    if (token_ids != nullptr) ids = {token_ids, n_rows};
    of.add_values(row, value_type_of(dtype), values, n_rows, n, stride_bytes, ids);
  });
}

greta_status greta_run_add_fingerprint(greta_run* run, const greta_row* row,
                                       const greta_fingerprint* fingerprint) noexcept {
  return adding(run, [&](Run& of) {
    const auto known = known_part(fingerprint, "fingerprint", sizeof(greta_fingerprint));
    of.add_fingerprint(row_of(row), fingerprint_of(known));
  });
}

greta_status greta_run_flush(greta_run* run) noexcept {
  return guarded([&] { handles::find(run)->flush(); });
}

greta_status greta_run_end(greta_run* run, greta_outcome outcome) noexcept {
  return guarded_writing([&] {
    if (run != nullptr) handles::take(run)->end(outcome == GRETA_COMPLETE);
  });
}

greta_status greta_fingerprint_values(greta_dtype dtype, const void* values, size_t n,
                                      greta_fingerprint* fingerprint) noexcept {
  return guarded([&] {
    known_part(fingerprint, "fingerprint", sizeof(greta_fingerprint));
    set_fingerprint(*fingerprint, fingerprint_of_values(value_type_of(dtype), values, n));
  });
}
