#include "tests/emulator/block.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "tests/emulator/hip/hip_runtime.h"

namespace greta::emulator {

unsigned running_lane = 0;

namespace {

std::uint64_t schedule_seed = 0;
Counters total;

constexpr int kPoison = 0xff;  // a NaN as f32, f64, f16 and bf16

enum class State : std::uint8_t { kReady, kAtCollective, kAtBarrier, kDone };

std::string text(const Index3& i) {
  return "(" + std::to_string(i.x) + "," + std::to_string(i.y) + "," + std::to_string(i.z) + ")";
}

// Where and what a thread waits for.
struct Site {
  const char* operation = nullptr;
  Where where;

  bool operator==(const Site& other) const {
    const auto same = [](const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; };
    return where.line == other.where.line && same(operation, other.operation) &&
           same(where.file, other.where.file);
  }
  std::string text() const {
    return std::string(operation) + " at " + where.file + ":" + std::to_string(where.line);
  }
};

struct Thread {
  State state = State::kDone;
  Index3 index;
  Site site;
};

struct Wave {
  unsigned first = 0, n = 0;  // threads
  unsigned waiting = 0;       // lanes at a collective
  unsigned first_waiting = 0;
  unsigned parity = 0;  // of the collective that they wait for
  std::array<Operands, 2> operands;
};

struct SharedObject {
  const void* tag;
  std::size_t bytes;
  std::unique_ptr<std::byte[]> data;
};

// The machine: one block at a time. Fibers and their stacks are kept from launch to launch.
class Machine {
 public:
  void run(const Kernel& kernel);
  void barrier(Where where);
  const Operands& exchange(const void* operand, std::size_t bytes, const char* operation,
                           Where where);
  void* static_shared(const void* tag, std::size_t bytes);
  void* dynamic_shared() { return dynamic_.get(); }

 private:
  void run_block(const Index3& block);
  void start_threads();
  bool visit(Wave& wave);
  void settle(Wave& wave);
  void release_barrier();
  void thread_body(unsigned thread);
  [[noreturn]] void fail(unsigned thread, const std::string& what) const;
  std::string describe(unsigned thread) const;
  void order(std::vector<unsigned>& items);
  void poison_shared();

