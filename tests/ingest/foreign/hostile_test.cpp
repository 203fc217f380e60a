// Files of other tools that are broken, lie or mean harm: a clear error, no row of what they lie
// about, and nothing is run.
#include "tests/ingest/foreign/made_files.h"

namespace greta {
namespace {

using namespace made;

struct HostileFile {
  const char* name;
  std::string bytes;
  const char* says;  ///< part of the error
};

struct HostileForeign : ForeignImporting {
  void expect_refused(const HostileFile& file) {
    SCOPED_TRACE(file.says);
    const IngestSummary done = take_file(std::string("x/") + file.name, file.bytes);
    EXPECT_GE(done.errors, 1) << findings();  // libarchive 3.7 reads on where 3.6 ends
    EXPECT_EQ(done.rows, 0);
    EXPECT_NE(findings().find(file.says), std::string::npos) << findings();
    EXPECT_EQ(count("run_verdict", "verdict = 'PASS'"), 0);
    fs::remove_all(folder / "in");
    db.exec("DELETE FROM ingest_error; DELETE FROM source_location; DELETE FROM source");
  }
  static std::string tensor(std::vector<int64_t> shape, std::vector<int64_t> stride,
                            int64_t offset = 0) {
    return pickled_dict({{"x", pickled(MadeTensor{"0", "FloatStorage", std::move(shape),
                                                  std::move(stride), offset, 4})}});
  }
  static std::string with_16_bytes(const std::string& value) {
    return torch_file(value, {std::string(16, '\0')});
  }
};

TEST_F(HostileForeign, APickleThatAsksForCodeIsRefusedAndNamed) {
  const fs::path mark = folder / "run";
  const std::string command = "touch " + mark.string();
  for (const std::string name : {"posix\nsystem", "os\nsystem", "builtins\neval",
                                 "__builtin__\nexec", "subprocess\nPopen", "torch.hub\nload"}) {
    std::string shown = name;
    shown.replace(shown.find('\n'), 1, ".");
    if (shown.starts_with("__builtin__")) shown.replace(0, 11, "builtins");
    expect_refused({"a.pt", torch_file("c" + name + "\n(" + pickled(command) + "tR", {}),
                    ("asks for " + shown).c_str()});
  }
  expect_refused({"stack_global.pt",
                  torch_file(pickled(std::string("os")) + pickled(std::string("system")) + "\x93(" +
                                 pickled(command) + "tR",
                             {}),
                  "asks for os.system"});
  expect_refused(
      {"inst.pt", torch_file("(" + pickled(command) + "iposix\nsystem\n", {}), "opcode 105"});
  EXPECT_FALSE(fs::exists(mark));
}

TEST_F(HostileForeign, PicklesThatAreNoPrograms) {
  const auto raw = [](const std::string& pickle) { return zipped({{"a/data.pkl", pickle}}); };
  expect_refused({"a.pt", raw(""), "is truncated"});
  expect_refused({"b.pt",
                  raw("\x80\x02}(X\xff\xff\xff\x7f"
                      "a"),
                  "is truncated"});
  expect_refused({"c.pt", raw("."), "empty stack"});
  expect_refused({"d.pt", raw("t."), "no mark"});
  expect_refused({"e.pt", raw(std::string("h\0.", 3)), "did not remember"});
  expect_refused(
      {"f.pt", raw(std::string(1'500'000, ']') + "."), "more than half a million values"});
  expect_refused({"g.pt", raw(std::string("]q\0h\0a.", 7)), "nests too many values"});
  expect_refused({"h.pt", raw("K\1K\2R."), "calls what is no function"});
  std::string laughs = "](K\1K\1e";  // a list of two, in a list of two, ...
  for (int i = 0; i < 30; ++i) {
    const std::string at(1, static_cast<char>(i));
    laughs = laughs + "q" + at + "0](h" + at + "h" + at + "e";
  }
  expect_refused({"laughs.pt", raw(laughs + "."), "nests too many values"});
}

TEST_F(HostileForeign, FilesThatAreNamedLikeTensorsAndAreNoneSayWhatTheyAre) {
  expect_refused({"before_1_6.pt",
                  std::string("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 14),
                  "what torch.save wrote before PyTorch 1.6"});
  expect_refused({"tar.pt", tarred({{"sys_info", "\x80\x02}."}, {"pickle", "\x80\x02}."}}),
                  "a tar, as the first versions of PyTorch wrote them"});
  expect_refused({"two.pkl", "\x80\x02}q.", "a bare pickle of protocol 2"});
  expect_refused({"zero.pkl", "(dp0\nVa\np1\nI5\ns.", "a bare pickle of protocol 0 or 1"});
  expect_refused({"one.pt", "}q.", "load it where you trust it, and torch.save() its tensors"});
  expect_refused({"text.pt", "hello", "neither a ZIP nor a pickle"});
  expect_refused({"text.npz", "hello", "no ZIP, though it is named like one"});
  expect_refused({"none.npz", zipped({}), "a ZIP of nothing"});
  expect_refused({"text.npy", "hello", "no array of NumPy"});
  expect_refused({"text.safetensors", "hello", "not even the length of a header"});
  expect_refused({"empty.safetensors", "", "an empty file"});
  expect_refused({"lfs.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
                  "git lfs pull"});
}

TEST_F(HostileForeign, HeadersOfZipsThatContradictEachOther) {
  const std::string zip =
      zipped({{"x.npy", npy("'<f4'", "(1,)", "1234")}, {"y.npy", npy("'<f4'", "(1,)", "1234")}});
  const std::string one = zipped({{"x.npy", npy("'<f4'", "(1,)", "1234")}});
  const auto changed = [&](size_t at, const std::string& bytes) {
    return with_header_bytes(one, "PK\1\2", at, bytes);
  };
  expect_refused({"crc.npz", with_header_bytes(zip, "PK\3\4", 14, "abcd"), "Inconsistent CRC32"});
  expect_refused({"packed.npz", changed(20, little(uint32_t{8})), "the ZIP is damaged"});
  expect_refused({"size.npz", changed(24, little(uint32_t{8})), "the ZIP is damaged"});
  std::string same_place = zip;
  const size_t second = zip.rfind("PK\1\2");
  same_place.replace(second + 42, 4, little(uint32_t{0}));
  expect_refused({"place.npz", same_place, "it claims 2 members, and has 1"});
  expect_refused({"count.npz", std::string(zip).replace(zip.find("PK\5\6") + 8, 4, "\1\0\1\0", 4),
                  "it claims 1 members, and has 2"});
  expect_refused(
      {"twice.npz",
       zipped({{"x.npy", npy("'<f4'", "(1,)", "1234")}, {"x.npy", npy("'<f4'", "(1,)", "5678")}}),
       "two members x.npy"});
}

TEST_F(HostileForeign, AnEncryptedZipIsCalledSo) {
  const std::string flag = little(uint16_t{1});
  const std::string zip = zipped({{"x.npy", npy("'<f4'", "(1,)", "1234")}});
  expect_refused({"x.npz",
                  with_header_bytes(with_header_bytes(zip, "PK\3\4", 6, flag), "PK\1\2", 8, flag),
                  "member x.npy of the ZIP is encrypted"});
}

TEST_F(HostileForeign, TensorsThatLieAboutTheirSize) {
  expect_refused({"a.pt", with_16_bytes(tensor({-2}, {1})), "shape is not of numbers"});
  expect_refused(
      {"b.pt", with_16_bytes(tensor({INT64_MAX}, {1})), "larger than any tensor can be"});
  expect_refused({"c.pt", with_16_bytes(tensor({INT64_MAX, INT64_MAX}, {INT64_MAX, 1})),
                  "larger than any tensor"});
  expect_refused({"d.pt", with_16_bytes(tensor({5}, {1})), "reaches to byte 20 of its 16"});
  expect_refused({"e.pt", with_16_bytes(tensor({2}, {1}, 3)), "reaches to byte 20 of its 16"});
  expect_refused({"f.pt", with_16_bytes(tensor({2}, {INT64_MAX})), "can"});
  expect_refused(
      {"g.pt", with_16_bytes(tensor({1 << 30}, {0})), "not contiguous, and larger than 32 MiB"});
  expect_refused({"h.pt", torch_file(tensor({4}, {1}), {}), "which the ZIP lacks"});
  expect_refused({"i.npy", npy("'<f4'", "(4,)", "short"), "reaches to byte"});
  expect_refused({"j.npy", npy("'<f4'", "(9223372036854775807,)", ""), "larger than any tensor"});
  expect_refused({"k.npy", npy("'<f4'", "(99999999999999999999,)", ""), "no shape of numbers"});
  expect_refused({"more.npy", npy("'<f4'", "(1,)", "12345678"), "has 4 bytes behind its values"});
  expect_refused({"more.npz", zipped({{"x.npy", npy("'<f4'", "(1,)", "12345678")}}),
                  "tensor x [1] has 4 bytes behind its values"});
  const std::string claim =
      R"({"x":{"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,4]}})";
  expect_refused({"l.safetensors", safetensors(claim, "1234"), "can"});
}

