#pragma once
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

// Threads, started with a message that helps where the system has no more.

namespace greta {

/// No thread could be started; what() says what to do. Not a std::system_error, which an unreadable
/// input is.
struct ThreadError : std::runtime_error {
  explicit ThreadError(const std::system_error& error)
      : std::runtime_error(std::string("cannot start a thread: ") + error.what() +
                           "; raise the limit of processes (ulimit -u), or use fewer threads") {}
};

/// What `start` gives, which starts a thread. Throws ThreadError.
template <class Start>
auto with_thread_error(Start&& start) {
  try {
    return std::forward<Start>(start)();
  } catch (const std::system_error& error) {
    throw ThreadError(error);
  }
}

/// A thread that runs `body`. Throws ThreadError.
template <class Body>
std::thread start_thread(Body&& body) {
  return with_thread_error([&] { return std::thread(std::forward<Body>(body)); });
}

}  // namespace greta
