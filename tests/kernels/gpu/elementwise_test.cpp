#include "kernels/gpu/elementwise.h"

#include <algorithm>
#include <array>

#include "kernels/blocks.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/fingerprint/fingerprint.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/weights.h"

namespace greta {
namespace {

class GpuElementwise : public GpuTest {};

// ---- embed.

TEST_F(GpuElementwise, EmbedHasTheCpusBitsForEveryType) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    const size_t cols = info.block_values == 1 ? 37 : 3 * info.block_values;
    const TestWeights table = random_weights(info.type, 5, cols, 7, stream_);
    const std::vector<int32_t> ids{4, 0, 0, 3, 1, 2, 4};
    const auto device_ids = upload(ids);
    auto out = buffer<float>(ids.size() * cols);
    embed(table.device_matrix(), device_ids.data(), static_cast<int64_t>(ids.size()), out.data(),
          stream_);
    const Values got = download(out);
    for (size_t t = 0; t < ids.size(); ++t) {
      EXPECT_EQ(bits_of(slice(got, t * cols, cols)),
                bits_of(slice(table.values, static_cast<size_t>(ids[t]) * cols, cols)))
          << info.name << " token " << t;
    }
  }
}

TEST_F(GpuElementwise, EmbedExpandsEveryBitPatternOfABlock) {
  // Blocks of random bytes, infinite and NaN scales included.
  for (const WeightTypeInfo& info : kWeightTypes) {
    if (info.block_values == 1) continue;
    const size_t cols = 40 * info.block_values;
    std::vector<std::byte> bytes(40 * info.block_bytes);
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] = static_cast<std::byte>(mix64(i + 99) >> 56);
    }
    const TestWeights table = make_weights(info.type, 1, cols, std::move(bytes), stream_);
    const auto ids = upload(std::vector<int32_t>{0});
    auto out = buffer<float>(cols);
    embed(table.device_matrix(), ids.data(), 1, out.data(), stream_);
    const Values got = download(out);
    for (size_t i = 0; i < cols; ++i) {
      const float expected = table.values[i];
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(got[i])) << info.name << " " << i;
      } else {
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected))
            << info.name << " " << i;
      }
    }
  }
}

// ---- rms_norm.

TEST_F(GpuElementwise, RmsNormIsWithinTwoUlp) {
  for (size_t dim : {1, 2, 3, 63, 64, 65, 100, 256, 257, 1000, 4096, 5000, 14336, 20001, 20004}) {
    for (float eps : {0.0f, 1e-5f, 1.0f}) {
      const size_t n_tokens = dim < 1000 ? 5 : 2;
      const Values x = bell_values(static_cast<uint32_t>(dim), n_tokens * dim, 0.01);
      const Values weight = bell_values(7, dim);
      const auto device_x = upload(x);
      const auto device_weight = upload(weight);
      auto out = buffer<float>(x.size());
      rms_norm(device_x.data(), device_weight.data(), eps, static_cast<int64_t>(n_tokens),
               static_cast<int64_t>(dim), out.data(), stream_);
      const Values got = download(out);
      for (size_t t = 0; t < n_tokens; ++t) {
        double sum = 0;
        for (size_t k = 0; k < dim; ++k) sum += std::pow(static_cast<double>(x[t * dim + k]), 2);
        const double root = std::sqrt(sum / static_cast<double>(dim) + static_cast<double>(eps));
        for (size_t k = 0; k < dim; ++k) {
          const double exact =
              static_cast<double>(x[t * dim + k]) / root * static_cast<double>(weight[k]);
          ASSERT_LE(ulps(got[t * dim + k], exact), 2.0) << dim << " " << eps << " " << k;
        }
      }
    }
  }
}

