#include "engine/gguf/file.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "common/temporary_folder.h"
#include "tests/engine/gguf/bytes.h"

namespace greta {
namespace {

GgufFile parse(const GgufBytes& bytes) { return GgufFile::parse(bytes.span(), "model.gguf"); }

// A small file with something of everything; the values of its second tensor end the file.
GgufBytes sample_file() {
  GgufBytes bytes(2, 4);
  bytes.entry<uint32_t>("general.alignment", 4, 32);
  bytes.key("name", 8).string("a llama");
  bytes.array<int16_t>("ids", 3, {1, -2, 300});
  bytes.key("words", 9).put<uint32_t>(8).put<uint64_t>(2).string("").string("w");
  bytes.tensor("a", {3, 2}, 0, 0).tensor("b", {32}, 8, 32).pad();
  return bytes.data(24).pad().data(34);
}

// What a reader of sample_file() could notice.
void expect_sample(const GgufFile& file) {
  ASSERT_EQ(file.metadata().size(), 4u);
  EXPECT_EQ(file.string_value("name"), "a llama");
  EXPECT_EQ(file.int_array("ids"), (std::vector<int32_t>{1, -2, 300}));
  const GgufArray* words = file.array_value("words");
  ASSERT_NE(words, nullptr);
  EXPECT_EQ(words->strings, (std::vector<std::string_view>{"", "w"}));
  ASSERT_EQ(file.tensors().size(), 2u);
  const GgufTensor* a = file.find_tensor("a");
  const GgufTensor* b = file.find_tensor("b");
  ASSERT_TRUE(a != nullptr && b != nullptr);
  EXPECT_EQ(a->n_values(), 6);
  ASSERT_EQ(a->data.size(), 24u);
  ASSERT_EQ(b->data.size(), 34u);
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(a->data[i], static_cast<std::byte>(i * 7 + 1));
  for (size_t i = 0; i < 34; ++i) EXPECT_EQ(b->data[i], static_cast<std::byte>(i * 7 + 1));
}

TEST(Gguf, ReadsTensorsAndMetadata) {
  const GgufBytes bytes = sample_file();
  const GgufFile file = parse(bytes);
  expect_sample(file);
  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(file.alignment(), 32u);
  EXPECT_EQ(file.find_tensor("a")->type, WeightType::kF32);
  EXPECT_EQ(file.find_tensor("a")->n_dims, 2);
  EXPECT_EQ(file.find_tensor("a")->dims, (std::array<int64_t, 4>{3, 2, 1, 1}));
  EXPECT_EQ(file.find_tensor("b")->type, WeightType::kQ8_0);
  EXPECT_EQ(file.find_tensor("c"), nullptr);
  EXPECT_EQ(file.find("none"), nullptr);
}

TEST(Gguf, ReadsVersion2) {
  GgufBytes bytes(0, 1, 2);
  bytes.entry<uint8_t>("x", 0, 7);
  const GgufFile file = parse(bytes);
  EXPECT_EQ(file.version(), 2u);
  EXPECT_EQ(file.unsigned_value("x"), 7u);
}

TEST(Gguf, ReadsEveryScalarType) {
  GgufBytes bytes(0, 13);
  bytes.entry<uint8_t>("u8", 0, 255).entry<int8_t>("i8", 1, -128);
  bytes.entry<uint16_t>("u16", 2, 65535).entry<int16_t>("i16", 3, INT16_MIN);
  bytes.entry<uint32_t>("u32", 4, UINT32_MAX).entry<int32_t>("i32", 5, INT32_MIN);
  bytes.entry<float>("f32", 6, 1e-5f).entry<uint8_t>("yes", 7, 1).entry<uint8_t>("no", 7, 0);
  bytes.key("text", 8).string(std::string_view("a\0b", 3));
  bytes.entry<uint64_t>("u64", 10, UINT64_MAX).entry<int64_t>("i64", 11, INT64_MIN);
  bytes.entry<double>("f64", 12, -0.1);
  const GgufFile file = parse(bytes);
  EXPECT_EQ(std::get<uint64_t>(*file.find("u8")), 255);
  EXPECT_EQ(std::get<int64_t>(*file.find("i8")), -128);
  EXPECT_EQ(std::get<uint64_t>(*file.find("u16")), 65535);
  EXPECT_EQ(std::get<int64_t>(*file.find("i16")), INT16_MIN);
  EXPECT_EQ(std::get<uint64_t>(*file.find("u32")), UINT32_MAX);
  EXPECT_EQ(std::get<int64_t>(*file.find("i32")), INT32_MIN);
  EXPECT_EQ(std::get<double>(*file.find("f32")), 1e-5f);
  EXPECT_TRUE(file.bool_value("yes", false));
  EXPECT_FALSE(file.bool_value("no", true));
  EXPECT_EQ(file.string_value("text"), std::string_view("a\0b", 3));
  EXPECT_EQ(std::get<uint64_t>(*file.find("u64")), UINT64_MAX);
  EXPECT_EQ(std::get<int64_t>(*file.find("i64")), INT64_MIN);
  EXPECT_EQ(file.real_value("f64"), -0.1);
}

TEST(Gguf, ReadsArraysOfEveryType) {
  GgufBytes bytes(0, 12);
  bytes.array<uint8_t>("u8", 0, {0, 255}).array<int8_t>("i8", 1, {-1});
  bytes.array<uint16_t>("u16", 2, {65535}).array<int16_t>("i16", 3, {-2});
  bytes.array<uint32_t>("u32", 4, {7}).array<int32_t>("i32", 5, {INT32_MIN, INT32_MAX});
  bytes.array<float>("f32", 6, {0.5f, -1}).array<uint8_t>("bool", 7, {0, 1, 1});
  bytes.array<uint64_t>("u64", 10, {8}).array<int64_t>("i64", 11, {-9});
  bytes.array<double>("f64", 12, {0.25}).array<uint32_t>("empty", 4, {});
  const GgufFile file = parse(bytes);
  EXPECT_EQ(file.int_array("u8"), (std::vector<int32_t>{0, 255}));
  EXPECT_EQ(file.int_array("i8"), (std::vector<int32_t>{-1}));
  EXPECT_EQ(file.int_array("u16"), (std::vector<int32_t>{65535}));
  EXPECT_EQ(file.int_array("i16"), (std::vector<int32_t>{-2}));
  EXPECT_EQ(file.int_array("u32"), (std::vector<int32_t>{7}));
  EXPECT_EQ(file.int_array("i32"), (std::vector<int32_t>{INT32_MIN, INT32_MAX}));
  EXPECT_EQ(file.float_array("f32"), (std::vector<float>{0.5f, -1}));
  EXPECT_EQ(file.array_value("bool")->count, 3u);
  EXPECT_EQ(file.array_value("bool")->data[2], std::byte{1});
  EXPECT_EQ(file.int_array("u64"), (std::vector<int32_t>{8}));
  EXPECT_EQ(file.int_array("i64"), (std::vector<int32_t>{-9}));
  EXPECT_EQ(file.float_array("f64"), (std::vector<float>{0.25f}));
  EXPECT_TRUE(file.int_array("empty").empty());
}

TEST(Gguf, LookUpsRefuseAnotherKind) {
  GgufBytes bytes(0, 6);
  bytes.entry<int32_t>("negative", 5, -1).entry<int32_t>("positive", 5, 3);
  bytes.entry<float>("nan", 6, std::numeric_limits<float>::quiet_NaN());
  bytes.key("text", 8).string("x");
  bytes.array<float>("reals", 6, {1, std::numeric_limits<float>::quiet_NaN()});
  bytes.array<int64_t>("wide", 11, {1, int64_t{1} << 31});
  const GgufFile file = parse(bytes);
  EXPECT_EQ(file.unsigned_value("positive"), 3u);
  EXPECT_THROW(file.unsigned_value("negative"), GgufError);
  EXPECT_THROW(file.unsigned_value("text", 1), GgufError);
  EXPECT_THROW(file.real_value("nan"), GgufError);
  EXPECT_THROW(file.real_value("positive", 1), GgufError);
  EXPECT_THROW(file.bool_value("positive", true), GgufError);
  EXPECT_THROW(file.string_value("positive"), GgufError);
  EXPECT_THROW(file.array_value("text"), GgufError);
  EXPECT_THROW(file.float_array("wide"), GgufError);
  EXPECT_THROW(file.float_array("reals"), GgufError);
  EXPECT_THROW(file.int_array("reals"), GgufError);
  EXPECT_THROW(file.int_array("wide"), GgufError);
  try {
    file.string_value("reals", "x");
    FAIL();
  } catch (const GgufError& error) {
    EXPECT_STREQ(error.what(), "model.gguf: metadata key 'reals': is an array, must be a string");
  }
}

TEST(Gguf, MissingKeysHaveDefaultsOrAreErrors) {
  const GgufBytes bytes(0, 0);
  const GgufFile file = parse(bytes);
  EXPECT_EQ(file.unsigned_value("x", 4), 4u);
  EXPECT_EQ(file.real_value("x", 0.5), 0.5);
  EXPECT_TRUE(file.bool_value("x", true));
  EXPECT_EQ(file.string_value("x", "y"), "y");
  EXPECT_EQ(file.array_value("x"), nullptr);
  EXPECT_THROW(file.unsigned_value("x"), GgufError);
  EXPECT_THROW(file.real_value("x"), GgufError);
  EXPECT_THROW(file.string_value("x"), GgufError);
  EXPECT_THROW(file.float_array("x"), GgufError);
  EXPECT_THROW(file.int_array("x"), GgufError);
}

TEST(Gguf, DataStartsAtTheFilesAlignment) {
  GgufBytes bytes(2, 1);
  bytes.entry<uint32_t>("general.alignment", 4, 256);
  bytes.tensor("late", {1}, 0, 256).tensor("early", {1}, 0, 0).pad(256);
  bytes.put<float>(1.5f).pad(256).put<float>(2.5f);
  const GgufFile file = parse(bytes);
  float early, late;
  std::memcpy(&early, file.find_tensor("early")->data.data(), 4);
  std::memcpy(&late, file.find_tensor("late")->data.data(), 4);
  EXPECT_EQ(early, 1.5f);
  EXPECT_EQ(late, 2.5f);
}

TEST(Gguf, StaysValidWhenMoved) {
  const GgufBytes bytes = sample_file();
  GgufFile file = parse(bytes);
  const GgufFile moved = std::move(file);
  expect_sample(moved);
}

TEST(Gguf, TensorsThatTouchDoNotOverlap) {
  GgufBytes bytes(3, 0);
  bytes.tensor("t", {8}, 0, 32).tensor("u", {8}, 0, 0).tensor("v", {1}, 0, 64).pad().data(68);
  EXPECT_EQ(parse(bytes).tensors().size(), 3u);
}

TEST(Gguf, TruncationAnywhereIsAnError) {
  const std::string whole = sample_file().str();
  for (size_t size = 0; size < whole.size(); ++size) {
    // A copy of that size, so that a sanitizer sees a byte read beyond it.
    const std::vector<char> part(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_THROW(GgufFile::parse(std::as_bytes(std::span(part)), "model.gguf"), GgufError) << size;
  }
}

TEST(Gguf, AnyByteMayBeWrongWithoutACrash) {
  const std::string whole = sample_file().str();
  int n_refused = 0, n_read = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const unsigned flip : {0x01u, 0x80u, 0xffu, 0x20u}) {
      std::vector<char> bytes(whole.begin(), whole.end());
      bytes[at] = static_cast<char>(static_cast<unsigned char>(bytes[at]) ^ flip);
      try {
        const GgufFile file = GgufFile::parse(std::as_bytes(std::span(bytes)), "model.gguf");
        for (const GgufTensor& tensor : file.tensors()) {
          ASSERT_LE(tensor.data.data() + tensor.data.size(),
                    reinterpret_cast<const std::byte*>(bytes.data() + bytes.size()));
        }
        ++n_read;
      } catch (const GgufError&) {
        ++n_refused;
      }
    }
  }
  EXPECT_GT(n_refused, 300);
  EXPECT_GT(n_read, 300);
}

class GgufOpen : public testing::Test {
 protected:
  std::filesystem::path file_of(std::string_view bytes) const {
    const std::filesystem::path file = folder_ / "model.gguf";
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  TemporaryFolder folder_;
};

TEST_F(GgufOpen, MapsTheFile) {
  const std::filesystem::path path = file_of(sample_file().str());
  const GgufFile file = GgufFile::open(path);
  std::filesystem::remove(path);  // the mapping stays
  expect_sample(file);
  EXPECT_EQ(file.name(), path.string());
  EXPECT_EQ(file.bytes().size(), sample_file().str().size());
}

TEST_F(GgufOpen, WhatIsCutOffReadsAsZerosAndIsTold) {
  const std::string whole = sample_file().str() + std::string(50'000, 'x');
  for (const bool undone : {false, true}) {
    const std::filesystem::path path = file_of(whole);
    const GgufFile file = GgufFile::open(path);
    EXPECT_NO_THROW(file.check_whole());
    std::filesystem::resize_file(path, 100);
    EXPECT_EQ(file.bytes()[40'000], std::byte{0});
    EXPECT_EQ(file.bytes().back(), std::byte{0});
    if (undone) std::filesystem::resize_file(path, whole.size());
    EXPECT_THROW(file.check_whole(), GgufError);
    EXPECT_EQ(file.bytes()[20'000], std::byte{0});
  }
}

TEST_F(GgufOpen, ACutThatNobodyReadIsTold) {
  const std::filesystem::path path = file_of(sample_file().str());
  const GgufFile file = GgufFile::open(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_THROW(file.check_whole(), GgufError);
}

TEST_F(GgufOpen, ABusErrorElsewhereEndsTheProcess) {
  const std::filesystem::path path = file_of(sample_file().str());
  const GgufFile file = GgufFile::open(path);
#if defined(__SANITIZE_ADDRESS__)
  EXPECT_DEATH(std::raise(SIGBUS), "");  // its handler reports and exits
#else
  EXPECT_EXIT(std::raise(SIGBUS), testing::KilledBySignal(SIGBUS), "");
#endif
}

TEST_F(GgufOpen, ErrorsNameTheFile) {
  for (const std::string_view bytes : {"", "GGUF", "not a model"}) {
    const std::filesystem::path path = file_of(bytes);
    try {
      GgufFile::open(path);
      FAIL() << bytes;
    } catch (const GgufError& error) {
      EXPECT_TRUE(std::string(error.what()).starts_with(path.string() + ": header at byte "))
          << error.what();
    }
  }
}

TEST_F(GgufOpen, WhatIsNoFileIsASystemError) {
  for (const std::filesystem::path& path :
       {folder_.path(), folder_ / "none", std::filesystem::path("/dev/null")}) {
    try {
      GgufFile::open(path);
      FAIL() << path;
    } catch (const std::system_error& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace greta
