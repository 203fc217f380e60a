// Files of torch.save: SGLang's passes and dumps, and any dict of tensors.
#include "kernels/blocks.h"
#include "kernels/fingerprint/fingerprint.h"
#include "tests/ingest/foreign/made_files.h"

namespace greta {
namespace {

using namespace made;

struct TorchFileOf : ForeignImporting {
  /// A pass of tokens at these positions, of sequences of these lengths, with one tensor of two
  /// values a token: 10 * position, 10 * position + 1.
  static std::string pass(const std::vector<int64_t>& positions,
                          const std::vector<int64_t>& lengths) {
    std::vector<float> values;
    std::vector<int64_t> ids;
    for (int64_t position : positions) {
      values.push_back(static_cast<float>(10 * position));
      values.push_back(static_cast<float>(10 * position + 1));
      ids.push_back(100 + position);
    }
    const auto n = static_cast<int64_t>(positions.size());
    const auto list = [](const char* storage, size_t count) {
      return pickled(MadeTensor{storage,
                                "LongStorage",
                                {static_cast<int64_t>(count)},
                                {1},
                                0,
                                static_cast<int64_t>(count)});
    };
    return torch_file(
        pickled_dict({{"model.layers.3.self_attn.o_proj",
                       pickled(MadeTensor{"0", "FloatStorage", {n, 2}, {2, 1}, 0, 2 * n})},
                      {"model.forward_batch_info.input_ids", list("1", positions.size())},
                      {"model.forward_batch_info.positions", list("2", positions.size())},
                      {"model.forward_batch_info.seq_lens", list("3", lengths.size())}}),
        {bytes_of_values(values), bytes_of_values(ids), bytes_of_values(positions),
         bytes_of_values(lengths)});
  }
};

TEST_F(TorchFileOf, APassIsARowForEachPosition) {
  EXPECT_EQ(take_file("Pass00000.pt", pass({0, 1, 2}, {3})).errors, 0);
  EXPECT_EQ(traced("prompt, phase, step, pos_id, layer, tensor, token_id, n, min, max, scope"),
            "seq0|prefill|0|0|3|wo_out|100|2|0.0|1.0|-\n"
            "seq0|prefill|0|1|3|wo_out|101|2|10.0|11.0|-\n"
            "seq0|prefill|0|2|3|wo_out|102|2|20.0|21.0|-");
  EXPECT_EQ(rows("SELECT hash FROM trace WHERE pos_id = 2"), printed_hash({20, 21}));
  EXPECT_EQ(rows("SELECT hash_algo, dtype FROM run"), "greta-1|f32");
  EXPECT_EQ(count("sketch"), 3);
}

TEST_F(TorchFileOf, PassesOfAFolderAreOneRunWhosePrefillAndDecodeAreCompared) {
  folder.write("in/TP0_PP0_Rank0_pid7/Pass00000.pt", pass({0, 1, 2}, {3}));
  folder.write("in/TP0_PP0_Rank0_pid7/Pass00001.pt", pass({2}, {3}));
  EXPECT_EQ(take("in").errors, 0);
  EXPECT_EQ(rows("SELECT pos_id, status FROM pair WHERE status <> 'PREFILL_ONLY'"), "2|MATCH");
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "PASS");
}

TEST_F(TorchFileOf, ABatchIsTakenApartByTheLengthsOfItsSequences) {
  folder.write("in/Pass00000.pt", pass({0, 1, 2, 0, 1}, {3, 2}));
  folder.write("in/Pass00001.pt", pass({3, 2}, {4, 3}));
  folder.write("in/Pass00002.pt", pass({4, 5, 0, 0}, {5, 6}));  // decoded, and padded to four
  EXPECT_EQ(take("in").errors, 0);
  EXPECT_EQ(
      rows("SELECT prompt, phase, step, group_concat(pos_id) FROM (SELECT * FROM trace ORDER BY"
           " pos_id) GROUP BY 1, 2, 3 ORDER BY 3, 1"),
      "seq0|prefill|0|0,1,2\nseq1|prefill|0|0,1\nseq0|decode|1|3\nseq1|decode|1|2\n"
      "seq0|decode|2|4\nseq1|decode|2|5");
}

TEST_F(TorchFileOf, RowsOfSequencesAreOfTheirLastPositionsAndOthersOfNone) {
  const auto tensor = [](const char* storage, const char* type, std::vector<int64_t> shape,
                         std::vector<int64_t> stride, int64_t n) {
    return pickled(MadeTensor{storage, type, std::move(shape), std::move(stride), 0, n});
  };
  take_file(
      "Pass00000.pt",
      torch_file(pickled_dict(
                     {{"logits_processor", tensor("0", "FloatStorage", {1, 4}, {4, 1}, 4)},
                      {"whole", tensor("0", "FloatStorage", {2, 2}, {2, 1}, 4)},
                      {"batched", tensor("1", "FloatStorage", {1, 3, 2}, {6, 2, 1}, 6)},
                      {"m.forward_batch_info.positions", tensor("2", "LongStorage", {3}, {1}, 3)},
                      {"m.forward_batch_info.seq_lens", tensor("3", "LongStorage", {1}, {1}, 1)}}),
                 {bytes_of_values<float>({1, 2, 3, 4}), bytes_of_values<float>({1, 2, 3, 4, 5, 6}),
                  bytes_of_values<int64_t>({4, 5, 6}), bytes_of_values<int64_t>({7})}));
  EXPECT_EQ(traced("tensor, pos_id, n, min, max, scope"),
            "logits|6|4|1.0|4.0|-\nwhole|-|4|1.0|4.0|tensor\nbatched|4|2|1.0|2.0|-\n"
            "batched|5|2|3.0|4.0|-\nbatched|6|2|5.0|6.0|-");
}

TEST_F(TorchFileOf, PositionsAndLengthsThatContradictEachOtherGiveNoRow) {
  EXPECT_EQ(take_file("Pass00000.pt", pass({0, 1, 2}, {9})).errors, 1);
  EXPECT_EQ(count("trace_row"), 0);
  EXPECT_NE(findings().find("contradict each other"), std::string::npos) << findings();
}

TEST_F(TorchFileOf, APassWhoseListsAreNoListsOfIntegersGivesNoRow) {
  const auto take_pass = [&](const std::string& name, const char* type, std::vector<int64_t> shape,
                             const char* list) {
    const auto n = static_cast<int64_t>(shape.size());
    const std::string plain = pickled(MadeTensor{"1", "LongStorage", {2}, {1}, 0, 2});
    Members lists = {{"input_ids", plain}, {"positions", plain}, {"seq_lens", plain}};
    for (auto& [key, value] : lists) {
      if (key == list) {
        value = pickled(MadeTensor{"0", type, shape, std::vector<int64_t>(shape.size(), 1), 0, n});
      }
      key = "model.forward_batch_info." + key;
    }
    lists.emplace_back("x", pickled(MadeTensor{"2", "FloatStorage", {2}, {1}, 0, 2}));
    return take_file(name, torch_file(pickled_dict(lists),
                                      {std::string(16, '\0'), bytes_of_values<int64_t>({1, 2}),
                                       bytes_of_values<float>({5, 6})}))
        .errors;
  };
  EXPECT_EQ(take_pass("Pass00000.pt", "FloatStorage", {2}, "input_ids"), 1);
  EXPECT_EQ(take_pass("Pass00001.pt", "FloatStorage", {2}, "positions"), 1);
  EXPECT_EQ(take_pass("Pass00002.pt", "LongStorage", {2, 1}, "seq_lens"), 1);
  EXPECT_EQ(take_pass("Pass00003.pt", "BoolStorage", {2}, "positions"), 1);
  EXPECT_EQ(take_pass("Pass00004.pt", "LongStorage", {0}, "input_ids"), 1);
  EXPECT_EQ(count("trace_row"), 0);
  EXPECT_NE(findings().find("tensor model.forward_batch_info.input_ids is f32 [2], where a forward"
                            " pass has a list of integers"),
            std::string::npos)
      << findings();
  EXPECT_EQ(take_pass("x.pt", "FloatStorage", {2}, "none"), 1) << "contradict each other";
}

TEST_F(TorchFileOf, TensorsThatAreCalledLikeListsAreOrdinaryOnesOutsideOfAPass) {
  const auto tensor = [](const char* storage) {
    return pickled(MadeTensor{storage, "FloatStorage", {1, 2}, {2, 1}, 0, 2});
  };
  EXPECT_EQ(take_file("x.pt", torch_file(pickled_dict({{"input_ids", tensor("0")}}),
                                         {bytes_of_values<float>({1, 2})}))
                .errors,
            0);
  EXPECT_EQ(traced("tensor, n, scope"), "input_ids|2|tensor");
}

TEST_F(TorchFileOf, AFileWithoutTensorsSaysSo) {
  take_file("x.pt", torch_file("}", {}));
  EXPECT_EQ(findings(), "warning 0 it has no tensor that greta reads");
}

TEST_F(TorchFileOf, AStorageThatIsMissingIsNoLineOfTheFile) {
  take_file(
      "x.pt",
      torch_file(pickled_dict({{"x", pickled(MadeTensor{"0", "FloatStorage", {1}, {1}, 0, 1})}}),
                 {}));
  EXPECT_EQ(findings(), "error 0 tensor x [1] lies in data/0, which the ZIP lacks");
}

TEST_F(TorchFileOf, WhatTheDumperSaysOfATensorIsItsPlace) {
  const std::vector<uint16_t> values = {f32_to_bf16(1.5f), f32_to_bf16(-2.0f)};
  const std::string meta = pickled_dict({{"name", pickled(std::string("model.layers.2.mlp"))},
                                         {"step", pickled(int64_t{4})},
                                         {"rank", pickled(int64_t{1})},
                                         {"dims", pickled(std::string("t h"))}});
  const std::string tensor = pickled(MadeTensor{"0", "BFloat16Storage", {1, 2}, {2, 1}, 0, 2});
  take_file(
      "step=0___rank=0___name=x.pt",
      torch_file(pickled_dict({{"value", tensor}, {"meta", meta}}), {bytes_of_values(values)}));
  EXPECT_EQ(traced("prompt, phase, step, pos_id, layer, tensor, n, min, max, scope"),
            "rank1|forward|4|-|2|mlp_out|2|-2.0|1.5|tensor");
  EXPECT_EQ(rows("SELECT json_extract(extra, '$.meta.dims') FROM trace"), "t h");
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "NO_EVIDENCE");
}