TEST_F(GpuElementwise, RmsNormOfARowDoesNotDependOnTheBatchOrTheAlignment) {
  const size_t dim = 500, n_tokens = 7;
  const Values x = bell_values(3, n_tokens * dim), weight = bell_values(4, dim);
  const auto device_weight = upload(weight);
  const auto device_x = upload(x);
  auto together = buffer<float>(x.size());
  rms_norm(device_x.data(), device_weight.data(), 1e-5f, n_tokens, dim, together.data(), stream_);
  const Values expected = download(together);
  for (size_t t = 0; t < n_tokens; ++t) {
    auto alone = buffer<float>(dim);
    rms_norm(device_x.data() + t * dim, device_weight.data(), 1e-5f, 1, dim, alone.data(), stream_);
    EXPECT_EQ(bits_of(download(alone)), bits_of(slice(expected, t * dim, dim)));
  }
  Values moved_x = x;
  moved_x.insert(moved_x.begin(), 0.0f);
  const auto unaligned = upload(moved_x);
  auto out = buffer<float>(x.size());
  rms_norm(unaligned.data() + 1, device_weight.data(), 1e-5f, n_tokens, dim, out.data(), stream_);
  EXPECT_EQ(bits_of(download(out)), bits_of(expected));
  auto in_place = upload(x);
  rms_norm(in_place.data(), device_weight.data(), 1e-5f, n_tokens, dim, in_place.data(), stream_);
  EXPECT_EQ(bits_of(download(in_place)), bits_of(expected));
}

TEST_F(GpuElementwise, RmsNormTellsZeroRowsFromNonFiniteOnes) {
  Values x(3 * 40, 0.0f);
  x[45] = std::numeric_limits<float>::infinity();
  x[90] = std::numeric_limits<float>::quiet_NaN();
  const auto device_x = upload(x);
  const auto weight = upload(Values(40, 1.0f));
  auto out = buffer<float>(x.size());
  rms_norm(device_x.data(), weight.data(), 1e-5f, 3, 40, out.data(), stream_);
  const Values got = download(out);
  EXPECT_EQ(slice(got, 0, 40), Values(40, 0.0f));
  EXPECT_TRUE(std::isnan(got[45]));
  for (size_t i = 80; i < 120; ++i) EXPECT_TRUE(std::isnan(got[i]));
}

// ---- rope.

struct RopeCase {
  int64_t n_tokens, n_heads, head_dim, half_dim;
  RopePairing pairing;
};

