#include "engine/hip/recorder.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/gpu/elementwise.h"

namespace greta {
namespace {

/// Batches whose pieces of work each add a number to one value on the device.
class BatchRecorderTest : public testing::Test {
 protected:
  BatchRecorderTest() : value_(1, "test data"), addends_(kMost, "test data") {
    std::vector<float> numbers(kMost);
    std::iota(numbers.begin(), numbers.end(), 0.0f);
    copy_to_device<float>(numbers, addends_.data(), stream_);
  }

  void op(int number) {
    recorder_.op(static_cast<uint64_t>(number), [this, number] {
      ++queued_;
      add(value_.data(), addends_.data() + number, 1, value_.data(), stream_);
    });
  }
  /// What the batch adds up to, and how many pieces of its work were queued one by one.
  struct Done {
    float sum;
    int queued;
    bool operator==(const Done&) const = default;
  };
  Done batch(const std::vector<int>& numbers) {
    start();
    for (int number : numbers) op(number);
    recorder_.end();
    return done();
  }
  void start() {
    fill(value_.data(), 1, 0, stream_);
    queued_ = prepared_ = 0;
    recorder_.begin();
  }
  Done done() {
    float sum = 0;
    copy_to_host<float>(value_.data(), {&sum, 1}, stream_);
    stream_.synchronize();
    EXPECT_EQ(prepared_, 1) << "before_launch is called once per batch";
    return {sum, queued_};
  }

  static constexpr size_t kMost = 64;
  Stream stream_;
  int queued_ = 0, prepared_ = 0;
  BatchRecorder recorder_{stream_, [this] { ++prepared_; }};
  DeviceBuffer<float> value_, addends_;
};

TEST_F(BatchRecorderTest, FirstBatchIsDirectTheSecondRecordedTheThirdReplayed) {
  EXPECT_EQ(batch({1, 2, 3}), (Done{6, 3}));
  EXPECT_EQ(recorder_.replays(), 0);
  EXPECT_EQ(batch({1, 2, 3}), (Done{6, 3}));
  EXPECT_EQ(batch({1, 2, 3}), (Done{6, 0}));
  EXPECT_EQ(batch({1, 2, 3}), (Done{6, 0}));
  EXPECT_EQ(recorder_.replays(), 3);
}

TEST_F(BatchRecorderTest, AnotherBatchIsDoneInFullWhereverItParts) {
  for (const std::vector<int>& other :
       {std::vector<int>{9}, {9, 2, 3}, {1, 9, 3}, {1, 2, 9}, {1, 2}, {1, 2, 3, 9}, {}}) {
    batch({1, 2, 3});
    batch({1, 2, 3});
    const float sum = static_cast<float>(std::accumulate(other.begin(), other.end(), 0));
    EXPECT_EQ(batch(other), (Done{sum, static_cast<int>(other.size())}));
  }
}

TEST_F(BatchRecorderTest, TwoKindsOfBatchesAreBothReplayed) {
  for (int i = 0; i < 2; ++i) batch({1, 2, 3, 4});
  for (int i = 0; i < 2; ++i) batch({1, 2, 7});
  EXPECT_EQ(batch({1, 2, 3, 4}), (Done{10, 0}));
  EXPECT_EQ(batch({1, 2, 7}), (Done{10, 0}));
  EXPECT_EQ(batch({1, 2, 3, 4}), (Done{10, 0}));
}

TEST_F(BatchRecorderTest, WaitingInTheMiddleDoesTheRestDirectly) {
  for (int i = 0; i < 3; ++i) {
    start();
    op(1);
    recorder_.go_direct();
    EXPECT_TRUE(recorder_.is_direct());
    op(2);
    recorder_.end();
    EXPECT_EQ(done(), (Done{3, i == 0 ? 2 : queued_}));
  }
}

TEST_F(BatchRecorderTest, ForgettingInTheMiddleLosesNoWork) {
  batch({1, 2, 3});
  batch({1, 2, 3});
  start();
  op(1);
  op(2);
  recorder_.forget();
  op(3);
  recorder_.end();
  EXPECT_EQ(done().sum, 6);
  EXPECT_EQ(batch({1, 2, 3}).sum, 6);
}

TEST_F(BatchRecorderTest, DroppedBatchLeavesTheStreamUsable) {
  batch({1, 2, 3});
  start();  // recording
  op(1);
  recorder_.drop();
  EXPECT_EQ(batch({1, 2, 3}).sum, 6);
  EXPECT_EQ(batch({1, 2, 3}).sum, 6);
}

TEST_F(BatchRecorderTest, ManyKindsOfBatchesAreAllRight) {
  for (int round = 0; round < 3; ++round) {
    for (int kind = 0; kind < 12; ++kind) {
      for (int i = 0; i < 3; ++i) {
        ASSERT_EQ(batch({1, kind, 2}).sum, static_cast<float>(kind + 3));
      }
    }
  }
}

}  // namespace
}  // namespace greta
