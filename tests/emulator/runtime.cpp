#include <algorithm>
#include <cstdlib>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "tests/emulator/hip/hip_runtime.h"

// The runtime calls. Work on a stream is queued and done, in order, when something waits for it:
// host code that reads a result too early, or changes pinned memory too early, gets it wrong.

uint3 threadIdx{};
uint3 blockIdx{};
dim3 blockDim;
dim3 gridDim;

using Work = std::function<void()>;

struct ihipStream_t {
  std::deque<Work> queue;
  std::uint64_t queued = 0, finished = 0;  // work items so far
  bool capturing = false, invalid = false;
  std::vector<Work> captured;
};
struct ihipEvent_t {
  hipStream_t stream = nullptr;
  std::uint64_t after = 0;  // done when the stream has finished so many items
};
struct ihipGraph {
  std::vector<Work> nodes;
};
struct hipGraphExec {
  std::shared_ptr<const std::vector<Work>> nodes;
};

namespace greta::emulator {
namespace {

constexpr std::size_t kDefaultMemoryBytes = std::size_t{4} << 30;

struct Device {
  std::size_t memory_bytes = kDefaultMemoryBytes;
  std::size_t used_bytes = 0;
  std::map<const std::byte*, std::size_t> allocations, pinned;
  std::set<hipStream_t> streams;
  std::exception_ptr unreported;  // of a kernel that failed in a call that cannot say so
};

Device& device() {
  static Device device;
  return device;
}

bool inside(const std::map<const std::byte*, std::size_t>& blocks, const void* data,
            std::size_t bytes) {
  const auto* first = static_cast<const std::byte*>(data);
  auto block = blocks.upper_bound(first);
  if (block == blocks.begin()) return false;
  --block;
  return first + bytes <= block->first + block->second;
}
bool on_device(const void* data, std::size_t bytes) {
  return inside(device().allocations, data, bytes);
}

// Runs the stream's work until `until` items are finished. A kernel that fails empties the queue.
void drain(hipStream_t stream, std::uint64_t until) {
  while (stream->finished < until && !stream->queue.empty()) {
    const Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    ++stream->finished;
    try {
      work();
    } catch (...) {
      stream->finished += stream->queue.size();
      stream->queue.clear();
      throw;
    }
  }
}
void drain(hipStream_t stream) { drain(stream, stream->queued); }

void drain_all() {
  for (hipStream_t stream : device().streams) drain(stream);
}

// For calls that destructors make: the next call that waits throws what happened.
template <class Drain>
void drain_quietly(Drain drain_some) {
  try {
    drain_some();
  } catch (...) {
    device().unreported = std::current_exception();
  }
}
void report() {
  if (device().unreported) std::rethrow_exception(std::exchange(device().unreported, nullptr));
}

bool any_capture() {
  return std::any_of(device().streams.begin(), device().streams.end(),
                     [](hipStream_t stream) { return stream->capturing; });
}

// A call that waits: impossible while work is being recorded, and it spoils the recording.
hipError_t refuse_in_capture(hipStream_t stream) {
  if (!stream->capturing) return hipSuccess;
  stream->invalid = true;
  return hipErrorStreamCaptureUnsupported;
}

// A call that could wait for what is not queued, only recorded: it spoils every recording of the
// thread, whatever stream it is about.
hipError_t refuse_while_recording() {
  hipError_t error = hipSuccess;
  for (hipStream_t stream : device().streams) {
    if (stream->capturing) error = refuse_in_capture(stream);
  }
  return error;
}

hipError_t enqueue(hipStream_t stream, Work work) {
  if (device().streams.count(stream) == 0) return hipErrorInvalidResourceHandle;
  if (stream->capturing) {
    stream->captured.push_back(std::move(work));
  } else {
    stream->queue.push_back(std::move(work));
    ++stream->queued;
  }
  return hipSuccess;
}

hipError_t allocate(std::map<const std::byte*, std::size_t>& blocks, void** data,
                    std::size_t bytes) {
  // A block of its own each, of the exact size: AddressSanitizer sees what goes beyond.
  void* block = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
#if defined(__SANITIZE_ADDRESS__)
  std::free(block);
  if (posix_memalign(&block, 256, std::max<std::size_t>(bytes, 1)) != 0) block = nullptr;
#endif
  if (block == nullptr) return hipErrorOutOfMemory;
  std::memset(block, 0xff, bytes);
  blocks[static_cast<const std::byte*>(block)] = bytes;
  *data = block;
  return hipSuccess;
}

}  // namespace

void set_memory_bytes(std::size_t bytes) { device().memory_bytes = bytes; }

hipError_t launch(const char* name, dim3 grid, dim3 block, std::size_t dynamic_shared_bytes,
                  hipStream_t stream, std::function<void()> body) {
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  if (threads == 0 || threads > kMaxThreads || blocks == 0 || grid.y > 65535 || grid.z > 65535 ||
      grid.x > 0x7fffffffu) {
    return hipErrorInvalidConfiguration;
  }
  if (dynamic_shared_bytes > kMaxSharedBytes) return hipErrorInvalidValue;
  return enqueue(stream, [kernel = Kernel{name,
                                          {grid.x, grid.y, grid.z},
                                          {block.x, block.y, block.z},
                                          dynamic_shared_bytes,
                                          std::move(body)}] { run(kernel); });
}

}  // namespace greta::emulator