TEST_F(HostileForeign, ArraysOfTypesThatAreNotRead) {
  expect_refused({"a.npy", npy("'|O'", "(1,)", "12345678"), "a pickle of objects"});
  expect_refused({"b.npy", npy("'>f4'", "(1,)", "1234"), "type '>f4'"});
  expect_refused({"c.npy", npy("[('a', '<f4')]", "(1,)", "1234"), "records"});
  expect_refused({"d.npy", npy("'<c8'", "(1,)", "12345678"), "type '<c8'"});
  expect_refused({"e.npy", std::string("\x93NUMPY\x01\x00\xff\xff", 10), "beyond its end"});
  expect_refused(
      {"f.npy", std::string("\x93NUMPY\x09\x00\x02\x00{}", 12), "version that is not known"});
}

TEST_F(HostileForeign, HeadersOfArraysThatNumpyWouldNotWrite) {
  const auto refused = [&](const std::string& header, const char* says) {
    expect_refused({"x.npy", npy_of_header(header, "1234"), says});
  };
  refused("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", "no dict of Python");
  refused("{'descr': '<f4', 'fortran_order': 1, 'shape': (1,), }", "no fortran_order");
  refused("{'descr': '<f4', 'descr': '<i4', 'fortran_order': False, 'shape': (1,), }",
          "\"descr\" is written twice");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}", "more keys");
  refused("{'descr': '<f4', 'shape': (1,), }", "has no 'fortran_order'");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,", "no dict of Python");
  refused("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} 5", "no dict of Python");
  refused("{'descr': [" + std::string(1, '\0') + "], 'fortran_order': False, 'shape': (1,)}",
          "no dict of Python");
}

