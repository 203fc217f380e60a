#include "kernels/gpu/device.h"

#include <array>
#include <cstdio>

#include "kernels/gpu/runtime.h"

namespace greta {
namespace {

// Exact below 10 KiB, then three digits.
std::string size_text(size_t bytes) {
  static constexpr std::array<const char*, 5> kUnits{"bytes", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 10240) return std::to_string(bytes) + " bytes";
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g %s", value, kUnits[unit]);
  return text.data();
}

void check(hipError_t error, const std::string& call) {
  if (error != hipSuccess) throw DeviceError(call + " failed: " + hipGetErrorString(error));
}

hipStream_t handle_of(const Stream& stream) { return device_detail::stream_handle(stream); }
hipEvent_t handle_of(const Event& event) { return static_cast<hipEvent_t>(event.handle()); }

std::string shape_text(const dim3& shape) {
  std::string text = std::to_string(shape.x);
  if (shape.y != 1 || shape.z != 1) text += "x" + std::to_string(shape.y);
  if (shape.z != 1) text += "x" + std::to_string(shape.z);
  return text;
}

}  // namespace

// ---- Devices.

int device_count() {
  int count = 0;
  if (hipGetDeviceCount(&count) != hipSuccess) return 0;
  return count;
}

void use_device(int index) {
  check(hipSetDevice(index), "hipSetDevice(" + std::to_string(index) + ")");
}

DeviceInfo device_info() {
  int index = 0;
  check(hipGetDevice(&index), "hipGetDevice");
  hipDeviceProp_t properties;
  check(hipGetDeviceProperties(&properties, index), "hipGetDeviceProperties");
  DeviceInfo info;
  info.name = properties.name;
  info.memory_bytes = properties.totalGlobalMem;
  info.n_processors = properties.multiProcessorCount;
  info.wave_lanes = properties.warpSize;
#if defined(GRETA_NVIDIA)
  info.architecture = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
  info.shared_bytes = properties.sharedMemPerBlockOptin;
#else
  info.architecture = properties.gcnArchName;
  info.architecture = info.architecture.substr(0, info.architecture.find(':'));
  info.shared_bytes = properties.sharedMemPerBlock;
#endif
  return info;
}

DeviceMemory device_memory() {
  DeviceMemory memory{};
  check(hipMemGetInfo(&memory.free_bytes, &memory.total_bytes), "hipMemGetInfo");
  return memory;
}

// ---- Streams.

Stream::Stream() {
  hipStream_t stream = nullptr;
  check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "hipStreamCreateWithFlags");
  handle_ = stream;
}

Stream::~Stream() {
  if (handle_ != nullptr) static_cast<void>(hipStreamDestroy(handle_of(*this)));
}

void Stream::synchronize() {
  const hipError_t error = hipStreamSynchronize(handle_of(*this));
  if (error == hipSuccess) return;
  std::string text = std::string("the device failed: ") + hipGetErrorString(error);
  if (last_kernel_ != nullptr) {
    text += std::string("; the last kernel launched was ") + last_kernel_ +
            " (HIP_LAUNCH_BLOCKING=1, or CUDA_LAUNCH_BLOCKING=1, makes the failing launch report)";
  }
  throw DeviceError(text);
}

void Stream::wait(const Event& event) {
  check(hipStreamWaitEvent(handle_of(*this), handle_of(event), 0), "hipStreamWaitEvent");
}

// ---- Events.

Event::Event() {
  hipEvent_t event = nullptr;
  check(hipEventCreate(&event), "hipEventCreate");
  handle_ = event;
}

Event::~Event() {
  if (handle_ != nullptr) static_cast<void>(hipEventDestroy(handle_of(*this)));
}

void Event::record(Stream& stream) {
  check(hipEventRecord(handle_of(*this), handle_of(stream)), "hipEventRecord");
}

void Event::synchronize() const {
  check(hipEventSynchronize(handle_of(*this)), "hipEventSynchronize");
}

bool Event::done() const {
  const hipError_t error = hipEventQuery(handle_of(*this));
  if (error == hipErrorNotReady) return false;
  check(error, "hipEventQuery");
  return true;
}

// ---- Graphs.

Graph Graph::capture(Stream& stream, const std::function<void()>& work) {
  Recording recording(stream);
  work();
  return recording.finish();
}

Recording::Recording(Stream& stream) : stream_(stream), launches_before_(stream.launches()) {
  check(hipStreamBeginCapture(handle_of(stream), hipStreamCaptureModeThreadLocal),
        "hipStreamBeginCapture");
}