TEST_F(GpuElementwise, RopeTurnsByAnglesInDouble) {
  for (const RopeCase& c : {RopeCase{3, 4, 64, 32, RopePairing::kInterleaved},
                            RopeCase{5, 3, 128, 64, RopePairing::kHalves},
                            RopeCase{2, 5, 80, 20, RopePairing::kInterleaved},
                            RopeCase{2, 1, 10, 3, RopePairing::kHalves},
                            RopeCase{1, 7, 6, 0, RopePairing::kInterleaved}}) {
    std::vector<double> inv_freq;
    for (int64_t i = 0; i < c.half_dim; ++i) {
      inv_freq.push_back(
          std::pow(500000.0, -2.0 * static_cast<double>(i) / static_cast<double>(c.head_dim)));
    }
    const auto n = static_cast<size_t>(c.n_tokens * c.n_heads * c.head_dim);
    const Values in = bell_values(static_cast<uint32_t>(n), n);
    const auto device_in = upload(in);
    const auto device_freq = upload(inv_freq);
    const auto first_pos = upload(std::vector<int32_t>{100000});
    auto table = buffer<float>(static_cast<size_t>(2 * c.n_tokens * c.half_dim));
    auto out = buffer<float>(n);
    rope_table(device_freq.data(), 1, first_pos.data(), -1, c.n_tokens, c.half_dim, table.data(),
               stream_);
    rope({device_in.data(), c.n_heads, out.data()}, {}, table.data(), c.pairing, c.n_tokens,
         c.head_dim, c.half_dim, stream_);
    const Values got = download(out);

    for (int64_t row = 0; row < c.n_tokens * c.n_heads; ++row) {
      const auto at = [&](int64_t i) { return static_cast<size_t>(row * c.head_dim + i); };
      for (int64_t i = 2 * c.half_dim; i < c.head_dim; ++i) ASSERT_EQ(got[at(i)], in[at(i)]);
      for (int64_t i = 0; i < c.half_dim; ++i) {
        const bool interleaved = c.pairing == RopePairing::kInterleaved;
        const int64_t a = interleaved ? 2 * i : i, b = interleaved ? a + 1 : i + c.half_dim;
        const double angle =
            static_cast<double>(100000 - 1 + row / c.n_heads) * inv_freq[static_cast<size_t>(i)];
        const double x = in[at(a)], y = in[at(b)];
        // Cosine, sine, products and sum are rounded once each.
        const double bound = 2 * std::hypot(x, y) * 0x1p-24 * 2;
        ASSERT_NEAR(got[at(a)], x * std::cos(angle) - y * std::sin(angle), bound);
        ASSERT_NEAR(got[at(b)], x * std::sin(angle) + y * std::cos(angle), bound);
      }
    }
    auto in_place = upload(in);
    auto beside = buffer<float>(n);
    rope({in_place.data(), c.n_heads, in_place.data()},
         {device_in.data(), c.n_heads, beside.data()}, table.data(), c.pairing, c.n_tokens,
         c.head_dim, c.half_dim, stream_);
    EXPECT_EQ(bits_of(download(in_place)), bits_of(got));
    EXPECT_EQ(bits_of(download(beside)), bits_of(got));

    // The second tensor and a third one also go to a cache.
    const int64_t width = c.n_heads * c.head_dim, rows = c.n_tokens + 3;
    const auto first_row = upload(std::vector<int32_t>{3});
    auto cache = upload(Values(static_cast<size_t>(rows * width), 0.5f));
    auto other_cache = upload(Values(static_cast<size_t>(rows * width), 0.5f));
    auto again = buffer<float>(n);
    rope_and_store({device_in.data(), c.n_heads, beside.data()},
                   {device_in.data(), c.n_heads, again.data()}, table.data(), c.pairing, c.n_tokens,
                   c.head_dim, c.half_dim, first_row.data(), -1, cache.data(),
                   {device_in.data(), other_cache.data()}, stream_);
    EXPECT_EQ(bits_of(download(beside)), bits_of(got));
    EXPECT_EQ(bits_of(download(again)), bits_of(got));
    const auto expect_stored = [&](const Values& cached, const Values& values) {
      const auto begin = static_cast<size_t>(2 * width);
      EXPECT_EQ(bits_of(slice(cached, begin, n)), bits_of(values));
      EXPECT_EQ(slice(cached, 0, begin), Values(begin, 0.5f));
      EXPECT_EQ(slice(cached, begin + n, static_cast<size_t>(width)),
                Values(static_cast<size_t>(width), 0.5f));
    };
    expect_stored(download(cache), got);
    expect_stored(download(other_cache), in);
  }
}

TEST_F(GpuElementwise, RopeTableFollowsThePositionInMemory) {
  const auto inv_freq = upload(std::vector<double>{1.0, 0.25});
  auto pos = upload(std::vector<int32_t>{3});
  auto table = buffer<float>(4);
  Graph graph = Graph::capture(
      stream_, [&] { rope_table(inv_freq.data(), 1, pos.data(), 0, 1, 2, table.data(), stream_); });
  for (int32_t p : {3, 1000}) {
    copy_to_device<int32_t>(std::vector<int32_t>{p}, pos.data(), stream_);
    graph.launch(stream_);
    const Values got = download(table);
    EXPECT_LE(ulps(got[0], std::cos(static_cast<double>(p))), 0.51);
    EXPECT_LE(ulps(got[3], std::sin(0.25 * p)), 0.51);
  }
}