TEST_F(TorchFileOf, ViewsAreTheValuesThatTheyShow) {
  const std::string whole = bytes_of_values<float>({1, 2, 3, 4, 5, 6});
  take_file(
      "x.pt",
      torch_file(
          pickled_dict({{"turned", pickled(MadeTensor{"0", "FloatStorage", {3, 2}, {1, 3}, 0, 6})},
                        {"tail", pickled(MadeTensor{"0", "FloatStorage", {2}, {1}, 4, 6})},
                        {"one", pickled(MadeTensor{"0", "FloatStorage", {}, {}, 2, 6})}}),
          {whole}));
  EXPECT_EQ(traced("tensor, n, hash"), "turned|6|" + printed_hash({1, 4, 2, 5, 3, 6}) +
                                           "\ntail|2|" + printed_hash({5, 6}) + "\none|1|" +
                                           printed_hash({3}));
}

TEST_F(TorchFileOf, ANegatedViewIsTheValuesThatItShowsAndNoOthers) {
  const auto with = [](const char* type, const Members& bits) {
    return pickled(MadeTensor{"0", type, {2}, {1}, 0, 2, pickled_dict(bits)});
  };
  const std::string yes = pickled_bit(true), no = pickled_bit(false);
  const IngestSummary done = take_file(
      "x.pt", torch_file(pickled_dict({{"plain", with("FloatStorage", {{"neg", no}, {"conj", no}})},
                                       {"negated", with("FloatStorage", {{"neg", yes}})},
                                       {"conjugate", with("FloatStorage", {{"conj", yes}})},
                                       {"whole", with("IntStorage", {{"neg", yes}})},
                                       {"later", with("FloatStorage", {{"turned", yes}})}}),
                         {bytes_of_values<float>({1, -2})}));
  EXPECT_EQ(traced("tensor, hash"),
            "plain|" + printed_hash({1, -2}) + "\nnegated|" + printed_hash({-1, 2}));
  EXPECT_EQ(done.errors, 3) << findings();
  for (const char* name : {"conjugate", "whole", "later"}) {
    EXPECT_NE(findings().find(name), std::string::npos) << name << findings();
  }
}

