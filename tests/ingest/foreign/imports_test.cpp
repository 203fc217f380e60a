// What other tools really wrote: GRETA_IMPORTS, whose README says what each shape holds.
#include <nlohmann/json.hpp>

#include "tests/environment_folder.h"
#include "tests/ingest/foreign/made_files.h"

namespace greta {
namespace {

struct Imports : Importing {
  void SetUp() override {
    const auto given = folder_from_environment("GRETA_IMPORTS");
    if (!given) GTEST_SKIP() << "GRETA_IMPORTS is not set";
    imports = *given;
    summary = ingest_all(db, {imports});
  }
  /// Files below the folder whose names end so.
  std::vector<fs::path> files(const std::string& end) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(imports)) {
      if (entry.is_regular_file() && entry.path().string().ends_with(end))
        found.push_back(entry.path());
    }
    return found;
  }
  std::string where(const fs::path& file) const { return "source_file = '" + file.string() + "'"; }

  fs::path imports;
  IngestSummary summary;
};

int64_t tensors_in(const nlohmann::json& value) {
  if (value.is_object() && value.contains("shape") && value.contains("Max")) return 1;
  int64_t count = 0;
  if (value.is_structured()) {
    for (const auto& item : value) count += tensors_in(item);
  }
  return count;
}

TEST_F(Imports, EveryTensorOfAMsprobeDumpIsARowOfItsStep) {
  for (const fs::path& file : files("/dump.json")) {
    SCOPED_TRACE(file);
    const nlohmann::json dump = nlohmann::json::parse(bytes_of(file));
    EXPECT_EQ(count("trace", where(file)), tensors_in(dump["data"]));
    EXPECT_EQ(count("trace", where(file) + " AND (pos_id IS NOT NULL OR scope IS NOT 'tensor')"),
              0);
    const std::string step = file.parent_path().parent_path().filename();
    EXPECT_EQ(rows("SELECT DISTINCT 'step' || step FROM trace WHERE " + where(file)), step);
    EXPECT_EQ(count("trace", where(file) + " AND layer < 0"), 0)
        << "construct.json says where calls are made";
    const auto& call = dump["data"].begin();
    const auto& output = call.value()["output"][0];
    EXPECT_EQ(count("trace", where(file) + " AND max = " + output["Max"].dump() + " AND min = " +
                                 output["Min"].dump() + " AND mean = " + output["Mean"].dump()) > 0,
              true)
        << call.key();
  }
  EXPECT_EQ(rows("SELECT count(DISTINCT run) FROM trace WHERE shape = 'msprobe'"),
            files("/dump.json").empty() ? "0" : "1");
}

TEST_F(Imports, APassOfSglangIsARowForEachPositionWithItsToken) {
  for (const fs::path& file : files(".pt")) {
    if (!file.filename().string().starts_with("Pass")) continue;
    SCOPED_TRACE(file);
    EXPECT_GT(count("trace", where(file)), 0);
    EXPECT_EQ(
        count("trace", where(file) + " AND (pos_id IS NULL OR token_id IS NULL OR hash IS NULL)"),
        0);
    EXPECT_EQ(
        rows("SELECT count(DISTINCT pos_id) = max(pos_id) + 1 FROM trace WHERE " + where(file)),
        "1");
    EXPECT_EQ(count("trace t JOIN trace_row r ON r.source_id = t.source_id AND r.line = "
                    "t.source_line AND r.pos_id = t.pos_id"
                    " JOIN sketch s ON s.id = r.sketch_id",
                    where(file) + " AND s.derived = 0"),
              count("trace", where(file)));
  }
}

TEST_F(Imports, ADumpedTensorIsARowWithTheLayerStepAndNameOfItsFile) {
  for (const fs::path& file : files(".pt")) {
    const std::string name = file.filename();
    if (name.find("___") == name.npos) continue;
    SCOPED_TRACE(file);
    EXPECT_EQ(
        rows("SELECT 'step=' || step || '___rank' || substr(prompt, 5), scope FROM trace WHERE " +
             where(file)),
        name.substr(0, name.find("___")) + "___rank0|tensor");
    if (const size_t at = name.find("layer_id="); at != name.npos) {
      EXPECT_EQ(rows("SELECT layer FROM trace WHERE " + where(file)),
                std::to_string(std::stoi(name.substr(at + 9))));
    }
  }
}

TEST_F(Imports, EveryTensorThatLlamaPrintsToItsSumIsARow) {
  for (const fs::path& file : files(".txt")) {
    const std::string text = bytes_of(file);
    if (text.find("debug_cb_eval:") == text.npos) continue;
    SCOPED_TRACE(file);
    int64_t sums = 0;
    for (size_t at = 0; (at = text.find("    sum = ", at)) != text.npos; ++at) ++sums;
    EXPECT_EQ(count("trace", where(file)), sums);
    // The operation tells which of the tensors of one name a trace point is.
    for (const char* tensor : {"q_pre_rope", "q_post_rope", "k_pre_rope", "k_post_rope", "v_proj",
                               "attn_norm_out", "wo_out", "residual_post_attn", "ffn_norm_in"}) {
      EXPECT_EQ(count("trace", where(file) + " AND layer = 0 AND tensor = '" + tensor + "'"), 1)
          << tensor;
    }
    EXPECT_EQ(count("trace", where(file) + " AND occurrence > 0"), 0);
  }
}

TEST_F(Imports, NothingIsCountedAsEvidenceOfPrefillAgainstDecode) {
  EXPECT_EQ(count("run_verdict", "verdict = 'PASS' OR numeric_verdict = 'PASS'"), 0);
  EXPECT_EQ(summary.conflicts, 0);
  EXPECT_EQ(ingest_all(db, {imports}).new_sources, 0) << "known when they come again";
}

}  // namespace
}  // namespace greta