// The instruction sets with fused multiply-add round where the device does.
TEST_F(GpuElementwise, RopeAndSwiGluHaveTheCpusBits) {
  if (best_isa() == Isa::kBaseline) GTEST_SKIP() << "this processor rounds products before sums";
  ThreadPool pool(1);
  const Values gate = bell_values(1, 3000, 20), up = bell_values(2, 3000);
  Values expected(3000);
  swiglu(gate.data(), up.data(), 3000, expected.data(), pool);
  const auto device_gate = upload(gate), device_up = upload(up);
  auto out = buffer<float>(3000);
  swiglu(device_gate.data(), device_up.data(), 3000, out.data(), stream_);
  EXPECT_EQ(bits_of(download(out)), bits_of(expected));

  const std::vector<double> inv_freq{1.0, 0.7, 0.2, 0.01, 0.0003};
  const auto device_freq = upload(inv_freq);
  const auto first_pos = upload(std::vector<int32_t>{4000});
  auto table = buffer<float>(2 * 25 * 5);
  rope_table(device_freq.data(), 1.25, first_pos.data(), 0, 25, 5, table.data(), stream_);
  for (RopePairing pairing : {RopePairing::kInterleaved, RopePairing::kHalves}) {
    rope({gate.data(), 10, expected.data()}, 4000, {inv_freq, 1.25, pairing}, 25, 12, pool);
    rope({device_gate.data(), 10, out.data()}, {}, table.data(), pairing, 25, 12, 5, stream_);
    EXPECT_EQ(bits_of(download(out)), bits_of(expected));
  }
}

// ---- Heads after their product.

TEST_F(GpuElementwise, HeadsAreFinishedAsOnTheCpu) {
  ThreadPool pool(1);
  for (const size_t head_dim : {1, 6, 32, 64, 80, 128, 256}) {
    for (const size_t n_tokens : {1, 3}) {
      const size_t n_q = 5 * head_dim, n_k = 2 * head_dim;
      Values q = bell_values(1, n_tokens * n_q, 3), k = bell_values(2, n_tokens * n_k, 3);
      Values v = bell_values(3, n_tokens * n_k);
      const Values q_bias = bell_values(4, n_q), v_bias = bell_values(5, n_k);
      const Values q_norm = bell_values(6, head_dim), k_norm = bell_values(7, head_dim);
      const auto on_device = [&](const Values& values) { return upload(values); };
      auto dq = on_device(q), dk = on_device(k), dv = on_device(v);
      const auto dq_bias = on_device(q_bias), dv_bias = on_device(v_bias);
      const auto dq_norm = on_device(q_norm), dk_norm = on_device(k_norm);
      const std::array<HeadTensor, 3> tensors{{{dq.data(), 5, dq_bias.data(), dq_norm.data()},
                                               {dk.data(), 2, nullptr, dk_norm.data()},
                                               {dv.data(), 2, dv_bias.data(), nullptr}}};
      const auto n = static_cast<int64_t>(n_tokens), dim = static_cast<int64_t>(head_dim);
      finish_heads(tensors, n, dim, 1e-6f, stream_);
      finish_heads({q.data(), 5, q_bias.data(), q_norm.data()}, n, dim, 1e-6f, pool);
      finish_heads({k.data(), 2, nullptr, k_norm.data()}, n, dim, 1e-6f, pool);
      finish_heads({v.data(), 2, v_bias.data(), nullptr}, n, dim, 1e-6f, pool);
      for (const auto& [got, expected] : {std::pair(download(dq), q), std::pair(download(dk), k)}) {
        for (size_t i = 0; i < got.size(); ++i) {
          ASSERT_LE(ulps(got[i], static_cast<double>(expected[i])), 4) << head_dim;
        }
      }
      EXPECT_EQ(bits_of(download(dv)), bits_of(v));
    }
  }
}

// ---- One value at a time.