  const Kernel* kernel_ = nullptr;
  std::mt19937_64 random_;
  bool shuffled_ = false;
  unsigned n_threads_ = 0;
  unsigned current_ = 0;
  unsigned at_barrier_ = 0, done_ = 0;
  std::exception_ptr error_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Thread> threads_;
  std::vector<Wave> waves_;
  std::vector<unsigned> lane_order_, wave_order_;
  std::vector<SharedObject> shared_;
  std::unique_ptr<std::byte[]> dynamic_;
};

Machine machine;

void Machine::fail(unsigned thread, const std::string& what) const {
  throw KernelError("kernel " + kernel_->name + ", block " +
                    text({blockIdx.x, blockIdx.y, blockIdx.z}) + ", " + describe(thread) + ": " +
                    what);
}

std::string Machine::describe(unsigned thread) const {
  return "thread " + std::to_string(thread) + " (wave " + std::to_string(thread / kLanes) +
         ", lane " + std::to_string(thread % kLanes) + ")";
}

void Machine::order(std::vector<unsigned>& items) {
  if (shuffled_) std::shuffle(items.begin(), items.end(), random_);
}

void Machine::thread_body(unsigned thread) {
  try {
    kernel_->body();
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
  threads_[thread].state = State::kDone;
  ++done_;
}

void Machine::run(const Kernel& kernel) {
  kernel_ = &kernel;
  shuffled_ = schedule_seed != 0;
  random_.seed(schedule_seed ^ total.launches * 0x9e3779b97f4a7c15u);
  ++total.launches;
  n_threads_ = kernel.block.x * kernel.block.y * kernel.block.z;
  while (fibers_.size() < n_threads_) {
    const auto thread = static_cast<unsigned>(fibers_.size());
    fibers_.push_back(std::make_unique<Fiber>([this, thread] { thread_body(thread); }));
  }
  shared_.clear();
  dynamic_ = std::make_unique<std::byte[]>(kernel.dynamic_shared_bytes);
  blockDim = {kernel.block.x, kernel.block.y, kernel.block.z};
  gridDim = {kernel.grid.x, kernel.grid.y, kernel.grid.z};

  const std::uint64_t n_blocks = std::uint64_t{kernel.grid.x} * kernel.grid.y * kernel.grid.z;
  std::vector<unsigned> blocks(shuffled_ ? n_blocks : 0);
  std::iota(blocks.begin(), blocks.end(), 0u);
  order(blocks);
  for (std::uint64_t i = 0; i < n_blocks; ++i) {
    const std::uint64_t b = shuffled_ ? blocks[i] : i;
    run_block({static_cast<unsigned>(b % kernel.grid.x),
               static_cast<unsigned>(b / kernel.grid.x % kernel.grid.y),
               static_cast<unsigned>(b / kernel.grid.x / kernel.grid.y)});
  }
}

void Machine::start_threads() {
  threads_.resize(n_threads_);
  Index3 index;
  for (Thread& thread : threads_) {
    thread.state = State::kReady;
    thread.index = index;
    if (++index.x == kernel_->block.x) {
      index.x = 0;
      if (++index.y == kernel_->block.y) index = {0, 0, index.z + 1};
    }
  }
  waves_.resize((n_threads_ + kLanes - 1) / kLanes);
  wave_order_.resize(waves_.size());
  std::iota(wave_order_.begin(), wave_order_.end(), 0u);
  for (unsigned w = 0; w < waves_.size(); ++w) {
    waves_[w].first = w * kLanes;
    waves_[w].n = std::min(kLanes, n_threads_ - w * kLanes);
    waves_[w].waiting = 0;
  }
  lane_order_.resize(kLanes);
  std::iota(lane_order_.begin(), lane_order_.end(), 0u);
  at_barrier_ = done_ = 0;
}

void Machine::poison_shared() {
  for (const SharedObject& object : shared_) std::memset(object.data.get(), kPoison, object.bytes);
  std::memset(dynamic_.get(), kPoison, kernel_->dynamic_shared_bytes);
}

void Machine::run_block(const Index3& block) {
  ++total.blocks;
  total.threads += n_threads_;
  blockIdx = {block.x, block.y, block.z};
  start_threads();
  poison_shared();
  try {
    while (done_ < n_threads_) {
      bool any = false;
      order(wave_order_);
      for (unsigned w : wave_order_) {
        // Unless shuffled, a wavefront goes as far as it can: its data stay in the cache.
        while (visit(waves_[w])) {
          any = true;
          if (shuffled_) break;
        }
      }
      if (!any) release_barrier();
    }
  } catch (...) {
    for (unsigned i = 0; i < n_threads_; ++i) {
      if (threads_[i].state != State::kDone) fibers_[i]->reset();
    }
    throw;
  }
}

// Lets every ready lane run until it waits or ends. False when there was none.
bool Machine::visit(Wave& wave) {
  bool any = false;
  order(lane_order_);
  for (unsigned l : lane_order_) {
    if (l >= wave.n) continue;
    Thread& thread = threads_[wave.first + l];
    if (thread.state != State::kReady) continue;
    any = true;
    current_ = wave.first + l;
    running_lane = l;
    threadIdx = {thread.index.x, thread.index.y, thread.index.z};
    fibers_[current_]->resume();
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
  if (any) settle(wave);
  return any;
}

// All lanes of a wavefront wait or have ended: those in a collective must be all of them.
void Machine::settle(Wave& wave) {
  if (wave.waiting == 0) return;
  if (wave.waiting == kLanes) {
    for (unsigned l = 0; l < kLanes; ++l) threads_[wave.first + l].state = State::kReady;
    wave.waiting = 0;
    wave.parity ^= 1;
    ++total.collectives;
    return;
  }
  std::optional<unsigned> inside, outside;
  for (unsigned l = 0; l < wave.n; ++l) {
    const bool waits = threads_[wave.first + l].state == State::kAtCollective;
    auto& which = waits ? inside : outside;
    if (!which) which = wave.first + l;
  }
  const std::string head = threads_[*inside].site.text() + " needs all " + std::to_string(kLanes) +
                           " lanes, only " + std::to_string(wave.waiting) + " take part: ";
  if (!outside) fail(*inside, head + "the wavefront is incomplete");
  const Thread& other = threads_[*outside];
  fail(*inside,
       head + describe(*outside) +
           (other.state == State::kDone ? " has ended" : " waits in " + other.site.text()));
}

void Machine::release_barrier() {
  const auto waits = [](const Thread& t) { return t.state == State::kAtBarrier; };
  const auto first = std::find_if(threads_.begin(), threads_.end(), waits);
  const auto index = static_cast<unsigned>(first - threads_.begin());
  if (at_barrier_ < n_threads_) {
    const auto ended = std::find_if_not(threads_.begin(), threads_.end(), waits);
    fail(index, first->site.text() +
                    " is not reached by all: " + std::to_string(n_threads_ - at_barrier_) + " of " +
                    std::to_string(n_threads_) + " threads have ended, " +
                    describe(static_cast<unsigned>(ended - threads_.begin())) + " first");
  }
  for (unsigned i = 0; i < n_threads_; ++i) {
    if (!(threads_[i].site == first->site)) {
      fail(index, "waits in " + first->site.text() + " while " + describe(i) + " waits in " +
                      threads_[i].site.text());
    }
    threads_[i].state = State::kReady;
  }
  at_barrier_ = 0;
  ++total.barriers;
}

void Machine::barrier(Where where) {
  Thread& thread = threads_[current_];
  thread.state = State::kAtBarrier;
  thread.site = {"__syncthreads", where};
  ++at_barrier_;
  fibers_[current_]->stop();
}

const Operands& Machine::exchange(const void* operand, std::size_t bytes, const char* operation,
                                  Where where) {
  const unsigned self = current_;
  Wave& wave = waves_[self / kLanes];
  Thread& thread = threads_[self];
  thread.site = {operation, where};
  if (wave.waiting == 0) {
    wave.first_waiting = self;
  } else if (const Site& other = threads_[wave.first_waiting].site; !(other == thread.site)) {
    fail(self, "is in " + thread.site.text() + " while " + describe(wave.first_waiting) +
                   " is in " + other.text());
  }
  Operands& operands = wave.operands[wave.parity];
  std::byte* const slot = operands[self % kLanes].data();
  if (bytes == 4) {  // nearly all: no call
    std::memcpy(slot, operand, 4);
  } else {
    std::memcpy(slot, operand, bytes);
  }
  thread.state = State::kAtCollective;
  ++wave.waiting;
  fibers_[self]->stop();
  return operands;
}

void* Machine::static_shared(const void* tag, std::size_t bytes) {
  std::size_t used = kernel_->dynamic_shared_bytes, used_static = 0;
  for (const SharedObject& object : shared_) {
    if (object.tag == tag) return object.data.get();
    used_static += object.bytes;
  }
  used += used_static + bytes;
  if (used > kMaxSharedBytes || used_static + bytes > kMaxStaticSharedBytes) {
    fail(current_, std::to_string(used) + " bytes of shared memory are needed, " +
                       std::to_string(used_static + bytes) + " of them static; a block has " +
                       std::to_string(kMaxSharedBytes) + ", static " +
                       std::to_string(kMaxStaticSharedBytes));
  }
  shared_.push_back({tag, bytes, std::make_unique<std::byte[]>(bytes)});
  std::memset(shared_.back().data.get(), kPoison, bytes);
  return shared_.back().data.get();
}

}  // namespace

void set_schedule_seed(std::uint64_t seed) { schedule_seed = seed; }
Counters counters() { return total; }

void run(const Kernel& kernel) { machine.run(kernel); }
void barrier(Where where) { machine.barrier(where); }
const Operands& exchange(const void* operand, std::size_t bytes, const char* operation,
                         Where where) {
  return machine.exchange(operand, bytes, operation, where);
}
void* static_shared(const void* tag, std::size_t bytes) {
  return machine.static_shared(tag, bytes);
}
void* dynamic_shared() { return machine.dynamic_shared(); }

}  // namespace greta::emulator
