#include <stdexcept>
#include <string>

#include "tests/kernels/gpu/attention_cases.h"

namespace greta {
namespace {

using namespace attention_test;

// Calls whose probabilities are finished later, all by one.
class GpuUnfinishedAttention : public GpuAttention {
 protected:
  struct Call {
    DeviceBuffer<float> q, k, v, out, scores, probs;
    DeviceBuffer<uint8_t> scratch;
    int64_t offset;  // of k, v, q and out, in values

    UnfinishedTrace unfinished() const { return {probs.data(), scratch.data()}; }
  };

  Call make_call(const Input& input, int64_t max_keys, int64_t offset) {
    const auto moved = [&](Values values) {
      values.insert(values.begin(), static_cast<size_t>(offset), kNan);
      return upload(values);
    };
    const Values untouched(trace_values(input.shape, 0), kUntouched);
    Call call{moved(input.q),
              moved(input.k),
              moved(input.v),
              moved(input.q),
              upload(untouched),
              upload(untouched),
              buffer<uint8_t>(attention_valu_scratch(input.shape, max_keys)),
              offset};
    set_bytes(call.scratch.data(), kAttentionCounters * sizeof(uint32_t), 0, stream_);
    return call;
  }
  void queue(const AttentionShape& shape, const int32_t* first_pos, int64_t max_keys, Call& call) {
    const int64_t offset = call.offset;
    attention_valu_unfinished(shape, first_pos, max_keys, call.q.data() + offset,
                              call.k.data() + offset, call.v.data() + offset,
                              call.out.data() + offset, {call.scores.data(), call.probs.data()},
                              call.scratch.data(), stream_);
  }
  Result result_of(const Call& call) {
    Values out = download(call.out);
    out.erase(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(call.offset));
    return {out, download(call.scores), download(call.probs)};
  }

