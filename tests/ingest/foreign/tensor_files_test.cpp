// .npy, .npz and .safetensors.
#include <cmath>

#include "kernels/blocks.h"
#include "kernels/fingerprint/fingerprint.h"
#include "tests/ingest/foreign/made_files.h"

namespace greta {
namespace {

using namespace made;

struct TensorFileOf : ForeignImporting {};

TEST_F(TensorFileOf, ANpyIsATensorByTheNameOfItsFile) {
  folder.write("in/model.layers.1.mlp.npy",
               npy("'<f4'", "(2, 2)", bytes_of_values<float>({1, -2, 3, 4})));
  folder.write("in/turned.npy", npy("'<f4'", "(2, 2)", bytes_of_values<float>({1, 3, 2, 4}), true));
  folder.write("in/step3/rank1/half.npy",
               npy("'<f2'", "(1,)", bytes_of_values<uint16_t>({0x3c00})));
  folder.write("in/flag.npy", npy("'|b1'", "(3,)", std::string("\1\0\1", 3)));
  EXPECT_EQ(take("in").errors, 0) << findings();
  EXPECT_EQ(rows("SELECT prompt, step, layer, tensor, n, min, max, nz_count, scope FROM trace "
                 "ORDER BY tensor"),
            "rank0|-|-1|flag|3|0.0|1.0|2|tensor\nrank1|3|-1|half|1|1.0|1.0|1|tensor\n"
            "rank0|-|1|mlp_out|4|-2.0|4.0|4|tensor\nrank0|-|-1|turned|4|1.0|4.0|4|tensor");
  EXPECT_EQ(rows("SELECT hash FROM trace WHERE tensor = 'turned'"), printed_hash({1, 2, 3, 4}));
  EXPECT_EQ(count("run"), 1) << "a folder is a run";
}

TEST_F(TensorFileOf, ANpzIsTensorsByKeyWithPositionsWhereItHasThem) {
  for (bool deflated : {false, true}) {
    folder.write("in/" + std::to_string(deflated) + ".npz",
                 zipped({{"model.norm.npy",
                          npy("'<f4'", "(2, 3)", bytes_of_values<float>({1, 2, 3, 4, 5, 6}))},
                         {"positions.npy", npy("'<i8'", "(2,)", bytes_of_values<int64_t>({7, 8}))}},
                        deflated));
  }
  EXPECT_EQ(take("in").errors, 0) << findings();
  EXPECT_EQ(
      rows("SELECT count(*), prompt, phase, pos_id, tensor, n, min FROM trace GROUP BY pos_id"),
      "2|seq0|prefill|7|final_norm|3|1.0\n2|seq0|prefill|8|final_norm|3|4.0");
  EXPECT_EQ(count("run"), 2) << "a file of keys is a run";
}

TEST_F(TensorFileOf, NamesOfAnNpzAreTakenInAnyLanguage) {
  std::string zip =
      zipped({{"gr\xc3\xb6\xc3\x9f"
               "e.npy",
               npy("'<f4'", "(1,)", bytes_of_values<float>({2}))}});
  // as numpy.savez writes it: bit 11, a name in UTF-8
  for (const auto& [magic, at] : {std::pair("PK\3\4", 7), {"PK\1\2", 9}}) {
    zip = with_header_bytes(zip, magic, static_cast<size_t>(at), "\x08");
  }
  EXPECT_EQ(take_file("x.npz", zip).errors, 0) << findings();
  EXPECT_EQ(traced("tensor, min"),
            "gr\xc3\xb6\xc3\x9f"
            "e|2.0");
}

TEST_F(TensorFileOf, AMemberOfAnNpzThatHoldsTensorsOfItsOwnIsAnErrorAndAnyOtherIsNone) {
  const std::string array = npy("'<f4'", "(1,)", "1234");
  const IngestSummary done = take_file("x.npz", zipped({{"x.npy", array},
                                                        {"inner.npz", zipped({{"y.npy", array}})},
                                                        {"named.pt", "?"},
                                                        {"array", array},
                                                        {"README", "text"}}));
  EXPECT_EQ(traced("tensor"), "x");
  EXPECT_EQ(done.errors, 3) << findings();
  EXPECT_EQ(done.warnings, 1);
  EXPECT_NE(findings().find("member inner.npz holds tensors of its own"), std::string::npos);
}

TEST_F(TensorFileOf, MetadataOfSafetensorsThatAreNoTextsAreAnErrorBesideTheTensors) {
  for (const char* metadata : {"5", R"({"format":5})"}) {
    take_file(std::string("m") + metadata[0] + ".safetensors",
              safetensors(std::string(R"({"__metadata__":)") + metadata +
                              R"(,"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                          "1234"));
  }
  EXPECT_EQ(traced("tensor"), "x\nx");
  EXPECT_EQ(findings(),
            "error 0 its __metadata__ is no object of texts\n"
            "error 0 its __metadata__ is no object of texts");
}

TEST_F(TensorFileOf, AFileWithoutTensorsSaysSo) {
  take_file("x.safetensors", safetensors("{}", ""));
  EXPECT_EQ(findings(), "warning 0 it has no tensor that greta reads");
}

TEST_F(TensorFileOf, SafetensorsAreTensorsByKey) {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"model.layers.5.self_attn.q_proj":{"dtype":"BF16","shape":[2],)"
      R"("data_offsets":[4,8]},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("f8":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[8,12]},)"
      R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[12,12]}})";
  const std::string data = bytes_of_values<float>({0.25f}) +
                           bytes_of_values<uint16_t>({f32_to_bf16(1.0f), f32_to_bf16(-3.0f)}) +
                           std::string("\x38\xb8\x01\x7e", 4);
  EXPECT_EQ(take_file("a.safetensors", safetensors(header, data)).errors, 0) << findings();
  EXPECT_EQ(rows("SELECT layer, tensor, n, min, max, hash IS NULL FROM trace ORDER BY tensor"),
            "-1|f8|4|-1.0|448.0|0\n-1|none|0|-|-|1\n5|q_pre_rope|2|-3.0|1.0|0\n-1|x|1|0.25|0.25|0");
  EXPECT_EQ(rows("SELECT hash FROM trace WHERE tensor = 'f8'"),
            printed_hash({1.0f, -1.0f, 0x1p-9f, 448.0f}));
}

