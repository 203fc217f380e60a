#include <string>

#include "tests/kernels/gpu/function_kernels.h"
#include "tests/kernels/gpu/gpu_test.h"

namespace greta {
namespace {

class Device : public GpuTest {
 protected:
  template <class Call>
  static std::string error_of(Call call) {
    try {
      call();
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Device, IsDescribed) {
  const DeviceInfo info = device_info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_FALSE(info.architecture.empty());
  EXPECT_TRUE(info.wave_lanes == 32 || info.wave_lanes == 64);
  EXPECT_GE(info.n_processors, 1);
  EXPECT_GE(info.shared_bytes, size_t{64} << 10);
  const DeviceMemory memory = device_memory();
  EXPECT_LE(memory.free_bytes, memory.total_bytes);
  EXPECT_LE(memory.total_bytes, info.memory_bytes);
}

TEST_F(Device, CopiesGoThereAndBack) {
  const std::vector<float> values = bell_values(1, 1000);
  const auto there = upload(values);
  DeviceBuffer<float> other(1000);
  copy_on_device(there.data(), 1000, other.data(), stream_);
  EXPECT_EQ(download(other), values);
}

TEST_F(Device, BuffersMoveAndEmptyOnesHoldNothing) {
  DeviceBuffer<float> none;
  EXPECT_EQ(none.size(), 0u);
  DeviceBuffer<float> empty(0);
  EXPECT_EQ(empty.data(), nullptr);
  auto a = upload(std::vector<float>{1, 2, 3});
  const float* data = a.data();
  DeviceBuffer<float> b = std::move(a);
  EXPECT_EQ(b.data(), data);
  none = std::move(b);
  EXPECT_EQ(download(none), (std::vector<float>{1, 2, 3}));
}

TEST_F(Device, PinnedMemoryIsCopiedInOrder) {
  PinnedBuffer<float> staging(4);
  for (size_t i = 0; i < 4; ++i) staging[i] = static_cast<float>(i);
  DeviceBuffer<float> there(4);
  PinnedBuffer<float> back(4);
  copy_to_device<float>(staging.span(), there.data(), stream_);
  copy_to_host<float>(there.data(), back.span(), stream_);
  stream_.synchronize();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(back[i], static_cast<float>(i));
}

TEST_F(Device, OutOfMemoryNamesPurposeSizeAndWhatIsFree) {
  const size_t n = device_memory().total_bytes;
  const std::string error = error_of([&] { DeviceBuffer<double> buffer(n, "the KV cache"); });
  EXPECT_NE(error.find("hipMalloc of "), std::string::npos) << error;
  EXPECT_NE(error.find("for the KV cache failed: out of memory; "), std::string::npos) << error;
  EXPECT_NE(error.find(" are free"), std::string::npos) << error;
  // And the device goes on.
  EXPECT_EQ(download(upload(std::vector<int>{7})), std::vector<int>{7});
}

TEST_F(Device, SizesBeyondTheAddressSpaceAreRefused) {
  const std::string error =
      error_of([] { DeviceBuffer<double> buffer(SIZE_MAX / 4, "activations"); });
  EXPECT_NE(error.find("activations"), std::string::npos) << error;
}

TEST_F(Device, AnImpossibleLaunchNamesKernelAndShape) {
  const std::string threads = error_of([&] { launch_shape(4096, 0, stream_); });
  EXPECT_NE(threads.find("launching kernel nothing failed: "), std::string::npos) << threads;
  EXPECT_NE(threads.find("(grid 1, block 4096, 0 bytes of dynamic shared memory)"),
            std::string::npos)
      << threads;
  const std::string shared = error_of([&] { launch_shape(64, size_t{1} << 20, stream_); });
  EXPECT_NE(shared.find("1 MiB of dynamic shared memory"), std::string::npos) << shared;
  launch_shape(64, 1024, stream_);  // the error is not reported again
  stream_.synchronize();
}

TEST_F(Device, SharedMemoryUpToTheLimitIsGranted) {
  launch_shape(64, device_info().shared_bytes, stream_);
  stream_.synchronize();
}

TEST_F(Device, StreamsWaitForEvents) {
  Stream other;
  Event ready, never;
  EXPECT_TRUE(never.done());
  auto x = upload(std::vector<float>(1000, 1.0f));
  const auto delta = upload(std::vector<float>{2.0f});
  add_from_memory(delta.data(), 1000, x.data(), stream_);
  ready.record(stream_);
  other.wait(ready);
  add_from_memory(delta.data(), 1000, x.data(), other);
  other.synchronize();
  EXPECT_TRUE(ready.done());
  EXPECT_EQ(download(x), std::vector<float>(1000, 5.0f));
}

TEST_F(Device, GraphRunsOnlyWhenLaunchedAndReadsMemoryAnew) {
  auto x = upload(std::vector<float>(300, 1.0f));
  auto delta = upload(std::vector<float>{10.0f});
  const int64_t before = stream_.launches();
  Graph graph = Graph::capture(stream_, [&] {
    add_from_memory(delta.data(), 300, x.data(), stream_);
    add_from_memory(delta.data(), 300, x.data(), stream_);
  });
  EXPECT_EQ(stream_.launches(), before + 2);
  EXPECT_EQ(download(x), std::vector<float>(300, 1.0f));
  graph.launch(stream_);
  EXPECT_EQ(download(x), std::vector<float>(300, 21.0f));
  copy_to_device<float>(std::vector<float>{100.0f}, delta.data(), stream_);
  graph.launch(stream_);
  graph.launch(stream_);
  EXPECT_EQ(download(x), std::vector<float>(300, 421.0f));
}

TEST_F(Device, GraphKeepsTheArgumentsItWasRecordedWith) {
  auto x = upload(std::vector<float>(10, 0.0f));
  auto y = upload(std::vector<float>(10, 0.0f));
  const auto delta = upload(std::vector<float>{1.0f});
  float* target = x.data();
  int64_t n = 10;
  Graph graph = Graph::capture(stream_, [&] { add_from_memory(delta.data(), n, target, stream_); });
  target = y.data();
  n = 0;
  graph.launch(stream_);
  EXPECT_EQ(download(x), std::vector<float>(10, 1.0f));
  EXPECT_EQ(download(y), std::vector<float>(10, 0.0f));
}

TEST_F(Device, RecordingRefusesToWaitAndTheStreamRecovers) {
  const std::string error =
      error_of([&] { Graph::capture(stream_, [&] { stream_.synchronize(); }); });
  EXPECT_FALSE(error.empty());
  const auto throwing = [&] {
    Graph::capture(stream_, [&] {
      launch_shape(64, 0, stream_);
      throw DeviceError("the work's own");
    });
  };
  EXPECT_EQ(error_of(throwing), "the work's own");
  EXPECT_EQ(download(upload(std::vector<int>{3})), std::vector<int>{3});
}

}  // namespace
}  // namespace greta