  /// Three calls, the last one with arrays that no vector can be loaded from, are what each is when
  /// attention_valu finishes it.
  void expect_same_bits(const AttentionShape& shape, int64_t spare_keys, const std::string& what) {
    const int64_t max_keys = shape.first_pos + 1 + shape.mask_shift + spare_keys;
    const auto first_pos = upload(std::vector<int32_t>{static_cast<int32_t>(shape.first_pos)});
    std::vector<Input> inputs;
    std::vector<Call> calls;
    std::vector<UnfinishedTrace> unfinished;
    for (uint32_t i = 0; i < 3; ++i) {
      inputs.push_back(random_input(shape, 10 * i + 1));
      calls.push_back(make_call(inputs[i], max_keys, i == 2 ? 1 : 0));
      unfinished.push_back(calls[i].unfinished());
    }
    AttentionShape without_pos = shape;
    without_pos.first_pos = 0;  // what counts lies in memory
    for (Call& call : calls) queue(without_pos, first_pos.data(), max_keys, call);
    std::vector<Result> expected;
    for (size_t i = 0; i < calls.size(); ++i) {
      expected.push_back(run(Route::kValu, inputs[i], {.spare_keys = spare_keys}));
      const Result before = result_of(calls[i]);
      EXPECT_EQ(bits_of(before.out), bits_of(expected[i].out)) << what << ", call " << i;
      EXPECT_EQ(bits_of(before.scores), bits_of(expected[i].scores)) << what << ", call " << i;
      EXPECT_NE(bits_of(before.probs), bits_of(expected[i].probs)) << what << ", call " << i;
    }
    const int64_t launches = stream_.launches();
    finish_attention_valu(without_pos, first_pos.data(), max_keys, {}, unfinished, stream_);
    EXPECT_EQ(stream_.launches(), launches + 1) << what;
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_TRUE(result_of(calls[i]) == expected[i]) << what << ", call " << i;
    }
  }
};

TEST_F(GpuUnfinishedAttention, FinishedTogetherCallsHaveTheBitsOfAttentionValu) {
  for (const AttentionShape& shape :
       {shape_of(8, 2, 64, 1, 200), shape_of(4, 1, 128, 1, 130), shape_of(7, 1, 96, 1, 64),
        shape_of(9, 1, 40, 1, 63), shape_of(6, 3, 30, 1, 100), shape_of(3, 3, 80, 1, 191),
        shape_of(10, 2, 33, 1, 70), shape_of(5, 1, 256, 1, 70), shape_of(37, 1, 8, 1, 75),
        shape_of(2, 1, 8, 1, 2302)}) {  // whose splits are several short ones
    expect_same_bits(shape, 0,
                     std::to_string(shape.n_heads) + " heads of " + std::to_string(shape.head_dim));
  }
}

TEST_F(GpuUnfinishedAttention, RoomForMoreSplitsThanThereAreChangesNoBit) {
  for (int64_t first_pos : {0, 5, 63, 64, 127, 130}) {
    AttentionShape shape = shape_of(6, 2, 12, 1, first_pos);
    shape.cache_rows += 3000;
    for (int64_t spare : {1, 64, 2500}) {
      // One key's weight, the only one there is, is finished from the start.
      if (first_pos == 0) shape.subtract_max = false;
      expect_same_bits(shape, spare,
                       std::to_string(first_pos) + " and room for " + std::to_string(spare));
    }
  }
}

TEST_F(GpuUnfinishedAttention, FaultsMeanWhatTheyMeanToAttentionValu) {
  for (const Fault& fault : faults()) {
    for (int64_t first_pos : {64, 150}) {
      AttentionShape shape = shape_of(6, 2, 20, 1, first_pos);
      fault.inject(shape);
      // One key's weight, the only one there is, is finished from the start.
      if (shape.window != 1) expect_same_bits(shape, 0, fault.name);
    }
  }
}

TEST_F(GpuUnfinishedAttention, AnyNumberOfCallsIsFinished) {
  constexpr size_t kCalls = 130;
  const Input input = random_input(shape_of(2, 1, 4, 1, 70));
  const Result expected = run(Route::kValu, input, {});
  const auto first_pos = upload(std::vector<int32_t>{70});
  std::vector<Call> calls;
  std::vector<UnfinishedTrace> unfinished;
  for (size_t i = 0; i < kCalls; ++i) {
    calls.push_back(make_call(input, 71, 0));
    queue(input.shape, first_pos.data(), 71, calls[i]);
    unfinished.push_back(calls[i].unfinished());
  }
  unfinished[1].probs = nullptr;
  const int64_t before = stream_.launches();
  finish_attention_valu(input.shape, first_pos.data(), 71, {}, unfinished, stream_);
  EXPECT_EQ(stream_.launches(), before + 3);
  for (size_t i = 0; i < kCalls; ++i) {
    EXPECT_EQ(result_of(calls[i]) == expected, i != 1) << i;
  }
}

TEST_F(GpuUnfinishedAttention, NoCallsDoNothing) {
  const int64_t before = stream_.launches();
  finish_attention_valu(shape_of(4, 2, 8, 1, 5), nullptr, 10, {}, {}, stream_);
  EXPECT_EQ(stream_.launches(), before);
}

TEST_F(GpuUnfinishedAttention, SeveralTokensAreRefused) {
  for (int64_t n_tokens : {0, 2}) {
    const AttentionShape shape = shape_of(4, 2, 8, n_tokens, 5);
    const int64_t before = stream_.launches();
    EXPECT_THROW(attention_valu_unfinished(shape, nullptr, 10, nullptr, nullptr, nullptr, nullptr,
                                           {}, nullptr, stream_),
                 std::invalid_argument);
    EXPECT_THROW(finish_attention_valu(shape, nullptr, 10, {}, {}, stream_), std::invalid_argument);
    EXPECT_EQ(stream_.launches(), before);
  }
}

}  // namespace
}  // namespace greta