TEST_F(HostileForeign, HeadersOfSafetensorsThatAreNone) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const auto claiming = [&](uint64_t length) { return little(length) + header + "1234"; };
  expect_refused({"a.safetensors", claiming(uint64_t{1} << 40), "claims 1099511627776 bytes"});
  expect_refused({"b.weights", claiming(uint64_t{1} << 63), "claims 9223372036854775808 bytes"});
  expect_refused(
      {"c.safetensors",
       safetensors(R"({"\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "1234"),
       "no JSON object (not valid JSON at byte 8"});
  expect_refused({"d.safetensors", safetensors(header.substr(1), "1234"), "its header is no JSON"});
}

TEST_F(HostileForeign, FilesThatAreCut) {
  const std::string header = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  expect_refused({"a.safetensors", safetensors(header, "12"), "lies at bytes 0 to 4 of 2"});
  expect_refused({"b.safetensors", safetensors(header, "").substr(0, 30), "its header claims"});
  expect_refused({"c.safetensors", little(uint64_t{20'000}) + "{\"x\":", "its header claims"});
  const std::string whole = with_16_bytes(tensor({4}, {1}));
  expect_refused({"d.pt", whole.substr(0, whole.size() / 2), "ZIP is damaged"});
  expect_refused(
      {"dump.json",
       R"({"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": null, "data": {"Mod)",
       "no whole JSON object"});
  expect_refused({"log.json",
                  R"({"format": "torch.utils._debug_mode.DebugMode.logs", "version": 1, "logs": [)",
                  "no whole JSON object"});
  expect_refused(
      {"log2.json",
       R"({"format": "torch.utils._debug_mode.DebugMode.logs", "version": 2, "logs": []})",
       "version of DebugMode's logs"});
}

TEST_F(HostileForeign, AZipThatExpandsToFarMoreThanItsSizeIsStopped) {
  const std::string header = npy("'|u1'", "(142606336,)", "");
  const std::string bomb = zipped({{"x.npy", header + std::string(136u << 20, '\0')}}, true);
  ASSERT_LT(bomb.size(), 2u << 20);
  expect_refused({"bomb.npz", bomb, "expands to more than 100 times its size"});
}

TEST_F(HostileForeign, ManyNestedJsonIsNoCrash) {
  const std::string deep(100'000, '[');
  expect_refused(
      {"dump.json",
       R"({"task": "x", "level": "L1", "framework": "p", "dump_data_dir": null, "data": )" + deep,
       "JSON nested deeper than 64"});
}

TEST_F(HostileForeign, ADatabaseIsPointedToMerge) {
  folder.write("in/other.db", "");
  { SQLite::Database other = open_for_writing(folder / "in/other.db"); }
  const IngestSummary done = take("in");
  EXPECT_EQ(done.taken, 0);
  EXPECT_NE(findings().find("greta-db merge"), std::string::npos) << findings();
}

}  // namespace
}  // namespace greta
