#include "tests/emulator/fiber.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define GRETA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GRETA_ASAN 1
#endif
#endif

#ifdef GRETA_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__) && !defined(GRETA_FIBER_UCONTEXT)
#define GRETA_FIBER_ASSEMBLY 1
#else
#include <ucontext.h>
#endif

namespace greta::emulator {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kGuardBytes = kPageBytes;
constexpr std::size_t kColourStep = 5 * 64;
#ifdef GRETA_ASAN
constexpr std::size_t kStackBytes = 256 << 10;  // frames carry red zones
#else
constexpr std::size_t kStackBytes = 64 << 10;
#endif

}  // namespace

#ifdef GRETA_FIBER_ASSEMBLY

// Saves the registers that a call preserves (System V ABI) on this stack, leaves the stack pointer
// in *save, and takes up the stack `load`. Rounding modes are the same for all fibers.
extern "C" void greta_fiber_switch(void** save, void* load);
asm(R"(
.text
.globl greta_fiber_switch
.hidden greta_fiber_switch
.type greta_fiber_switch, @function
greta_fiber_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx  # not ret: the processor would predict a return to the caller
.size greta_fiber_switch, .-greta_fiber_switch

# First thing on a new stack: the fiber is in r12, its entry function in r13.
.globl greta_fiber_start
.hidden greta_fiber_start
.type greta_fiber_start, @function
greta_fiber_start:
  movq %r12, %rdi
  xorl %ebp, %ebp
  callq *%r13
  ud2
.size greta_fiber_start, .-greta_fiber_start
)");
extern "C" void greta_fiber_start();

void Fiber::reset() {
#ifdef GRETA_ASAN
  __asan_unpoison_memory_region(mapping_ + kGuardBytes, kStackBytes);
  fake_stack_ = nullptr;
#endif
  // As greta_fiber_switch leaves a stack: six registers, then the return address.
  auto* top = reinterpret_cast<std::uint64_t*>(mapping_ + kGuardBytes + kStackBytes - colour_);
  std::uint64_t* frame = top - 9;  // keeps the stack 16-byte aligned at the call
  frame[0] = 0;                    // r15
  frame[1] = 0;                    // r14
  frame[2] = reinterpret_cast<std::uint64_t>(&Fiber::entry);
  frame[3] = reinterpret_cast<std::uint64_t>(this);
  frame[4] = 0;  // rbx
  frame[5] = 0;  // rbp
  frame[6] = reinterpret_cast<std::uint64_t>(&greta_fiber_start);
  frame[7] = 0;
  context_ = frame;
}

void Fiber::switch_in() { greta_fiber_switch(&caller_, context_); }
void Fiber::switch_out() { greta_fiber_switch(&context_, caller_); }

#else

namespace {
struct Contexts {
  ucontext_t body, caller;
};
}  // namespace

void Fiber::reset() {
#ifdef GRETA_ASAN
  __asan_unpoison_memory_region(mapping_ + kGuardBytes, kStackBytes);
  fake_stack_ = nullptr;
#endif
  if (context_ == nullptr) context_ = new Contexts;
  auto* contexts = static_cast<Contexts*>(context_);
  getcontext(&contexts->body);
  contexts->body.uc_stack.ss_sp = mapping_ + kGuardBytes;
  contexts->body.uc_stack.ss_size = kStackBytes - colour_;
  contexts->body.uc_link = nullptr;
  // makecontext passes ints: the pointer travels in two halves.
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  auto start = [](unsigned high, unsigned low) {
    entry(reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low));
  };
  void (*function)(unsigned, unsigned) = start;
  makecontext(&contexts->body, reinterpret_cast<void (*)()>(function), 2,
              static_cast<unsigned>(static_cast<std::uint64_t>(address) >> 32),
              static_cast<unsigned>(address));
}

void Fiber::switch_in() {
  auto* contexts = static_cast<Contexts*>(context_);
  swapcontext(&contexts->caller, &contexts->body);
}
void Fiber::switch_out() {
  auto* contexts = static_cast<Contexts*>(context_);
  swapcontext(&contexts->body, &contexts->caller);
}

#endif

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  static std::size_t n_fibers = 0;
  colour_ = n_fibers++ * kColourStep % kPageBytes;
  void* memory = mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(), "emulator: no memory for a stack");
  }
  mapping_ = static_cast<std::byte*>(memory);
  mprotect(mapping_, kGuardBytes, PROT_NONE);
  reset();
}

Fiber::~Fiber() {
#ifdef GRETA_ASAN
  __asan_unpoison_memory_region(mapping_ + kGuardBytes, kStackBytes);
#endif
  munmap(mapping_, kGuardBytes + kStackBytes);
#ifndef GRETA_FIBER_ASSEMBLY
  delete static_cast<Contexts*>(context_);
#endif
}

void Fiber::entry(Fiber* self) {
#ifdef GRETA_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self->caller_stack_, &self->caller_stack_bytes_);
#endif
  for (;;) {
    self->body_();
    self->stop();
  }
}

void Fiber::resume() {
#ifdef GRETA_ASAN
  __sanitizer_start_switch_fiber(&caller_fake_stack_, mapping_ + kGuardBytes, kStackBytes);
#endif
  switch_in();
#ifdef GRETA_ASAN
  __sanitizer_finish_switch_fiber(caller_fake_stack_, nullptr, nullptr);
#endif
}

void Fiber::stop() {
#ifdef GRETA_ASAN
  __sanitizer_start_switch_fiber(&fake_stack_, caller_stack_, caller_stack_bytes_);
#endif
  switch_out();
#ifdef GRETA_ASAN
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_stack_, &caller_stack_bytes_);
#endif
}

}  // namespace greta::emulator
