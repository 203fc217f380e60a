// msprobe, DebugMode and llama.cpp's debug text.
#include "tests/ingest/foreign/made_files.h"

namespace greta {
namespace {

struct ForeignText : ForeignImporting {
  static std::string tensor(const std::string& more, const std::string& shape = "[1, 7, 16]") {
    return R"({"type": "torch.Tensor", "dtype": "torch.float32", "shape": )" + shape + ", " + more +
           "}";
  }
  static std::string dump(const std::string& data) {
    return R"({"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": null,)"
           R"("data": {)" +
           data + "}}";
  }
  static std::string output(const std::string& call, const std::string& tensors) {
    return "\"" + call + R"(": {"input_args": [], "input_kwargs": {}, "output": [)" + tensors +
           "]}";
  }
  /// run_diff of the two runs that there are, by name.
  static std::string diff_sql(const std::string& columns) {
    return "SELECT " + columns +
           " FROM run_diff WHERE run_a = (SELECT min(name) FROM run)"
           " AND run_b = (SELECT max(name) FROM run) ORDER BY tensor";
  }
  std::string diff(const std::string& columns = "status, class, scope") {
    return rows(diff_sql(columns));
  }
};

TEST_F(ForeignText, AMsprobeDumpIsARowForEachTensor) {
  folder.write(
      "d/step2/rank1/dump.json",
      dump(output("Module.model.layers.4.self_attn.o_proj.Linear.forward.0",
                  tensor(R"("Max": 2.5, "Min": -1.5, "Mean": 0.5, "Norm": 11.25)")) +
           "," + R"("Functional.linear.9.forward": {"input_args": [)" +
           tensor(R"("Max": true, "Min": false, "Mean": null, "Norm": null)", "[2]") +
           R"(, {"type": "int", "value": 3}], "input_kwargs": {"w": )" +
           tensor(R"("Max": 1, "Min": 1, "Mean": 1, "Norm": 2)", "[4]") + R"(}, "output": []})"));
  folder.write("d/step2/rank1/construct.json",
               R"({"Functional.linear.9.forward": "Module.model.layers.4.mlp.X.forward.0",)"
               R"("Module.model.layers.4.mlp.X.forward.0": null})");
  EXPECT_EQ(take("d").errors, 0) << findings();
  EXPECT_EQ(traced("prompt, phase, step, pos_id, layer, tensor, n, min, max, mean, scope"),
            "rank1|forward|2|-|4|wo_out|112|-1.5|2.5|0.5|tensor\n"
            "rank1|forward|2|-|4|Functional.linear.0.forward.input.0|2|0.0|1.0|-|tensor\n"
            "rank1|forward|2|-|4|Functional.linear.0.forward.input.w|4|1.0|1.0|1.0|tensor");
  EXPECT_EQ(rows("SELECT json_extract(extra, '$.Norm') FROM trace WHERE tensor = 'wo_out'"),
            "11.25");
  EXPECT_EQ(rows("SELECT dtype FROM run"), "f32");
  EXPECT_EQ(count("run"), 1);
}

TEST_F(ForeignText, AModuleThatIsCalledAgainIsAnotherTracePoint) {
  const char* same = R"("Max": 1, "Min": 0, "Mean": 0, "Norm": 1)";
  take_file("dump.json", dump(output("Module.model.layers.4.mlp.M.forward.0", tensor(same)) + "," +
                              output("Module.model.layers.4.mlp.M.forward.1", tensor(same))));
  EXPECT_EQ(traced("layer, tensor"), "4|mlp_out\n4|mlp_out #2");
}

TEST_F(ForeignText, AnInputThatNoModulePutsOutIsATracePoint) {
  const std::string same = tensor(R"("Max": 1, "Min": 0, "Mean": 0, "Norm": 1)");
  take_file("dump.json",
            dump(R"("Module.model.layers.4.self_attn.o_proj.Linear.forward.0": {"input_args": [)" +
                 same + R"(], "input_kwargs": {}, "output": [)" + same + "]}"));
  EXPECT_EQ(traced("layer, tensor"), "4|attn_out\n4|wo_out");
}

TEST_F(ForeignText, ValuesThatMsprobeSaysAreNotFiniteCount) {
  take_file("dump.json",
            dump(output("Module.x.L.forward.0",
                        tensor(R"("Max": NaN, "Min": -Infinity, "Mean": NaN, "Norm": NaN)"))));
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "FAIL");
  EXPECT_EQ(traced("min, max, json_extract(extra, '$.Min')"), "-|-|-Infinity");
}

TEST_F(ForeignText, RunsOfStatisticsDifferWhereStatisticsDoAndNeverMatch) {
  const auto run = [&](const char* name, const char* second) {
    folder.write(std::string(name) + "/dump.json",
                 dump(output("Module.a.L.forward.0",
                             tensor(R"("Max": 1, "Min": -1, "Mean": 1e-9, "Norm": 1)")) +
                      "," + output("Module.b.L.forward.0", tensor(second))));
    take(name);
  };
  run("one", R"("Max": 1, "Min": -1, "Mean": 0, "Norm": 1)");
  run("two", R"("Max": 1.5, "Min": -1, "Mean": 0, "Norm": 1)");
  EXPECT_EQ(diff("tensor, status, class, scope"),
            "Module.a.L.forward.0.output.0|INCOMPARABLE|-|tensor\n"
            "Module.b.L.forward.0.output.0|DRIFT|UNKNOWN|tensor");
  EXPECT_EQ(
      rows(
          "SELECT verdict, numeric_verdict, match FROM diff_verdict WHERE run_a = (SELECT min(name)"
          " FROM run) AND run_b = (SELECT max(name) FROM run)"),
      "FAIL|INCOMPARABLE|0");
  EXPECT_EQ(rows("SELECT DISTINCT verdict FROM run_verdict"), "NO_EVIDENCE");
}

TEST_F(ForeignText, HashesOfMsprobeCompareWithThoseOfTheirAlgorithm) {
  const auto run = [&](const char* name, const char* a, const char* b) {
    const std::string same = R"("Max": 1, "Min": -1, "Mean": 0, "Norm": 1, "md5": ")";
    folder.write(std::string(name) + "/dump.json",
                 dump(output("Module.a.L.forward.0", tensor(same + a + "\"")) + "," +
                      output("Module.b.L.forward.0", tensor(same + b + "\""))));
    take(name);
  };
  run("one", "1a2b3c4d", "ffffffff");
  run("two", "1A2B3C4D", "fffffffe");
  EXPECT_EQ(rows("SELECT DISTINCT hash_algo FROM run"), "crc-32");
  EXPECT_EQ(rows("SELECT hash FROM trace WHERE tensor GLOB 'Module.a*' AND run GLOB '*one*'"),
            "439041101");
  EXPECT_EQ(diff("status, class, scope"), "MATCH|-|tensor\nDRIFT|UNKNOWN|tensor");
  run("two", "00112233445566778899aabbccddeeff", "1a2b3c4d");
  EXPECT_NE(findings().find("neither CRC-32 nor MD5 as the others"), std::string::npos)
      << findings();
}

TEST_F(ForeignText, ARunHasHashesByOneAlgorithm) {
  folder.write("in/dump.json",
               dump(output("Module.a.L.forward.0", tensor(R"("Max": 1, "md5": "1a2b3c4d")"))));
  folder.write("in/x.npy", made::npy("'<f4'", "(1,)", made::bytes_of_values<float>({1})));
  take("in");
  EXPECT_EQ(traced("tensor, hash IS NULL"), "Module.a.L.forward.0.output.0|0\nx|1");
  EXPECT_NE(findings().find("its hashes (greta-1) are by another algorithm"), std::string::npos);
}

constexpr const char* kDebugLogs =
    R"({"format": "torch.utils._debug_mode.DebugMode.logs", "version": 1, "logs": [)"
    R"({"type": "annotate", "call_depth": 1, "tag": "Llama.model.layers.3.mlp", "header": "nn.Mod", "log": null},)"
    R"({"type": "op", "call_depth": 2, "op_name": "aten::mm", "args_str": "t: f32[2, 3], t: f32[3, 4]",)"
    R"( "kwargs_str": "", "output_str": "  ->  t: f32[2, 4]", "log": {"type": "dict", "items": [)"
    R"(["input_hash", {"type": "tuple", "items": [{"type": "scalar", "value": 3.5}, {"type": "scalar", "value": 4.5}]}],)"
    R"(["hash", {"type": "scalar", "value": %}]]}},)"
    R"({"type": "op", "call_depth": 1, "op_name": "aten::sum", "args_str": "", "kwargs_str": "",)"
    R"( "output_str": "  ->  t: f32[2]", "log": {"type": "dict", "items": [["hash", {"type": "scalar", "value": 18446744073709551615}]]}},)"
    R"({"type": "op", "call_depth": 1, "op_name": "aten::view", "args_str": "", "kwargs_str": "", "log": null}]})";

std::string debug_logs(const std::string& value) {
  std::string text = kDebugLogs;
  return text.replace(text.find('%'), 1, value);
}

TEST_F(ForeignText, DebugModesLogsAreARowForEachHash) {
  EXPECT_EQ(take_file("log.json", debug_logs("12.25")).errors, 0) << findings();
  EXPECT_EQ(traced("layer, tensor, n, abs_sum, hash, scope"),
            "3|Llama.model.layers.N.mlp.aten::mm.0.input.0|6|3.5|-|tensor\n"
            "3|Llama.model.layers.N.mlp.aten::mm.0.input.1|12|4.5|-|tensor\n"
            "3|Llama.model.layers.N.mlp.aten::mm.0.output|8|12.25|-|tensor\n"
            "0|aten::sum.output|2|-|18446744073709551615|tensor");
  EXPECT_EQ(rows("SELECT hash_algo FROM run"), "torch-xor");
}

TEST_F(ForeignText, AnXorThatIsEqualIsNoMatchForItKnowsNoOrder) {
  folder.write("a/log.json", debug_logs("12.25"));
  folder.write("b/log.json", debug_logs("12.5"));
  take("a");
  take("b");
  EXPECT_EQ(diff("tensor, status"),
            "Llama.model.layers.N.mlp.aten::mm.0.input.0|INCOMPARABLE\n"
            "Llama.model.layers.N.mlp.aten::mm.0.input.1|INCOMPARABLE\n"
            "Llama.model.layers.N.mlp.aten::mm.0.output|DRIFT\naten::sum.output|INCOMPARABLE");
}

std::string llama_tensor(const std::string& header, const std::string& values,
                         const std::string& sum) {
  return "common_debug_cb_eval: " + header + "\n    [\n        [\n            [ " + values +
         " ],\n            ..., \n        ],\n    ]\n    sum = " + sum + "\n";
}

TEST_F(ForeignText, LlamaTensorsAreTracePointsByNameAndOperation) {
  const std::string first = llama_tensor(
      "embd = (f32)   GET_ROWS(token_embd.weight{8, 9, 1, 1}, inp{7, 1, 1, 1}}) = {8, 7, 1, 1}",
      "1.5000, -0.2500, ..., 0.1250", "-13.428455");
  folder.write(
      "in/debug.txt",
      "some log line\n" + first +
          llama_tensor("Qcur-2 = (f32)   MUL_MAT(blk.2.attn_q.weight{8, 8, 1, 1}, x{8, 7, 1, 1}}) "
                       "= {8, 7, 1, 1}",
                       "0.1000", "5.6") +
          llama_tensor(
              "Qcur-2 = (f32)   ROPE(Qcur-2{4, 2, 7, 1}, inp_pos{7, 1, 1, 1}}) = {4, 2, 7, 1}",
              "0.1000", "5.6") +
          llama_tensor("norm-2 = (f32) RMS_NORM(x{8, 7, 1, 1}, }) = {8, 7, 1, 1}", "0.1000",
                       "5.6") +
          llama_tensor("norm-2 = (f32) RMS_NORM(y{8, 7, 1, 1}, }) = {8, 7, 1, 1}", "0.1000",
                       "5.6") +
          llama_tensor(
              "node_77 = (f32) FLASH_ATTN_EXT(q{8, 7, 1, 1}, k{8, 7, 1, 1}}) = {8, 7, 1, 1}", "nan",
              "nan") +
          first +
          "common_debug_cb_eval: l_out-0 = (f32) ADD(a{8, 7, 1, 1}, b{8, 7, 1, 1}}) = {8, 7, 1, "
          "1}\n    [\n");
  EXPECT_EQ(take("in").errors, 1) << findings();
  EXPECT_EQ(traced("step, layer, tensor, n, round(mean, 6), nan, scope"),
            "0|0|embed_out|56|-0.239794|-|tensor\n0|2|q_pre_rope|56|0.1|-|tensor\n"
            "0|2|q_post_rope|56|0.1|-|tensor\n0|2|norm-N RMS_NORM|56|0.1|-|tensor\n"
            "0|2|norm-N RMS_NORM #2|56|0.1|-|tensor\n0|2|node FLASH_ATTN_EXT|56|-|1|tensor\n"
            "1|0|embed_out|56|-0.239794|-|tensor");
  EXPECT_NE(findings().find("tensor l_out-0 is printed without its sum"), std::string::npos);
}

TEST_F(ForeignText, PrintedValuesThatAreEqualAreRoundingAndNoMatch) {
  const std::string header = "l_out-0 = (f32) ADD(a{8, 7, 1, 1}, b{8, 7, 1, 1}}) = {8, 7, 1, 1}";
  int files = 0;
  const auto diff_of = [&](const char* values, const char* sum) {
    SQLite::Database fresh = open_for_writing(folder / (std::to_string(++files) + ".db"));
    folder.write("a/d.txt", llama_tensor(header, "1.5000, -0.2500", "9"));
    folder.write("b/d.txt", llama_tensor(header, values, sum));
    ingest_all(fresh, {folder / "a", folder / "b"});
    return text_of(fresh, diff_sql("status, class"));
  };
  EXPECT_EQ(diff_of("1.5000, -0.2500", "9"), "INCOMPARABLE|ROUNDING");
  EXPECT_EQ(diff_of("1.5000, -0.2500", "10"), "INCOMPARABLE|ROUNDING")
      << "a sum that may cancel contradicts nothing";
  EXPECT_EQ(diff_of("1.5001, -0.2500", "9"), "DRIFT|ROUNDING");
  EXPECT_EQ(diff_of("1.9000, -0.2500", "9"), "DRIFT|DIVERGENT");
}

}  // namespace
}  // namespace greta