TEST_F(GpuElementwise, SwiGluIsWithinThreeUlp) {
  for (size_t n : {1, 3, 4, 255, 1024, 5001}) {
    const Values gate = bell_values(1, n, 8), up = bell_values(2, n);
    const auto device_up = upload(up);
    auto out = upload(gate);  // in place
    swiglu(out.data(), device_up.data(), static_cast<int64_t>(n), out.data(), stream_);
    const Values got = download(out);
    for (size_t i = 0; i < n; ++i) {
      const double g = gate[i];
      ASSERT_LE(ulps(got[i], g / (1 + std::exp(-g)) * static_cast<double>(up[i])), 3.0) << g;
    }
  }
}

TEST_F(GpuElementwise, SwiGluOfExtremeGatesIsTheLimit) {
  const float inf = std::numeric_limits<float>::infinity();
  const Values gate{-1000, 1000, inf, 0, -0.0f, std::numeric_limits<float>::quiet_NaN()};
  const auto device_gate = upload(gate);
  const auto up = upload(Values(6, 2.0f));
  auto out = buffer<float>(6);
  swiglu(device_gate.data(), up.data(), 6, out.data(), stream_);
  const Values got = download(out);
  EXPECT_EQ(got[0], 0.0f);
  EXPECT_EQ(got[1], 2000.0f);
  EXPECT_EQ(got[2], inf);
  EXPECT_EQ(got[3], 0.0f);
  EXPECT_EQ(got[4], 0.0f);
  EXPECT_TRUE(std::isnan(got[5]));
}

TEST_F(GpuElementwise, AddAndScaleAreOneRounding) {
  for (size_t n : {1, 3, 4, 1000, 1001}) {
    const Values a = bell_values(1, n), b = bell_values(2, n, 1e-3);
    const auto device_a = upload(a);
    auto out = upload(b);
    add(device_a.data(), out.data(), static_cast<int64_t>(n), out.data(), stream_);
    scale(out.data(), static_cast<int64_t>(n), 1.7f, stream_);
    const Values got = download(out);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(got[i], (a[i] + b[i]) * 1.7f);
  }
}

TEST_F(GpuElementwise, UnalignedArraysGetTheSameBits) {
  const Values a = bell_values(1, 1001), b = bell_values(2, 1001);
  const auto device_a = upload(a), device_b = upload(b);
  auto out = buffer<float>(1001);
  swiglu(device_a.data() + 1, device_b.data() + 1, 1000, out.data() + 1, stream_);
  const Values unaligned = slice(download(out), 1, 1000);
  const auto moved_a = upload(slice(a, 1, 1000)), moved_b = upload(slice(b, 1, 1000));
  auto aligned = buffer<float>(1000);
  swiglu(moved_a.data(), moved_b.data(), 1000, aligned.data(), stream_);
  EXPECT_EQ(bits_of(unaligned), bits_of(download(aligned)));
}

TEST_F(GpuElementwise, FillWritesTheBitsGiven) {
  for (float value : {0.0f, -0.0f, 1.5f, std::numeric_limits<float>::quiet_NaN()}) {
    auto data = upload(Values(1003, 9.0f));
    fill(data.data() + 1, 1001, value, stream_);
    const std::vector<uint32_t> got = bits_of(download(data));
    EXPECT_EQ(got[0], std::bit_cast<uint32_t>(9.0f));
    EXPECT_EQ(got[1002], std::bit_cast<uint32_t>(9.0f));
    for (size_t i = 1; i < 1002; ++i) ASSERT_EQ(got[i], std::bit_cast<uint32_t>(value));
  }
}

TEST_F(GpuElementwise, NothingIsDoneForNoValues) {
  auto data = upload(Values(4, 9.0f));
  fill(data.data(), 0, 1.0f, stream_);
  add(data.data(), data.data(), 0, data.data(), stream_);
  EXPECT_EQ(download(data), Values(4, 9.0f));
}

