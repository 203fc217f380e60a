#include "include/greta_trace.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trace/arguments.h"
#include "trace/run.h"
#include "trace/status.h"

/// Handle that callers of the C API hold instead of an address: a number that stands for a target
/// or a run and is never given twice, so that a call on what is gone, or on a handle of the other
/// kind, finds nothing, not freed memory. What is found lives as long as who found it needs it.
///
/// A child after fork() knows none of its parent's handles: the threads that write are not in it.
///
/// From any thread. Those that find throw Refused: GRETA_ERROR_ARGUMENT for what never was such a
/// handle, GRETA_ERROR_STATE for one that is gone.
namespace greta::trace::handles {
namespace {

using Number = uintptr_t;

struct Opened {
  std::shared_ptr<Run> run;
  Number target;
};

struct Table {
  std::shared_mutex mutex;
  std::map<Number, std::shared_ptr<Target>> targets;
  std::map<Number, Opened> runs;
};

// Both last as long as the process: who calls from a destructor at its end finds them.
alignas(Table) std::byte place[sizeof(Table)];
Table& table = *new (place) Table;
Number last = 0;  // under the mutex; goes on in a child of fork()

// Locks may be held by threads that a child does not have, and what is in there waits for such when
// it ends: it is left as it is.
void begin_anew() { new (place) Table; }
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, begin_anew);

template <class Handle>
Number number_of(const Handle* handle) {
  return reinterpret_cast<Number>(handle);
}
template <class Handle>
Handle* handle_of(Number number) {
  return reinterpret_cast<Handle*>(number);
}

[[noreturn]] void refuse(Number number, const char* what, bool is_other_kind) {
  const std::string name = what;
  if (number == 0) throw BadArgument(name + " is NULL");
  if (is_other_kind || number > last) throw BadArgument(name + " is no handle of a " + name);
  throw Refused(GRETA_ERROR_STATE, name == "run"
                                       ? "the run has ended, its trace was closed, or this "
                                         "process was forked since it began"
                                       : "the trace was closed, or this process was "
                                         "forked since it was opened");
}

auto found(const greta_trace* handle) {
  const Number number = number_of(handle);
  const auto it = table.targets.find(number);
  if (it == table.targets.end()) refuse(number, "trace", table.runs.contains(number));
  return it;
}
auto found(const greta_run* handle) {
  const Number number = number_of(handle);
  const auto it = table.runs.find(number);
  if (it == table.runs.end()) refuse(number, "run", table.targets.contains(number));
  return it;
}

}  // namespace

greta_trace* add(std::shared_ptr<Target> target) {
  const std::unique_lock lock(table.mutex);
  table.targets.emplace(last + 1, std::move(target));
  return handle_of<greta_trace>(++last);
}

greta_run* add(std::shared_ptr<Run> run, const greta_trace* target) {
  const std::unique_lock lock(table.mutex);
  const Number number = found(target)->first;
  table.runs.emplace(last + 1, Opened{std::move(run), number});
  return handle_of<greta_run>(++last);
}

std::shared_ptr<Target> find(const greta_trace* handle) {
  const std::shared_lock lock(table.mutex);
  return found(handle)->second;
}

std::shared_ptr<Run> find(const greta_run* handle) {
  const std::shared_lock lock(table.mutex);
  return found(handle)->second.run;
}

std::shared_ptr<Run> take(const greta_run* handle) {
  const std::unique_lock lock(table.mutex);
  return std::move(table.runs.extract(found(handle)).mapped().run);
}

void drop(const greta_trace* handle) {
  std::shared_ptr<Target> target;
  std::vector<Opened> runs;  // end when others may use the table again
  const std::unique_lock lock(table.mutex);
  const auto closed = found(handle);
  for (auto it = table.runs.begin(); it != table.runs.end();) {
    const auto one = it++;
    if (one->second.target == closed->first) runs.push_back(table.runs.extract(one).mapped());
  }
  target = table.targets.extract(closed).mapped();
}

}  // namespace greta::trace::handles

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