TEST_F(TorchFileOf, ATensorThatIsNotReadIsNamedAndCostsOnlyItself) {
  const std::string tensor = pickled(MadeTensor{"0", "FloatStorage", {2}, {1}, 0, 2});
  const std::string complex = pickled(MadeTensor{"0", "ComplexFloatStorage", {1}, {1}, 0, 1});
  const IngestSummary done =
      take_file("x.pt", torch_file(pickled_dict({{"good", tensor}, {"phases", complex}}),
                                   {bytes_of_values<float>({1, 2})}));
  EXPECT_EQ(traced("tensor, n"), "good|2") << findings();
  EXPECT_EQ(done.errors, 1);
  EXPECT_NE(findings().find("phases"), std::string::npos) << findings();
}

TEST_F(TorchFileOf, APassOfWhichATensorIsNotReadLeavesItsRunIncomplete) {
  folder.write("in/TP0_PP0_Rank0_pid7/Pass00000.pt", pass({0, 1, 2}, {3}));
  folder.write("in/TP0_PP0_Rank0_pid7/Pass00001.pt", pass({2}, {3}));
  const std::string complex = pickled(MadeTensor{"0", "ComplexFloatStorage", {1}, {1}, 0, 1});
  folder.write("in/TP0_PP0_Rank0_pid7/Pass00002.pt",
               torch_file(pickled_dict({{"model.phases", complex}}), {std::string(8, 0)}));
  EXPECT_EQ(take("in").errors, 1) << findings();
  EXPECT_EQ(rows("SELECT verdict FROM run_verdict"), "INCOMPLETE");
}

