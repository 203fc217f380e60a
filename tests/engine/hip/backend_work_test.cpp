#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "engine/hip/backend.h"
#include "engine/hip/op_queue.h"
#include "engine/probe/generate.h"
#include "engine/record/run_queue.h"
#include "kernels/cpu/quantise.h"
#include "kernels/gpu/device.h"
#include "kernels/gpu/elementwise.h"
#include "tests/engine/engine_fixture.h"
#include "tests/engine/forward/tampered_backend.h"
#include "tests/engine/probe/probe_fixture.h"

// How the GPU backend works: uploads, batches that are replayed, rows that are queued, tokens asked
// for ahead, and a device without memory.

#if defined(GRETA_TEST_ON_EMULATOR)
#include "tests/emulator/emulator.h"
#endif

namespace greta {
namespace {

/// Stored weights of which no two pieces are alike.
std::vector<std::byte> any_weights(WeightType type, int64_t rows, int64_t cols) {
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>((i * 7919 + i / 4099) % 65'521) / 4096;
  }
  std::vector<std::byte> stored(Matrix{type, nullptr, rows, cols}.bytes());
  quantise(type, values, stored);
  return stored;
}

TEST(HipBackendWork, WeightsOfManyPiecesArriveWholeAndInTheirPlaces) {
  constexpr int64_t kCols = 1024;
  // More pieces of 2 MiB than there are slots for; what ends with a piece, and what is less than
  // one.
  const std::vector<std::pair<WeightType, int64_t>> shapes = {
      {WeightType::kF32, 3},   {WeightType::kF32, 20'001}, {WeightType::kQ8_0, 2500},
      {WeightType::kF32, 512}, {WeightType::kQ4_K, 4000},  {WeightType::kF32, 1025}};
  std::vector<std::vector<std::byte>> stored;
  std::vector<Matrix> host;
  int64_t size_bytes = 0;
  for (const auto& [type, rows] : shapes) {
    stored.push_back(any_weights(type, rows, kCols));
    host.push_back({type, stored.back().data(), rows, kCols});
    size_bytes += static_cast<int64_t>(host.back().bytes());
  }
  const std::unique_ptr<Backend> gpu = make_hip_backend();
  int64_t told = 0;
  const std::vector<Matrix> uploaded = gpu->upload(host, [&](int64_t done, int64_t all) {
    EXPECT_GT(done, told);
    EXPECT_EQ(all, size_bytes);
    told = done;
  });
  EXPECT_EQ(told, size_bytes);
  ASSERT_EQ(uploaded.size(), host.size());
  for (size_t i = 0; i < host.size(); ++i) {
    const auto& [type, rows] = shapes[i];
    if (type == WeightType::kF32) {
      std::vector<float> values(static_cast<size_t>(rows * kCols));
      gpu->read(reinterpret_cast<const float*>(uploaded[i].data), rows * kCols, values.data());
      EXPECT_EQ(std::memcmp(values.data(), stored[i].data(), stored[i].size()), 0) << i;
      continue;
    }
    const std::vector<int32_t> ids = {0, 1, static_cast<int32_t>(rows / 2),
                                      static_cast<int32_t>(rows - 1)};
    const auto n = static_cast<int64_t>(ids.size()) * kCols;
    const Buffer out = gpu->allocate(n);
    const Stretch stretch{.n_tokens = std::ssize(ids)};
    gpu->begin_batch(ids, {&stretch, 1});
    gpu->embed(uploaded[i], 0, out.get());
    gpu->end_batch();
    std::vector<float> values(static_cast<size_t>(n)), expected(kCols);
    gpu->read(out.get(), n, values.data());
    for (size_t k = 0; k < ids.size(); ++k) {
      const size_t row_bytes = stored[i].size() / static_cast<size_t>(rows);
      dequantise(type,
                 std::span(stored[i]).subspan(row_bytes * static_cast<size_t>(ids[k]), row_bytes),
                 expected);
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(),
                             values.begin() + static_cast<std::ptrdiff_t>(k) * kCols))
          << i << " " << k;
    }
  }
}

TEST(HipBackendWork, AnUploadThatIsStoppedLeavesTheBackendUsable) {
  const std::vector<std::byte> stored = any_weights(WeightType::kF32, 20'000, 1024);
  const Matrix host{WeightType::kF32, stored.data(), 20'000, 1024};
  const std::unique_ptr<Backend> gpu = make_hip_backend();
  const auto stop = [](int64_t done, int64_t all) {
    if (2 * done > all) throw std::runtime_error("stopped");
  };
  EXPECT_THROW(gpu->upload({&host, 1}, stop), std::runtime_error);
  const Matrix uploaded = gpu->upload({&host, 1}, {}).front();
  std::vector<float> values(20'000 * 1024);
  gpu->read(reinterpret_cast<const float*>(uploaded.data), std::ssize(values), values.data());
  EXPECT_EQ(std::memcmp(values.data(), stored.data(), stored.size()), 0);
}

/// A traced generation: prefill, then one token after the other.
std::vector<MemorySink> decode_steps(const TestEngine& engine, std::span<const int32_t> tokens) {
  KvCache cache(engine.model.config(), 64, *engine.backend);
  Forward forward(engine.model, engine.weights, *engine.backend, cache,
                  engine.options(Mode::kAsDesigned));
  TraceSelection selection;
  selection.phases = {Phase::kDecode};
  selection.sample_values = 3;
  Tracer tracer(selection, *engine.backend);
  forward.run({.tokens = tokens.first(2)}, nullptr);
  std::vector<MemorySink> steps;
  for (size_t i = 2; i < tokens.size(); ++i) {
    const auto pos = static_cast<int64_t>(i);
    tracer.begin(tokens.subspan(i, 1), pos, Phase::kDecode, {}, pos);
    forward.run({.tokens = tokens.subspan(i, 1), .first_pos = pos, .decode = true}, &tracer);
    if (i > 2) steps.emplace_back().rows(0, tracer.take());  // of the token before
  }
  steps.emplace_back().rows(0, tracer.take());
  return steps;
}

TEST(HipBackendWork, ReplayedTokensAreTracedAfresh) {
  const TestModel model(tiny_shape(), "f16");
  const std::vector<int32_t> tokens(40, 7);  // the same token: only positions tell them apart
  const TestEngine replaying(model, make_hip_backend());
  const std::vector<MemorySink> replayed = decode_steps(replaying, tokens);
  EXPECT_GT(replaying.backend->replays(), 25);

  // Waiting after every operation keeps a batch from being recorded.
  auto tampered = std::make_unique<TamperedBackend>(make_hip_backend());
  TamperedBackend* const direct = tampered.get();
  direct->tamper = [&](std::string_view, float*, int64_t, const std::function<void()>& compute) {
    compute();
    direct->synchronize();
  };
  const TestEngine one_by_one(model, std::move(tampered));
  const std::vector<MemorySink> uncaptured = decode_steps(one_by_one, tokens);
  EXPECT_EQ(direct->replays(), 0);

  ASSERT_EQ(replayed.size(), uncaptured.size());
  for (size_t i = 0; i < replayed.size(); ++i) {
    const auto rows = replayed[i].of(Phase::kDecode), same = uncaptured[i].of(Phase::kDecode);
    ASSERT_EQ(rows.size(), same.size());
    for (const auto& [key, row] : rows) {
      EXPECT_TRUE(same_bits(row->fingerprint, same.at(key)->fingerprint))
          << row_name(key) << " of step " << i;
      EXPECT_EQ(row->sample.size(), std::min<size_t>(3, row->fingerprint.n));
      EXPECT_EQ(row->sample, same.at(key)->sample);
      EXPECT_EQ(row->pos_id, static_cast<int64_t>(i) + 2);
    }
    if (i == 0) continue;
    const auto before = replayed[i - 1].of(Phase::kDecode);
    for (const auto& [key, row] : rows) {
      const bool constant = key.first == TracePoint::kEmbdWHash ||
                            key.first == TracePoint::kEmbedOut ||
                            key.first == TracePoint::kRmsWeight;
      // What comes before RoPE and attention in layer 0 does not know the position.
      const bool knows_position =
          key.second != 0 || (key.first > TracePoint::kVProj && key.first != TracePoint::kVCache);
      // One value, which two positions can share.
      const bool single = key.first == TracePoint::kLogitsTop1;
      if (constant || !knows_position || single) continue;
      EXPECT_FALSE(same_bits(row->fingerprint, before.at(key)->fingerprint))
          << row_name(key) << " of steps " << i - 1 << " and " << i;
    }
  }
}

TEST(HipBackendWork, RowsOfAnyLengthAreFingerprintedAsTheyWereWhenQueued) {
  const auto backend = make_hip_backend();
  const std::array<int32_t, 2> tokens{1, 2};
  const Buffer few = backend->allocate(5), many = backend->allocate(70'000);
  const RowRef small{few.get(), 5}, large{many.get(), 70'000};
  const auto fill = [&](const RowRef& row, float value) {
    backend->fill(const_cast<float*>(row.data), row.n, value);
  };
  fill(small, 1);
  fill(large, 2);
  const Stretch stretch{.n_tokens = 2};
  backend->begin_batch(tokens, {&stretch, 1});
  backend->queue_fingerprints(std::array{small}, 3);
  fill(small, 3);
  backend->queue_fingerprints(std::array{large, small}, 3);
  fill(large, 4);
  fill(small, 5);
  backend->queue_fingerprints(std::array{small}, 3);
  fill(small, 6);
  backend->end_batch();
  const std::vector<FingerprintedRow> rows = backend->fetch_fingerprints();
  ASSERT_EQ(rows.size(), 4u);
  const std::array<std::pair<size_t, float>, 4> expected{{{5, 1}, {70'000, 2}, {5, 3}, {5, 5}}};
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto [n, value] = expected[i];
    EXPECT_TRUE(same_bits(rows[i].fingerprint, fingerprint(std::vector<float>(n, value)))) << i;
    EXPECT_EQ(rows[i].sample, std::vector<float>(3, value)) << i;
  }
}

/// A generation, its tokens and its trace.
struct Generation {
  std::vector<int32_t> tokens;
  GenerateResult result;
  MemorySink sink;
};
Generation generate(const TestModel& model, bool ahead, int64_t capacity, int32_t end_token,
                    bool traced) {
  auto backend = std::make_unique<TamperedBackend>(make_hip_backend());
  backend->may_run_ahead = ahead;
  const TestEngine engine(model, std::move(backend));
  GenerateOptions options{.forward = engine.options(Mode::kAsDesigned),
                          .sampler = {},
                          .selection = {},
                          .max_tokens = 12};
  options.selection.phases = {Phase::kPrefillLast, Phase::kDecode0, Phase::kDecode};
  Generator generator(engine.model, engine.weights, *engine.backend, capacity, options);
  Generation made;
  generator.on_token = [&](int32_t token) { made.tokens.push_back(token); };
  generator.ends = [&](int32_t token) { return token == end_token; };
  made.result = generator.run(model.tokens(5), traced ? &made.sink : nullptr);
  return made;
}

TEST(HipBackendWork, AskingForTheNextTokenBeforeThisOneIsKnownChangesNothing) {
  const TestModel model(tiny_shape(), "f16", 3);
  const std::vector<int32_t> usual = generate(model, false, 40, -1, false).tokens;
  ASSERT_EQ(usual.size(), 12u);
  const int32_t sixth = usual[5];
  const auto first =
      static_cast<size_t>(std::find(usual.begin(), usual.end(), sixth) - usual.begin());
  for (const bool traced : {false, true}) {
    for (const auto& [capacity, end_token, n_tokens] :
         {std::tuple<int64_t, int32_t, size_t>{40, -1, 12}, {40, sixth, first}, {9, -1, 5}}) {
      const Generation plain = generate(model, false, capacity, end_token, traced);
      const Generation ahead = generate(model, true, capacity, end_token, traced);
      EXPECT_EQ(ahead.tokens.size(), n_tokens);
      EXPECT_EQ(ahead.tokens, plain.tokens);
      EXPECT_EQ(ahead.result.stop, plain.result.stop);
      EXPECT_EQ(ahead.result.n_decoded, plain.result.n_decoded);
      ASSERT_EQ(ahead.sink.records.size(), plain.sink.records.size());
      EXPECT_EQ(plain.sink.records.empty(), !traced);
      for (size_t i = 0; i < plain.sink.records.size(); ++i) {
        const TraceRecord &a = ahead.sink.records[i], &b = plain.sink.records[i];
        EXPECT_TRUE(a.point == b.point && a.layer == b.layer && a.phase == b.phase);
        EXPECT_EQ(std::tuple(a.pos_id, a.token_id, a.step),
                  std::tuple(b.pos_id, b.token_id, b.step));
        EXPECT_TRUE(same_bits(a.fingerprint, b.fingerprint)) << row_name({a.point, a.layer});
      }
      ASSERT_EQ(ahead.sink.readouts.size(), plain.sink.readouts.size());
      for (size_t i = 0; i < plain.sink.readouts.size(); ++i) {
        EXPECT_EQ(ahead.sink.readouts[i].top1_id, plain.sink.readouts[i].top1_id);
        EXPECT_EQ(ahead.sink.readouts[i].pos_id, plain.sink.readouts[i].pos_id);
      }
    }
  }
}

#if defined(GRETA_TEST_ON_EMULATOR)

/// The device has so much memory while this lives.
class ScarceMemory {
 public:
  explicit ScarceMemory(size_t bytes) { emulator::set_memory_bytes(bytes); }
  ~ScarceMemory() { emulator::set_memory_bytes(before_); }

 private:
  size_t before_ = device_info().memory_bytes;
};

TEST(HipBackendWork, MemoryThatRunsOutIsSaidInOneLine) {
  const TestModel model(tiny_shape(), "f16");
  const ScarceMemory scarce(size_t{300} << 10);
  try {
    const TestEngine gpu(model, make_hip_backend());
    FAIL() << "the weights do not fit";
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    for (const char* part : {"hipMalloc of ", " for weights failed", "KiB of 300 KiB are free"}) {
      EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_EQ(text.find('\n'), std::string::npos);
  }
}

TEST(HipBackendWork, RunThatTheDeviceEndsIsMarkedFailed) {
  const TestModel model(tiny_shape(), "f16");
  const TestEngine gpu(model, make_hip_backend());
  const TemporaryFolder folder;
  RunRecord record;
  record.experiment = "oom";
  record.date = "2026-02-07";
  {
    Probe probe(gpu.model, gpu.weights, *gpu.backend, 8, probe_options(gpu, Mode::kAsDesigned));
    RunQueue writer(store_in_database(folder / "greta.db", record));
    const ScarceMemory scarce(0);
    EXPECT_THROW(probe.run({.name = "p", .text_sha256 = "", .tokens = model.tokens(8)}, writer),
                 DeviceError);
  }
  SQLite::Database db(folder / "greta.db");
  EXPECT_EQ(db.execAndGet("SELECT status FROM run").getString(), "failed");
  EXPECT_EQ(db.execAndGet("SELECT verdict FROM run_verdict").getString(), "INCOMPLETE");
}

#endif

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
  /// Sums of the batch, and how many pieces of its work were queued one by one.
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
