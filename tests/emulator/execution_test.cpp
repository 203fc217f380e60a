#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/gpu/device.h"
#include "kernels/gpu/runtime.h"
#include "kernels/gpu/wave.h"
#include "tests/emulator/emulator.h"

// What the emulator does with kernels that keep the rules, and with those that do not.

namespace greta {
namespace {

class Emulator : public testing::Test {
 protected:
  ~Emulator() override { emulator::set_schedule_seed(0); }

  template <class T>
  std::vector<T> download(const DeviceBuffer<T>& buffer) {
    std::vector<T> values(buffer.size());
    copy_to_host<T>(buffer.data(), values, stream_);
    return values;
  }

  /// What the kernel is accused of; empty when it is not.
  std::string error_of(const std::function<void()>& work) {
    work();
    try {
      stream_.synchronize();
    } catch (const emulator::KernelError& error) {
      return error.what();
    }
    return "";
  }

  Stream stream_;
};

// ---- Threads, blocks and grids.

// ---- Shared memory and barriers.

__global__ void reverse_kernel(int* out, bool with_barrier) {
  GRETA_SHARED(int, values, [256]);
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (with_barrier) __syncthreads();
  out[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

TEST_F(Emulator, BarrierMakesWritesVisibleInEveryOrder) {
  for (uint64_t seed : {0, 1, 2, 3}) {
    emulator::set_schedule_seed(seed);
    DeviceBuffer<int> out(256);
    launch({"reverse", 1, 256}, stream_, reverse_kernel, out.data(), true);
    const std::vector<int> got = download(out);
    for (int t = 0; t < 256; ++t) ASSERT_EQ(got[static_cast<size_t>(t)], 255 - t);
  }
}

TEST_F(Emulator, MissingBarrierShowsAsPoison) {
  DeviceBuffer<int> out(256);
  launch({"reverse", 1, 256}, stream_, reverse_kernel, out.data(), false);
  const std::vector<int> got = download(out);
  EXPECT_EQ(std::count(got.begin(), got.end(), -1), 128);
}

__global__ void neighbour_kernel(int* out) {
  GRETA_SHARED(int, values, [64]);
  values[threadIdx.x] = static_cast<int>(threadIdx.x);
  // A barrier is missing, and ascending order hides it.
  out[threadIdx.x] = threadIdx.x == 0 ? 0 : values[threadIdx.x - 1];
}

TEST_F(Emulator, ShuffledOrderExposesWhatAscendingOrderHides) {
  const auto run = [&](uint64_t seed) {
    emulator::set_schedule_seed(seed);
    DeviceBuffer<int> out(64);
    launch({"neighbour", 1, 64}, stream_, neighbour_kernel, out.data());
    return download(out);
  };
  const std::vector<int> ascending = run(0);
  EXPECT_EQ(std::count(ascending.begin(), ascending.end(), -1), 0);
  const std::vector<int> shuffled = run(5);
  EXPECT_GT(std::count(shuffled.begin(), shuffled.end(), -1), 0);
}

__global__ void shared_start_kernel(uint32_t* out) {
  GRETA_SHARED(uint32_t, fixed, [4]);
  GRETA_DYNAMIC_SHARED(uint32_t, dynamic);
  if (threadIdx.x != 0) return;
  out[2 * blockIdx.x] = fixed[3];
  out[2 * blockIdx.x + 1] = dynamic[3];
  for (int i = 0; i < 4; ++i) fixed[i] = dynamic[i] = 7;
}

TEST_F(Emulator, SharedMemoryOfABlockStartsAsPoison) {
  DeviceBuffer<uint32_t> out(10);
  launch({"shared_start", 5, 32, 16}, stream_, shared_start_kernel, out.data());
  EXPECT_EQ(download(out), std::vector<uint32_t>(10, 0xffffffffu));
}

template <int kBytes>
__global__ void large_kernel() {
  GRETA_SHARED(char, large, [kBytes]);
  large[threadIdx.x] = 0;
}

__global__ void some_leave_kernel() {
  if (threadIdx.x == 70) return;
  __syncthreads();
}
__global__ void two_barriers_kernel() {
  if (threadIdx.x < 64) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_F(Emulator, BarrierThatSomeDoNotReachIsAnError) {
  const std::string error = error_of([&] {
    launch({"some_leave", 3, 128}, stream_, some_leave_kernel);
  });
  EXPECT_NE(error.find("kernel some_leave, block (0,0,0), thread 0"), std::string::npos) << error;
  EXPECT_NE(error.find("__syncthreads at "), std::string::npos) << error;
  EXPECT_NE(error.find("execution_test.cpp:"), std::string::npos) << error;
  EXPECT_NE(error.find("1 of 128 threads have ended, thread 70"), std::string::npos) << error;
  // The machine is usable afterwards.
  EXPECT_EQ(error_of([&] { launch({"large", 1, 64}, stream_, large_kernel<64>); }), "");
}

TEST_F(Emulator, BarriersAtDifferentPlacesAreAnError) {
  const std::string error = error_of([&] {
    launch({"two_barriers", 1, 128}, stream_, two_barriers_kernel);
  });
  EXPECT_NE(error.find("while thread 64"), std::string::npos) << error;
}

// ---- Wavefronts.

__global__ void shuffles_kernel(int* out) {
  const int t = static_cast<int>(threadIdx.x);
  out[4 * t] = __shfl(t, 3);
  out[4 * t + 1] = __shfl(t, t + 1);  // wraps round
  out[4 * t + 2] = __shfl_xor(t, 1);
  out[4 * t + 3] = __shfl_down(t, 4u);
}

// Wavefronts may take different ways, lanes may not.
__global__ void by_wave_kernel(int* out) {
  const int wave = static_cast<int>(threadIdx.x) / GRETA_EMULATED_WAVE;
  int sum = 0;
  for (int i = 0; i < wave; ++i) sum += __shfl_xor(1, 1);
  __syncthreads();
  out[threadIdx.x] = sum;
}
__global__ void by_lane_kernel(int* out) {
  if (threadIdx.x % 2 == 0) out[threadIdx.x] = __shfl_xor(1, 2);
}
__global__ void lanes_apart_kernel(int* out) {
  out[threadIdx.x] = threadIdx.x % 2 == 0 ? __shfl_xor(1, 2) : __shfl_down(1, 2u);
}
__global__ void lane_at_barrier_kernel(int* out) {
  if (threadIdx.x == 5) __syncthreads();
  out[threadIdx.x] = __shfl(1, 0);
}

TEST_F(Emulator, WavefrontsMayDivergeFromEachOther) {
  DeviceBuffer<int> out(256);
  EXPECT_EQ(error_of([&] {
              launch({"by_wave", 1, 256}, stream_, by_wave_kernel, out.data());
            }),
            "");
  const std::vector<int> got = download(out);
  for (int t = 0; t < 256; ++t) {
    EXPECT_EQ(got[static_cast<size_t>(t)], t / GRETA_EMULATED_WAVE);
  }
}

TEST_F(Emulator, LanesMustNotDiverge) {
  DeviceBuffer<int> out(128);
  const std::string half = error_of([&] {
    launch({"by_lane", 1, 128}, stream_, by_lane_kernel, out.data());
  });
  EXPECT_NE(half.find("__shfl_xor at "), std::string::npos) << half;
  EXPECT_NE(half.find("thread 1 (wave 0, lane 1) has ended"), std::string::npos) << half;

  const std::string apart = error_of([&] {
    launch({"lanes_apart", 1, 128}, stream_, lanes_apart_kernel, out.data());
  });
  EXPECT_NE(apart.find("is in __shfl_down at "), std::string::npos) << apart;

  const std::string barrier = error_of([&] {
    launch({"lane_at_barrier", 1, 64}, stream_, lane_at_barrier_kernel, out.data());
  });
  EXPECT_NE(barrier.find("lane 5) waits in __syncthreads"), std::string::npos) << barrier;
}

TEST_F(Emulator, IncompleteWavefrontsCannotWorkTogether) {
  DeviceBuffer<int> out(4 * 64);
  const std::string error = error_of([&] {
    launch({"shuffles", 1, 33}, stream_, shuffles_kernel, out.data());
  });
  EXPECT_NE(error.find("the wavefront is incomplete"), std::string::npos) << error;
}

// ---- Streams: nothing happens before something waits.

__global__ void write_kernel(int* out, int value) { *out = value; }

TEST_F(Emulator, PinnedSourceChangedTooEarlyIsSeen) {
  PinnedBuffer<int> host(1);
  DeviceBuffer<int> device(1);
  host[0] = 1;
  copy_to_device<int>(host.span(), device.data(), stream_);
  host[0] = 2;
  EXPECT_EQ(download(device), std::vector<int>{2});
}

TEST_F(Emulator, CopiesOutsideAnAllocationAreRefused) {
  DeviceBuffer<int> device(4);
  std::vector<int> host(5);
  EXPECT_THROW(copy_to_device<int>(host, device.data(), stream_), DeviceError);
  EXPECT_THROW(copy_to_host<int>(host.data(), host, stream_), DeviceError);
  EXPECT_THROW(set_bytes(device.data() + 1, 4, 0, stream_), DeviceError);
}

TEST_F(Emulator, FreshMemoryIsPoison) {
  DeviceBuffer<float> device(3);
  for (float value : download(device)) EXPECT_TRUE(std::isnan(value));
}

#if defined(__SANITIZE_ADDRESS__)
__global__ void beyond_kernel(int* data, int i) { data[i] = 1; }
__global__ void beyond_shared_kernel(int i) {
  GRETA_SHARED(int, values, [16]);
  values[i] = 1;
}

TEST_F(Emulator, AddressSanitizerSeesAccessesBeyondAnAllocation) {
  DeviceBuffer<int> device(5);
  const auto run = [&](int i) {
    launch({"beyond", 1, 1}, stream_, beyond_kernel, device.data(), i);
    stream_.synchronize();
  };
  run(4);
  EXPECT_DEATH(run(5), "heap-buffer-overflow");
  const auto run_shared = [&](int i) {
    launch({"beyond_shared", 1, 1}, stream_, beyond_shared_kernel, i);
    stream_.synchronize();
  };
  run_shared(15);
  EXPECT_DEATH(run_shared(16), "heap-buffer-overflow|out of bounds");  // UBSan knows the array too
}
#endif

TEST_F(Emulator, FailureOfAKernelIsReportedByTheNextWait) {
  {
    Stream other;
    launch({"some_leave", 1, 128}, other, some_leave_kernel);
    // `other` is destroyed, and destructors do not throw.
  }
  EXPECT_THROW(stream_.synchronize(), emulator::KernelError);
  stream_.synchronize();
}

TEST_F(Emulator, WorkAfterAFailureIsDropped) {
  DeviceBuffer<int> device(1);
  set_bytes(device.data(), 1, 0, stream_);
  launch({"some_leave", 1, 128}, stream_, some_leave_kernel);
  launch({"write", 1, 1}, stream_, write_kernel, device.data(), 5);
  EXPECT_THROW(stream_.synchronize(), emulator::KernelError);
  EXPECT_EQ(download(device), std::vector<int>{0});
}

}  // namespace
}  // namespace greta
