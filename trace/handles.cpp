#include "trace/handles.h"

#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "trace/status.h"

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