TEST_F(TensorFileOf, WhatOneTensorLacksCostsOnlyThatTensor) {
  const std::string header =
      R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]},)"
      R"("b":{"dtype":"F32","shape":[2],"data_offsets":[0,4]},)"
      R"("c":{"dtype":"F32","shape":[1],"data_offsets":[4,400]},)"
      R"("d":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]},)"
      R"("e":{"dtype":"F32","shape":[1]},)"
      R"("f":{"dtype":"F32","shape":[9223372036854775808,9],"data_offsets":[0,4]},)"
      R"("ok":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const IngestSummary done = take_file("a.safetensors", safetensors(header, std::string(8, 0)));
  EXPECT_EQ(done.errors, 6) << findings();
  EXPECT_EQ(traced("tensor"), "ok");
  EXPECT_NE(findings().find("tensor a is of dtype F4, which greta does not read"),
            std::string::npos);
  EXPECT_NE(findings().find("tensor f is larger than any tensor can be"), std::string::npos);
}

TEST_F(TensorFileOf, OfTensorsThatShareBytesNoneIsTaken) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                             R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]},)"
                             R"("c":{"dtype":"F32","shape":[1],"data_offsets":[12,16]}})";
  const IngestSummary done = take_file("a.safetensors", safetensors(header, std::string(16, 0)));
  EXPECT_EQ(traced("tensor"), "c") << findings();
  EXPECT_EQ(done.errors, 2) << findings();
  EXPECT_NE(findings().find("tensor a shares bytes with tensor b, from byte 4 on"),
            std::string::npos);
}

TEST_F(TensorFileOf, BytesThatBelongToNoTensorAreErrors) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})";
  const IngestSummary done = take_file("a.safetensors", safetensors(header, std::string(16, 0)));
  EXPECT_EQ(traced("tensor"), "a\nb");
  EXPECT_EQ(done.errors, 2) << findings();
  EXPECT_NE(findings().find("bytes 4 to 8 of its data belong to no tensor"), std::string::npos);
  EXPECT_NE(findings().find("bytes 12 to 16"), std::string::npos);
}

TEST_F(TensorFileOf, AKeyThatStandsTwiceInSafetensorsIsRefused) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
  EXPECT_EQ(take_file("a.safetensors", safetensors(header, std::string(8, 0))).errors, 1);
  EXPECT_EQ(count("trace_row"), 0) << findings();
}

TEST_F(TensorFileOf, AnArrayInFortransOrderIsItsValuesInOursAlsoWhenLarge) {
  constexpr int kRows = 3000, kColumns = 3100;  // 37 MB
  std::vector<float> turned(size_t{kRows} * kColumns), values(turned.size());
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) {
      const auto value = static_cast<float>((r * 31 + c * 17) % 1009 - 500);
      values[static_cast<size_t>(r) * kColumns + static_cast<size_t>(c)] = value;
      turned[static_cast<size_t>(c) * kRows + static_cast<size_t>(r)] = value;
    }
  }
  const std::string shape = "(" + std::to_string(kRows) + ", " + std::to_string(kColumns) + ")";
  EXPECT_EQ(take_file("x.npy", npy("'<f4'", shape, bytes_of_values(turned), true)).errors, 0)
      << findings();
  EXPECT_EQ(traced("n, hash"), std::to_string(values.size()) + "|" + printed_hash(values));
}

TEST_F(TensorFileOf, ValuesThatAreNotFiniteFailTheirRun) {
  take_file("x.npy", npy("'<f4'", "(2,)", bytes_of_values<float>({std::nanf(""), 1})));
  EXPECT_EQ(traced("nan, min"), "1|1.0");
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "FAIL");
}

/// Each in a process of its own; the kernel tells its peak.
TEST(MemoryOfTensors, AFileOfTensorsThatAreLargerTakesLessThanTwoHundredMegabytes) {
  TemporaryFolder folder;
  constexpr uint64_t kEach = uint64_t{256} << 20;
  const std::string header =
      R"({"a":{"dtype":"F32","shape":[67108864],"data_offsets":[0,268435456]},)"
      R"("b":{"dtype":"BF16","shape":[134217728],"data_offsets":[268435456,536870912]}})";
  const fs::path file = folder.write("in/large.safetensors", safetensors(header, ""));
  fs::resize_file(file, fs::file_size(file) + 2 * kEach);  // sparse: zeros that lie nowhere
  const int status = in_child([&] {
    std::ofstream("/proc/self/clear_refs") << "5";
    SQLite::Database db = open_for_writing(folder / "g.db");
    const IngestSummary done = ingest_all(db, {folder / "in"}, 2);
    if (done.rows != 2 || done.errors != 0) return 250;
    std::ifstream lines("/proc/self/status");
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("VmHWM:")) return std::stoi(line.substr(6)) >> 10 > 200 ? 251 : 0;
    }
    return 252;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace greta
