#pragma once

#include <memory>

#include "trace/run.h"
#include "trace/target.h"

namespace greta::trace {

/// What callers of the C API hold instead of addresses: a number that stands for a target or a run
/// and is never given twice, so that a call on what is gone, or on a handle of the other kind,
/// finds nothing, not freed memory. What is found lives as long as who found it needs it.
///
/// A child after fork() knows none of its parent's handles: the threads that write are not in it.
///
/// From any thread. Those that find throw Refused: GRETA_ERROR_ARGUMENT for what never was such a
/// handle, GRETA_ERROR_STATE for one that is gone.
namespace handles {

greta_trace* add(std::shared_ptr<Target> target);
/// A run of that target, which must still be there.
greta_run* add(std::shared_ptr<Run> run, const greta_trace* target);

std::shared_ptr<Target> find(const greta_trace* handle);
std::shared_ptr<Run> find(const greta_run* handle);

/// The handle is gone.
std::shared_ptr<Run> take(const greta_run* handle);
/// The handle and those of the target's runs are gone, and the runs with them, as failed.
void drop(const greta_trace* handle);

}  // namespace handles
}  // namespace greta::trace