using namespace greta::emulator;

const char* hipGetErrorString(hipError_t error) {
  switch (error) {
    case hipSuccess:
      return "no error";
    case hipErrorInvalidValue:
      return "invalid argument";
    case hipErrorOutOfMemory:
      return "out of memory";
    case hipErrorInvalidConfiguration:
      return "invalid configuration argument";
    case hipErrorInvalidDevice:
      return "invalid device ordinal";
    case hipErrorInvalidResourceHandle:
      return "invalid resource handle";
    case hipErrorNotReady:
      return "device not ready";
    case hipErrorStreamCaptureUnsupported:
      return "operation not permitted while capturing";
    case hipErrorStreamCaptureInvalidated:
      return "the capture was spoilt by an earlier error";
    case hipErrorIllegalState:
      return "the stream is not in the right state";
  }
  return "unknown error";
}

// ---- Device.

hipError_t hipGetDeviceCount(int* count) {
  *count = 1;
  return hipSuccess;
}
hipError_t hipSetDevice(int index) { return index == 0 ? hipSuccess : hipErrorInvalidDevice; }
hipError_t hipGetDevice(int* index) {
  *index = 0;
  return hipSuccess;
}
hipError_t hipGetDeviceProperties(hipDeviceProp_t* properties, int index) {
  if (index != 0) return hipErrorInvalidDevice;
  *properties = {};
  std::strcpy(properties->name, "emulator");
  std::strcpy(properties->gcnArchName, kLanes == 64 ? "wave64" : "wave32");
  properties->totalGlobalMem = device().memory_bytes;
  properties->sharedMemPerBlock = kMaxSharedBytes;
  properties->warpSize = static_cast<int>(kLanes);
  properties->multiProcessorCount = 2;
  properties->maxThreadsPerBlock = static_cast<int>(kMaxThreads);
  return hipSuccess;
}
hipError_t hipDeviceSynchronize() {
  if (any_capture()) return hipErrorStreamCaptureUnsupported;
  report();
  drain_all();
  return hipSuccess;
}
hipError_t hipGetLastError() { return hipSuccess; }

// ---- Memory.

hipError_t hipMalloc(void** data, std::size_t bytes) {
  if (any_capture()) return hipErrorStreamCaptureUnsupported;
  if (bytes > device().memory_bytes - std::min(device().memory_bytes, device().used_bytes)) {
    return hipErrorOutOfMemory;
  }
  const hipError_t error = allocate(device().allocations, data, bytes);
  if (error == hipSuccess) device().used_bytes += bytes;
  return error;
}
hipError_t hipFree(void* data) {
  if (data == nullptr) return hipSuccess;
  const auto block = device().allocations.find(static_cast<const std::byte*>(data));
  if (block == device().allocations.end()) return hipErrorInvalidValue;
  drain_quietly(drain_all);  // hipFree waits for the device
  device().used_bytes -= block->second;
  device().allocations.erase(block);
  std::free(data);
  return hipSuccess;
}
hipError_t hipHostMalloc(void** data, std::size_t bytes, unsigned) {
  return allocate(device().pinned, data, bytes);
}
hipError_t hipHostFree(void* data) {
  if (data == nullptr) return hipSuccess;
  if (device().pinned.count(static_cast<const std::byte*>(data)) == 0) return hipErrorInvalidValue;
  drain_quietly(drain_all);
  device().pinned.erase(static_cast<const std::byte*>(data));
  std::free(data);
  return hipSuccess;
}
hipError_t hipMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = device().memory_bytes;
  *free = device().memory_bytes - std::min(device().memory_bytes, device().used_bytes);
  return hipSuccess;
}

