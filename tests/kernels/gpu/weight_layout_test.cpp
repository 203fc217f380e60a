#include "kernels/gpu/weight_layout.h"

#include <stdexcept>

#include "kernels/blocks.h"
#include "tests/kernels/gpu/gpu_test.h"
#include "tests/kernels/gpu/weights.h"

namespace greta {
namespace {

class GpuWeightLayout : public GpuTest {};

TEST_F(GpuWeightLayout, FloatTypesLieAsInTheFile) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    EXPECT_EQ(has_planes(info.type), info.block_values > 1) << info.name;
  }
  const Matrix w{WeightType::kF16, nullptr, 1, 1};
  EXPECT_THROW(arrange_planes(w, nullptr, stream_), std::invalid_argument);
}

TEST_F(GpuWeightLayout, PlanesFollowEachOtherInTheOrderOfBlocks) {
  const TestWeights w = random_weights(WeightType::kQ8_0, 3, 64, 5, stream_);
  const std::vector<std::byte> got = download(w.device);
  constexpr size_t kBlocks = 6;
  ASSERT_EQ(got.size(), kBlocks * sizeof(BlockQ8_0));
  for (size_t block = 0; block < kBlocks; ++block) {
    const std::byte* const from = &w.bytes[block * sizeof(BlockQ8_0)];
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(got[kBlocks * 32 + 2 * block + i], from[i]);
    for (size_t i = 0; i < 32; ++i) EXPECT_EQ(got[32 * block + i], from[2 + i]);
  }
}

// Every bit of a block has one place: the layout is a permutation of bits, and which it is
// to_halves and embed show.
TEST_F(GpuWeightLayout, EveryBitKeepsAPlaceOfItsOwn) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    if (!has_planes(info.type)) continue;
    const size_t n_bits = 8 * info.block_bytes;
    std::vector<bool> taken(n_bits);
    // One block per bit, with nothing but that bit set.
    std::vector<std::byte> bytes(n_bits * info.block_bytes);
    for (size_t bit = 0; bit < n_bits; ++bit) {
      bytes[bit * info.block_bytes + bit / 8] = static_cast<std::byte>(1u << bit % 8);
    }
    const auto file = upload(bytes);
    auto device = buffer<std::byte>(bytes.size());
    arrange_planes({info.type, file.data(), static_cast<int64_t>(n_bits),
                    static_cast<int64_t>(info.block_values)},
                   device.data(), stream_);
    const std::vector<std::byte> got = download(device);
    size_t begin = 0, in_block = 0;
    for (int plane = 0; plane < kMaxPlanes; ++plane) {
      const auto size = static_cast<size_t>(planes_of(info.type).field[plane].bytes);
      for (size_t block = 0; block < n_bits; ++block) {
        for (size_t i = 0; i < 8 * size; ++i) {
          const auto byte = static_cast<unsigned>(got[begin + block * size + i / 8]);
          if ((byte >> i % 8 & 1) == 0) continue;
          EXPECT_FALSE(taken[8 * in_block + i]) << info.name << " bit " << block;
          taken[8 * in_block + i] = true;
        }
      }
      begin += n_bits * size;
      in_block += size;
    }
    EXPECT_EQ(begin, got.size());
    EXPECT_EQ(std::count(taken.begin(), taken.end(), true), static_cast<std::ptrdiff_t>(n_bits));
  }
}

uint16_t half_of(float value, HalfType type) {
  return type == HalfType::kF16 ? f32_to_f16(value) : f32_to_bf16(value);
}

TEST_F(GpuWeightLayout, HalvesAreTheCpusValuesRoundedOnce) {
  for (const WeightTypeInfo& info : kWeightTypes) {
    const size_t cols = info.block_values == 1 ? 37 : 3 * info.block_values;
    const TestWeights w = random_weights(info.type, 7, cols, 11, stream_);
    for (HalfType type : {HalfType::kF16, HalfType::kBF16}) {
      for (size_t offset : {0, 1}) {  // of the result: also where wide stores are not possible
        auto out = buffer<uint16_t>(offset + 4 * cols);
        to_halves(w.device_matrix(), 2, 4, type, out.data() + offset, stream_);
        const std::vector<uint16_t> got = download(out);
        for (size_t i = 0; i < 4 * cols; ++i) {
          ASSERT_EQ(got[offset + i], half_of(w.values[2 * cols + i], type))
              << info.name << " " << i;
        }
      }
    }
  }
}

TEST_F(GpuWeightLayout, HalvesOfTheSameTypeKeepTheBitsOfNaN) {
  const std::vector<uint16_t> halves{0x7c01, 0xfe55, 0x7f81, 0xffc3, 0x0001, 0x8000, 0x7c00};
  const auto device = upload(halves);
  auto out = buffer<uint16_t>(halves.size());
  for (HalfType type : {HalfType::kF16, HalfType::kBF16}) {
    const WeightType same = type == HalfType::kF16 ? WeightType::kF16 : WeightType::kBF16;
    set_bytes(out.data(), out.size(), 0, stream_);
    to_halves({same, reinterpret_cast<const std::byte*>(device.data()), 1, 7}, 0, 1, type,
              out.data(), stream_);
    EXPECT_EQ(download(out), halves);
  }
}

}  // namespace
}  // namespace greta
