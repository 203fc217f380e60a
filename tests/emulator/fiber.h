#pragma once

#include <cstddef>
#include <functional>

namespace greta::emulator {

/// A function with a stack of its own that can stop in the middle and go on later; cooperative, all
/// on the thread that calls resume(). The body must not throw, and must not stop in a catch block.
class Fiber {
 public:
  /// Maps the stack, with a guard page below it. Throws std::system_error without memory.
  explicit Fiber(std::function<void()> body);
  /// A body that has not finished is abandoned: what lies on its stack is not destroyed.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the body, from its start or from where it stopped, until it stops or finishes. A finished
  /// body starts again.
  void resume();

  /// Called by the body: goes back to resume().
  void stop();

  /// Forgets where the body stopped; the next resume() starts it from the beginning.
  void reset();

 private:
  static void entry(Fiber* self);
  void switch_in();
  void switch_out();

  std::function<void()> body_;
  std::byte* mapping_ = nullptr;
  std::size_t colour_ = 0;  // bytes unused at the top: else all stacks meet in the same cache lines
  void* context_ = nullptr;  // of the body while it is stopped
  void* caller_ = nullptr;   // of resume() while the body runs

  // What AddressSanitizer wants to know about a change of stacks.
  void* fake_stack_ = nullptr;
  void* caller_fake_stack_ = nullptr;
  const void* caller_stack_ = nullptr;
  std::size_t caller_stack_bytes_ = 0;
};

}  // namespace greta::emulator