hipError_t hipMemcpyAsync(void* to, const void* from, std::size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream) {
  if (bytes == 0) return hipSuccess;
  const bool to_device = kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice;
  const bool from_device = kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice;
  if (on_device(to, bytes) != to_device || on_device(from, bytes) != from_device) {
    return hipErrorInvalidValue;
  }
  const hipError_t error = enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  if (error != hipSuccess || stream->capturing) return error;
  // Host memory that is not pinned is read or written before the call returns.
  const void* host = to_device ? from : to;
  if (to_device != from_device && !inside(device().pinned, host, bytes)) drain(stream);
  return hipSuccess;
}
hipError_t hipMemsetAsync(void* data, int value, std::size_t bytes, hipStream_t stream) {
  if (bytes == 0) return hipSuccess;
  if (!on_device(data, bytes)) return hipErrorInvalidValue;
  return enqueue(stream, [=] { std::memset(data, value, bytes); });
}

// ---- Streams and events.

hipError_t hipStreamCreateWithFlags(hipStream_t* stream, unsigned) {
  *stream = new ihipStream_t;
  device().streams.insert(*stream);
  return hipSuccess;
}
hipError_t hipStreamDestroy(hipStream_t stream) {
  if (device().streams.erase(stream) == 0) return hipErrorInvalidResourceHandle;
  const std::unique_ptr<ihipStream_t> owner(stream);
  drain_quietly([stream] { drain(stream); });
  return hipSuccess;
}
hipError_t hipStreamSynchronize(hipStream_t stream) {
  if (device().streams.count(stream) == 0) return hipErrorInvalidResourceHandle;
  if (const hipError_t error = refuse_in_capture(stream); error != hipSuccess) return error;
  report();
  drain(stream);
  return hipSuccess;
}

hipError_t hipEventCreate(hipEvent_t* event) {
  *event = new ihipEvent_t;
  return hipSuccess;
}
hipError_t hipEventDestroy(hipEvent_t event) {
  delete event;
  return hipSuccess;
}
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  if (device().streams.count(stream) == 0) return hipErrorInvalidResourceHandle;
  if (stream->capturing) return refuse_in_capture(stream);
  *event = {stream, stream->queued};
  return hipSuccess;
}
hipError_t hipEventSynchronize(hipEvent_t event) {
  if (const hipError_t error = refuse_while_recording(); error != hipSuccess) return error;
  if (device().streams.count(event->stream) != 0) drain(event->stream, event->after);
  return hipSuccess;
}
hipError_t hipEventQuery(hipEvent_t event) {
  if (const hipError_t error = refuse_while_recording(); error != hipSuccess) return error;
  const bool alive = device().streams.count(event->stream) != 0;
  return alive && event->stream->finished < event->after ? hipErrorNotReady : hipSuccess;
}
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned) {
  return enqueue(stream, [from = *event] {
    if (device().streams.count(from.stream) != 0) drain(from.stream, from.after);
  });
}

// ---- Graphs.

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode) {
  if (device().streams.count(stream) == 0) return hipErrorInvalidResourceHandle;
  if (stream->capturing) return hipErrorIllegalState;
  stream->capturing = true;
  stream->invalid = false;
  stream->captured.clear();
  return hipSuccess;
}
hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t* graph) {
  if (!stream->capturing) return hipErrorIllegalState;
  stream->capturing = false;
  *graph = nullptr;
  if (stream->invalid) return hipErrorStreamCaptureInvalidated;
  *graph = new ihipGraph{std::move(stream->captured)};
  return hipSuccess;
}
hipError_t hipGraphInstantiate(hipGraphExec_t* executable, hipGraph_t graph, hipGraph_t*, char*,
                               std::size_t) {
  *executable = new hipGraphExec{std::make_shared<const std::vector<Work>>(graph->nodes)};
  return hipSuccess;
}
hipError_t hipGraphLaunch(hipGraphExec_t executable, hipStream_t stream) {
  const auto& nodes = executable->nodes;
  return enqueue(stream, [nodes] {
    for (const Work& node : *nodes) node();
  });
}
hipError_t hipGraphDestroy(hipGraph_t graph) {
  delete graph;
  return hipSuccess;
}
hipError_t hipGraphExecDestroy(hipGraphExec_t executable) {
  delete executable;
  return hipSuccess;
}