TEST_F(TorchFileOf, NamesOfNestedTensorsAreTheirKeys) {
  const std::string tensor = pickled(MadeTensor{"0", "FloatStorage", {1}, {1}, 0, 1});
  const IngestSummary done =
      take_file("x.pt", torch_file(pickled_dict({{"a", "(" + tensor + tensor + "t"},
                                                 {"note", pickled(std::string("text"))}}),
                                   {bytes_of_values<float>({7})}));
  EXPECT_EQ(traced("tensor, min"), "a.0|7.0\na.1|7.0");
  EXPECT_EQ(done.errors, 0);
  EXPECT_EQ(done.warnings, 1) << findings();
}

TEST_F(TorchFileOf, IntegersAndDoublesAreTakenWhereFloat32HasThem) {
  const auto tensor = [](const char* storage, const char* type, int64_t n) {
    return pickled(MadeTensor{storage, type, {n}, {1}, 0, n});
  };
  const IngestSummary done = take_file(
      "x.pt",
      torch_file(pickled_dict({{"a", tensor("0", "LongStorage", 2)},
                               {"b", tensor("1", "DoubleStorage", 2)},
                               {"c", tensor("2", "DoubleStorage", 2)},
                               {"d", tensor("3", "LongStorage", 1)}}),
                 {bytes_of_values<int64_t>({-1, 1 << 24}), bytes_of_values<double>({0.5, 2}),
                  bytes_of_values<double>({0.5, 0.1}), bytes_of_values<int64_t>({(1 << 24) + 1})}));
  EXPECT_EQ(traced("tensor, min, max"), "a|-1.0|16777216.0\nb|0.5|2.0");
  EXPECT_EQ(done.errors, 2);
  EXPECT_NE(findings().find("tensor c [2] has f64 values that no float32 equals, the first at 1"),
            std::string::npos)
      << findings();
}

TEST_F(TorchFileOf, TheSameBytesUnderAnotherNameAreRowsAgain) {
  const std::string tensor = pickled(MadeTensor{"0", "FloatStorage", {1}, {1}, 0, 1});
  const std::string bytes = torch_file(tensor, {bytes_of_values<float>({7})});
  folder.write("in/step=0___name=a.pt", bytes);
  folder.write("in/step=0___name=b.pt", bytes);
  EXPECT_EQ(take("in").rows, 2);
  EXPECT_EQ(traced("tensor"), "a\nb");
  EXPECT_EQ(take("in").known_sources, 2);
}

}  // namespace
}  // namespace greta