Recording::~Recording() {
  if (!open_) return;
  hipGraph_t graph = nullptr;
  if (hipStreamEndCapture(handle_of(stream_), &graph) == hipSuccess) {
    static_cast<void>(hipGraphDestroy(graph));
  }
  static_cast<void>(hipGetLastError());
}

Graph Recording::finish() {
  open_ = false;
  Graph result;
  hipGraph_t graph = nullptr;
  const hipError_t error = hipStreamEndCapture(handle_of(stream_), &graph);
  result.graph_ = graph;
  if (error != hipSuccess) static_cast<void>(hipGetLastError());
  check(error, "recording a graph of " + std::to_string(stream_.launches() - launches_before_) +
                   " kernels");
  hipGraphExec_t executable = nullptr;
  check(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0), "hipGraphInstantiate");
  result.executable_ = executable;
  return result;
}

Graph::~Graph() {
  if (executable_ != nullptr) {
    static_cast<void>(hipGraphExecDestroy(static_cast<hipGraphExec_t>(executable_)));
  }
  if (graph_ != nullptr) static_cast<void>(hipGraphDestroy(static_cast<hipGraph_t>(graph_)));
}

void Graph::launch(Stream& stream) {
  check(hipGraphLaunch(static_cast<hipGraphExec_t>(executable_), handle_of(stream)),
        "hipGraphLaunch");
  stream.count_launch("a recorded graph");
}

// ---- Memory.

namespace device_detail {
namespace {

size_t bytes_of(size_t n, size_t size, std::string_view purpose) {
  if (n > std::numeric_limits<size_t>::max() / 2 / size) {
    throw DeviceError("no memory holds " + std::to_string(n) + " values of " +
                      std::to_string(size) + " bytes for " + std::string(purpose));
  }
  return n * size;
}

std::string free_text() {
  size_t free_bytes = 0, total_bytes = 0;
  if (hipMemGetInfo(&free_bytes, &total_bytes) != hipSuccess) return "";
  return "; " + size_text(free_bytes) + " of " + size_text(total_bytes) + " are free";
}

void check_copy(hipError_t error, size_t bytes, const char* what) {
  if (error != hipSuccess) check(error, "copying " + size_text(bytes) + " " + what);
}

}  // namespace

void* allocate(size_t n, size_t size, std::string_view purpose) {
  const size_t bytes = bytes_of(n, size, purpose);
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  const hipError_t error = hipMalloc(&data, bytes);
  if (error == hipSuccess) return data;
  static_cast<void>(hipGetLastError());
  throw DeviceError("hipMalloc of " + size_text(bytes) + " for " + std::string(purpose) +
                    " failed: " + hipGetErrorString(error) + free_text());
}

void release(void* data) noexcept { static_cast<void>(hipFree(data)); }

void* allocate_pinned(size_t n, size_t size, std::string_view purpose) {
  const size_t bytes = bytes_of(n, size, purpose);
  if (bytes == 0) return nullptr;
  void* data = nullptr;
  const hipError_t error = hipHostMalloc(&data, bytes, hipHostMallocDefault);
  if (error == hipSuccess) return data;
  static_cast<void>(hipGetLastError());
  throw DeviceError("hipHostMalloc of " + size_text(bytes) + " for " + std::string(purpose) +
                    " failed: " + hipGetErrorString(error));
}

void release_pinned(void* data) noexcept {
  if (data != nullptr) static_cast<void>(hipHostFree(data));
}

void copy_to_device(void* to, const void* from, size_t bytes, Stream& stream) {
  check_copy(hipMemcpyAsync(to, from, bytes, hipMemcpyHostToDevice, handle_of(stream)), bytes,
             "to the device");
}
void copy_to_host(void* to, const void* from, size_t bytes, Stream& stream) {
  check_copy(hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToHost, handle_of(stream)), bytes,
             "from the device");
}
void copy_on_device(void* to, const void* from, size_t bytes, Stream& stream) {
  check_copy(hipMemcpyAsync(to, from, bytes, hipMemcpyDeviceToDevice, handle_of(stream)), bytes,
             "on the device");
}
void set_bytes(void* data, int value, size_t bytes, Stream& stream) {
  check(hipMemsetAsync(data, value, bytes, handle_of(stream)),
        "setting " + size_text(bytes) + " on the device");
}

void throw_launch_error(const LaunchShape& shape, hipError_t error) {
  static_cast<void>(hipGetLastError());  // it would be reported again by the next launch
  throw DeviceError(std::string("launching kernel ") + shape.name +
                    " failed: " + hipGetErrorString(error) + " (grid " + shape_text(shape.grid) +
                    ", block " + shape_text(shape.block) + ", " + size_text(shape.shared_bytes) +
                    " of dynamic shared memory)");
}

}  // namespace device_detail
}  // namespace greta