TEST_F(GpuElementwise, StoreRowsWritesWhereThePositionPoints) {
  const Values rows = bell_values(1, 3 * 7);
  const auto device_rows = upload(rows);
  const auto first_row = upload(std::vector<int32_t>{4});
  auto cache = upload(Values(10 * 7, 0.0f)), other = upload(Values(10 * 7, 1.0f));
  store_rows({device_rows.data(), cache.data()}, {device_rows.data(), other.data()}, 3, 7,
             first_row.data(), 1, stream_);
  const Values got = download(cache);
  EXPECT_EQ(slice(got, 0, 5 * 7), Values(5 * 7, 0.0f));
  EXPECT_EQ(slice(got, 5 * 7, 3 * 7), rows);
  EXPECT_EQ(slice(got, 8 * 7, 2 * 7), Values(2 * 7, 0.0f));
  EXPECT_EQ(slice(download(other), 5 * 7, 3 * 7), rows);
}

TEST_F(GpuElementwise, RowsOfACacheInF16AreRoundedAndReadBack) {
  for (const int64_t width : {6, 8}) {
    const auto w = static_cast<size_t>(width);
    const Values rows = bell_values(1, 3 * w);
    const auto device_rows = upload(rows);
    const auto first_row = upload(std::vector<int32_t>{4});
    auto cache = upload(std::vector<uint16_t>(10 * w, 0)),
         other = upload(std::vector<uint16_t>(10 * w, 0x3c00));
    store_rows({device_rows.data(), cache.data()}, {device_rows.data(), other.data()}, 3, width,
               first_row.data(), 1, stream_);
    scale(KvRows(other.data()) + 5 * width, width, 2, stream_);
    std::vector<uint16_t> expected(10 * w, 0);
    std::transform(rows.begin(), rows.end(), expected.begin() + 5 * width, f32_to_f16);
    EXPECT_EQ(download(cache), expected);

    auto read = upload(Values(10 * w, 9.0f)), of_other = upload(Values(10 * w, 9.0f));
    KvRead wanted{.a = {cache.data(), read.data()},
                  .b = {other.data(), of_other.data()},
                  .first_pos = first_row.data(),
                  .n_tokens = 3};
    read_rows(wanted, width, 16, stream_);
    const Values got = download(read), doubled = download(of_other);
    for (size_t i = 0; i < 10 * w; ++i) {
      ASSERT_EQ(got[i], i < 7 * w ? f16_to_f32(expected[i]) : 9.0f) << i;
      const float factor = i / w == 5 ? 2.0f : 1.0f;
      const float others = i < 5 * w ? 1.0f : f16_to_f32(expected[i]) * factor;
      ASSERT_EQ(doubled[i], i < 7 * w ? others : 9.0f) << i;
    }
    wanted.all = false;
    wanted.first_token = 1;
    wanted.a.to = of_other.data();
    wanted.b.to = read.data();
    read_rows(wanted, width, 2, stream_);
    EXPECT_EQ(slice(download(of_other), 0, 2 * width), slice(got, 5 * width, 2 * width));
  }
}

TEST_F(GpuElementwise, BitTransfersHappenOneAfterTheOther) {
  const size_t width = 5, n_rows = 300;
  const Values rows = bell_values(1, width * n_rows);
  // The second takes the bit that the first has changed.
  const std::vector<BitTransfer> transfers{{1, 2, 31}, {0, 1, 31}, {4, 3, 22}};
  Values expected = rows;
  for (size_t row = 0; row < n_rows; ++row) {
    for (const BitTransfer& t : transfers) {
      float& mine = expected[row * width + static_cast<size_t>(t.index)];
      const float theirs = expected[row * width + static_cast<size_t>(t.neighbour)];
      const uint32_t mask = uint32_t{1} << t.bit;
      mine = std::bit_cast<float>((std::bit_cast<uint32_t>(mine) & ~mask) |
                                  (std::bit_cast<uint32_t>(theirs) & mask));
    }
  }
  auto device_rows = upload(rows);
  const auto device_transfers = upload(transfers);
  transfer_bits(device_rows.data(), n_rows, width, device_transfers.data(), 3, stream_);
  EXPECT_EQ(bits_of(download(device_rows)), bits_of(expected));
  EXPECT_NE(bits_of(expected), bits_of(rows));
}

}  // namespace
}  // namespace greta
