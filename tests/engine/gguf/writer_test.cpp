#include "engine/gguf/writer.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "common/temporary_folder.h"
#include "engine/gguf/file.h"
#include "kernels/cpu/quantise.h"

namespace greta {
namespace {

namespace fs = std::filesystem;

class GgufWriterTest : public testing::Test {
 protected:
  size_t n_files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_.path()), {}));
  }
  TemporaryFolder folder_;
  fs::path path_ = folder_ / "model.gguf";
};

void declare(GgufWriter& writer, std::string_view name, WeightType type,
             std::vector<int64_t> dims) {
  writer.declare(name, type, dims);
}

std::vector<std::byte> stored(const WeightTypeInfo& type, std::span<const float> values) {
  std::vector<std::byte> data(values.size() / type.block_values * type.block_bytes);
  quantise(type.type, values, data);
  return data;
}

TEST_F(GgufWriterTest, WhatIsWrittenIsRead) {
  const std::vector<std::string> words{"", "hello", "ü"};
  const std::vector<float> scores{0, -1.5f};
  const std::vector<int32_t> types{1, -3};
  std::vector<float> values(512);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 64 - 4;
  GgufWriter writer(path_);
  writer.add_uint32("u", 7);
  writer.add_float32("f", 0.25f);
  writer.add_bool("b", true);
  writer.add_string("s", "text");
  writer.add_strings("words", words);
  writer.add_floats("scores", scores);
  writer.add_int32s("types", types);
  declare(writer, "vector", WeightType::kF32, {3});
  for (const WeightTypeInfo& type : kWeightTypes) {
    declare(writer, type.name, type.type, {256, 2});
  }
  writer.write(std::as_bytes(std::span(values).first(3)));
  for (const WeightTypeInfo& type : kWeightTypes) {
    const std::vector<std::byte> data = stored(type, values);
    writer.write(std::span(data).first(5));
    writer.write(std::span(data).subspan(5));
  }
  writer.finish();

  const GgufFile file = GgufFile::open(path_);
  EXPECT_EQ(file.unsigned_value("u"), 7u);
  EXPECT_EQ(file.real_value("f"), 0.25);
  EXPECT_TRUE(file.bool_value("b", false));
  EXPECT_EQ(file.string_value("s"), "text");
  EXPECT_EQ(file.float_array("scores"), scores);
  EXPECT_EQ(file.int_array("types"), types);
  const auto& strings = file.array_value("words")->strings;
  EXPECT_TRUE(std::equal(words.begin(), words.end(), strings.begin(), strings.end()));
  EXPECT_EQ(file.metadata().front().first, "u");
  ASSERT_EQ(file.tensors().size(), kWeightTypes.size() + 1);
  EXPECT_EQ(file.tensors().front().dims, (std::array<int64_t, 4>{3, 1, 1, 1}));
  for (const WeightTypeInfo& type : kWeightTypes) {
    const GgufTensor* tensor = file.find_tensor(type.name);
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->type, type.type);
    EXPECT_EQ(tensor->dims, (std::array<int64_t, 4>{256, 2, 1, 1}));
    const std::vector<std::byte> expected = stored(type, values);
    EXPECT_TRUE(std::ranges::equal(expected, tensor->data)) << type.name;
  }
  EXPECT_EQ(n_files(), 1u);
}

TEST_F(GgufWriterTest, AnUnfinishedFileVanishesAndTheOldOneStays) {
  std::ofstream(path_) << "old";
  {
    GgufWriter writer(path_);
    declare(writer, "t", WeightType::kF32, {2});
    writer.write(std::vector<std::byte>(4));
    EXPECT_THROW(writer.finish(), std::logic_error);
    EXPECT_EQ(n_files(), 2u);
  }
  EXPECT_EQ(n_files(), 1u);
  EXPECT_EQ(fs::file_size(path_), 3u);
}

TEST_F(GgufWriterTest, AFinishedFileReplacesTheOldOne) {
  std::ofstream(path_) << "old";
  GgufWriter writer(path_);
  writer.finish();
  EXPECT_EQ(GgufFile::open(path_).version(), 3u);
}

TEST_F(GgufWriterTest, TwoWritersOfOneNameDoNotMix) {
  GgufWriter first(path_), second(path_);
  first.add_uint32("n", 1);
  second.add_uint32("n", 2);
  second.finish();
  first.finish();
  EXPECT_EQ(GgufFile::open(path_).unsigned_value("n"), 1u);
}

TEST_F(GgufWriterTest, WrongOrdersAreRefused) {
  GgufWriter writer(path_);
  writer.add_uint32("k", 1);
  EXPECT_THROW(writer.add_bool("k", true), std::logic_error);
  EXPECT_THROW(writer.add_bool("", true), std::logic_error);
  declare(writer, "t", WeightType::kQ8_0, {32, 2});
  EXPECT_THROW(declare(writer, "t", WeightType::kF32, {1}), std::logic_error);
  const std::vector<std::byte> data(69);
  EXPECT_THROW(writer.write(data), std::logic_error);
  writer.write(std::span(data).first(68));
  EXPECT_THROW(writer.write(data), std::logic_error);
  EXPECT_THROW(writer.add_uint32("late", 1), std::logic_error);
  EXPECT_THROW(declare(writer, "late", WeightType::kF32, {1}), std::logic_error);
  writer.finish();
  EXPECT_EQ(GgufFile::open(path_).tensors().size(), 1u);
}

TEST_F(GgufWriterTest, ShapesThatTheFormatCannotSayAreRefused) {
  GgufWriter writer(path_);
  EXPECT_THROW(declare(writer, "t", WeightType::kF32, {}), std::logic_error);
  EXPECT_THROW(declare(writer, "t", WeightType::kF32, {1, 1, 1, 1, 1}), std::logic_error);
  EXPECT_THROW(declare(writer, "t", WeightType::kF32, {0}), std::logic_error);
  EXPECT_THROW(declare(writer, "t", WeightType::kF32, {-4, -4}), std::logic_error);
  EXPECT_THROW(declare(writer, "t", WeightType::kF32, {INT64_MAX, 2}), std::logic_error);
  EXPECT_THROW(declare(writer, "t", WeightType::kQ4_K, {128, 2}), std::logic_error);
  EXPECT_THROW(declare(writer, "", WeightType::kF32, {1}), std::logic_error);
}

TEST_F(GgufWriterTest, ErrorsOfTheSystemNameTheFile) {
  try {
    GgufWriter writer(folder_ / "none" / "model.gguf");
    FAIL();
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string(error.what()).find("none/model.gguf"), std::string::npos);
    EXPECT_EQ(error.code(), std::errc::no_such_file_or_directory);
  }
}

}  // namespace
}  // namespace greta
