#pragma once
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

#include "common/stop_signal.h"
#include "include/greta_trace.h"

namespace greta::trace {

/// Why a call of the C API is not done.
struct Refused : std::runtime_error {
  Refused(greta_status why, const std::string& text) : std::runtime_error(text), status(why) {}
  greta_status status;
};

/// A call whose arguments cannot be taken.
struct BadArgument : Refused {
  explicit BadArgument(const std::string& text) : Refused(GRETA_ERROR_ARGUMENT, text) {}
};

/// What greta_error_text() says on this thread.
const char* error_text() noexcept;
void clear_error() noexcept;
/// Of the exception that is being handled: keeps its text, and says which status it is.
greta_status take_exception() noexcept;

/// Does `body` and lets no exception out.
template <class Body>
greta_status guarded(Body&& body) noexcept {
  clear_error();
  try {
    body();
    return GRETA_OK;
  } catch (...) {
    return take_exception();
  }
}

/// The same for what writes on the caller's thread: a pipe without readers and a limit on the size
/// of files are errors, and no signals.
template <class Body>
greta_status guarded_writing(Body&& body) noexcept {
  const HeldSignals held{SIGPIPE, SIGXFSZ};
  return guarded(std::forward<Body>(body));
}

}  // namespace greta::trace
