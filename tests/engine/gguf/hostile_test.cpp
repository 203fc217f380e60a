#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/forward/model.h"
#include "engine/gguf/file.h"
#include "tests/engine/gguf/bytes.h"

namespace greta {
namespace {

std::string error_of(const GgufBytes& bytes) {
  try {
    GgufFile::parse(bytes.span(), "model.gguf");
  } catch (const GgufError& error) {
    return error.what();
  }
  return "no error";
}

struct Hostile {
  std::string_view name;
  GgufBytes bytes;
  std::string_view message;  // after "model.gguf: "
};

GgufBytes entry_file(uint32_t type) { return GgufBytes(0, 1).key("k", type); }
GgufBytes tensor_file(std::initializer_list<uint64_t> dims, uint32_t type, uint64_t offset) {
  return GgufBytes(1, 0).tensor("t", dims, type, offset).pad().data(144);
}

const std::vector<Hostile>& hostile_files() {
  static const std::vector<Hostile> files{
      {"empty", GgufBytes(), "header at byte 0: the file is empty: not a GGUF file"},
      {"short", GgufBytes().text("GG"), "header at byte 0: the bytes GGUF are missing"},
      {"older", GgufBytes().text("tjgg").put(3),
       "header at byte 0: this is a GGML file from before"},
      {"pointer", GgufBytes().text("version https://git-lfs"),
       "header at byte 0: this is a Git LFS"},
      {"big_endian", GgufBytes(0, 0, 0x03000000), "header at byte 4: the file is big-endian"},
      {"version_1", GgufBytes(0, 0, 1),
       "header at byte 4: GGUF version 1 is not supported; versions 2 and 3 are"},
      {"no_counts", GgufBytes().text("GGUF").put(3),
       "header at byte 8: the file ends within the tensor count: it is truncated"},
      {"many_tensors", GgufBytes(UINT64_MAX, 0).data(100),
       "header at byte 8: 18446744073709551615 tensors do not fit in a file of 124 bytes"},
      {"many_entries", GgufBytes(1, UINT64_MAX / 13 + 2).data(100),
       "header at byte 16: 1418980313362273203 metadata entries do not fit"},
      {"long_key", GgufBytes(0, 1).put(UINT64_MAX).data(50),
       "metadata entry 0 at byte 24: the key of 18446744073709551615 bytes runs past the end"},
      {"no_key", GgufBytes(0, 1).string("").put(4).put(5),
       "metadata entry 0 at byte 24: the key is"},
      {"key_twice", GgufBytes(0, 2).entry("k", 4, 1).entry("k", 4, 2),
       "metadata key 'k' at byte 41: the key occurs twice"},
      {"ugly_key", GgufBytes(0, 1).key("a\nb\xff'", 99).data(9),
       "metadata key 'a\\x0ab\\xff'' at byte 37: value type 99 is unknown; types 0 (uint8) to 12"},
      {"huge_key", GgufBytes(0, 1).key(std::string(5000, 'k'), 99).data(9),
       "metadata key "
       "'kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk'… "},
      {"short_value", entry_file(12).put(uint32_t{0}),
       "metadata key 'k' at byte 37: the file ends within the value: it is truncated"},
      {"bool_2", entry_file(7).put(uint8_t{2}).data(9),
       "metadata key 'k' at byte 37: a bool of value 2"},
      {"array_of_bool_2", GgufBytes(0, 1).array<uint8_t>("k", 7, {1, 0, 255}),
       "metadata key 'k' at byte 51: a bool of value 255; 0 and 1 are supported"},
      {"long_string", entry_file(8).put(uint64_t{10}).text("short"),
       "metadata key 'k' at byte 37: the string of 10 bytes runs past the end of the file, 5 "
       "bytes"},
      {"nested_array", entry_file(9).put(9).put(uint64_t{1}).data(20),
       "metadata key 'k' at byte 37: an array of arrays is not supported"},
      {"array_of_13", entry_file(9).put(13).put(uint64_t{0}),
       "metadata key 'k' at byte 37: element type"},
      {"long_array", entry_file(9).put(10).put(UINT64_MAX / 8 + 1).data(20),
       "metadata key 'k' at byte 37: 2305843009213693952 elements of type uint64 run past the end"},
      {"many_strings", entry_file(9).put(8).put(uint64_t{1000}).data(20),
       "metadata key 'k' at byte 37: 1000 elements of type string run past the end of the file, "
       "20"},
      {"alignment_12", GgufBytes(0, 1).entry("general.alignment", 4, 12),
       "metadata key 'general.alignment' at byte 32: alignment 12 is not supported; powers of two"},
      {"alignment_real", GgufBytes(0, 1).entry("general.alignment", 6, 32.0f),
       "metadata key 'general.alignment' at byte 32: a value that is no unsigned integer"},
      {"long_name", GgufBytes(1, 0).put(uint64_t{1000}).data(50),
       "tensor 0 at byte 24: the name of 1000 bytes runs past the end of the file"},
      {"no_name", GgufBytes(1, 0).tensor("", {1}, 0, 0).pad().data(4),
       "tensor 0 at byte 24: the name is"},
      {"name_twice", GgufBytes(2, 0).tensor("t", {1}, 0, 0).tensor("t", {1}, 0, 32).pad().data(64),
       "tensor 't' at byte 57: the name occurs twice"},
      {"no_dims", tensor_file({}, 0, 0),
       "tensor 't' at byte 33: 0 dimensions are not supported; 1 to 4"},
      {"dim_0", tensor_file({4, 0}, 0, 0), "tensor 't' at byte 45: dimension 1 is 0"},
      {"dims_overflow", tensor_file({uint64_t{1} << 32, uint64_t{1} << 31}, 0, 0),
       "tensor 't' at byte 45: dimension 1 of 2147483648: the number of values overflows 63 bits"},
      {"iq4_xs", tensor_file({256}, 23, 0),
       "tensor 't' at byte 45: type 23 (iq4_xs) is not supported; supported: f32, f16, bf16, q4_0, "
       "q4_1, q5_0, q5_1, q8_0, iq4_nl, q2_k, q3_k, q4_k, q5_k, q6_k"},
      {"type_1000", tensor_file({256}, 1000, 0),
       "tensor 't' at byte 45: type 1000 (unknown) is not"},
      {"part_of_block", tensor_file({128, 2}, 12, 0),
       "tensor 't' at byte 53: rows of 128 values do not fill blocks of 256, as q4_k needs"},
      {"offset_odd", tensor_file({4}, 0, 16),
       "tensor 't' at byte 49: data offset 16 is not a multiple of the file's alignment, 32"},
      {"offset_far", tensor_file({4}, 0, uint64_t{1} << 63),
       "tensor 't' at byte 49: 4 values of type f32 at data offset 9223372036854775808 run past "
       "the "
       "end of the file, which has 144 bytes of data: truncated or damaged"},
      {"overlap", GgufBytes(2, 0).tensor("t", {9}, 0, 0).tensor("u", {1}, 0, 32).pad().data(144),
       "tensor 'u' at byte 82: shares bytes with tensor 't'; every tensor must have its own"},
  };
  return files;
}

TEST(Gguf, HostileFilesGetOneClearLine) {
  for (const Hostile& hostile : hostile_files()) {
    const std::string error = error_of(hostile.bytes);
    EXPECT_TRUE(error.starts_with("model.gguf: ")) << hostile.name << ": " << error;
    EXPECT_NE(error.find(hostile.message), std::string::npos)
        << hostile.name << ": " << error << "\nexpected: " << hostile.message;
    EXPECT_EQ(error.find('\n'), std::string::npos) << hostile.name;
    EXPECT_LT(error.size(), 400u) << hostile.name;
  }
}

TEST(Gguf, NamesThatAModelIsRefusedForStayOnOneLine) {
  const GgufBytes bytes = GgufBytes(0, 1).key("general.architecture", 8).string("ll\tm\na");
  const GgufFile file = GgufFile::parse(bytes.span(), "model.gguf");
  try {
    const Model model(file);
    FAIL() << "a model of another architecture";
  } catch (const GgufError& error) {
    EXPECT_STREQ(error.what(),
                 "model.gguf: general.architecture is 'll\\x09m\\x0aa'; greta supports llama, "
                 "qwen2, qwen3");
  }
}

}  // namespace
}  // namespace greta
