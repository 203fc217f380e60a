#include <filesystem>

#include "common/process.h"
#include "tests/cli/program.h"

namespace greta {
namespace {

class IngestCommand : public ProgramTest {};

TEST_F(IngestCommand, OfABadInputFailsAgainAndSaysThatItIsStillBad) {
  std::filesystem::create_directories(path("in/2026-02-07/b3_66/traces"));
  write("in/2026-02-07/b3_66/traces/p0_trace.jsonl", "no JSON\n");
  EXPECT_EQ(run({"ingest", "in"}).status, 1);
  const Result again = run({"ingest", "in"});
  EXPECT_EQ(again.status, 1);
  EXPECT_TRUE(again.says("known before and still there: 1 error, 0 warnings"));
  EXPECT_FALSE(again.says("nothing new"));
  EXPECT_EQ(run({"ingest", "--quiet", "in"}).status, 1);
  EXPECT_EQ(run({"ingest", "--dry-run", "in"}).status, 1);
  const Result json = run({"ingest", "in", "--format", "json"});
  EXPECT_EQ(json.status, 1);
  EXPECT_EQ(json.json()["errors"], 0);
  EXPECT_EQ(json.json()["known_errors"], 1);
}

TEST_F(IngestCommand, OfAGoodInputAgainIsNothingNew) {
  std::filesystem::create_directories(path("in/2026-02-07/b3_66"));
  write("in/2026-02-07/b3_66/notes.md", "# B3.66\n");
  EXPECT_EQ(run({"ingest", "in"}).status, 0);
  EXPECT_TRUE(run({"ingest", "in"}).answers(0, {"nothing new"}));
}

TEST_F(IngestCommand, SaysWhatItTook) {
  std::filesystem::create_directories(path("artifacts_remote/2026-02-07/b3_66/traces"));
  write("artifacts_remote/2026-02-07/b3_66/traces/p0_short_trace.jsonl",
        "{\"event\":\"stage_trace\",\"prompt_id\":\"p0\",\"phase\":\"prefill_last\",\"point\":\"x_"
        "in\",\"layer\":0,"
        "\"step\":0,\"pos_id\":3,\"hash\":18446744073709551615,\"sample_n\":4,\"min\":0,\"max\":1,"
        "\"mean\":0.5,\"nan\":0,\"inf\":0}\n"
        "not json\n");
  EXPECT_TRUE(run({"ingest", "--dry-run", "artifacts_remote"}).answers(1, {"nothing was written"}));
  EXPECT_FALSE(std::filesystem::exists(database()));
  Result first = run({"ingest", "artifacts_remote"});
  EXPECT_EQ(first.status, 1) << first.err;  // one line quarantined
  EXPECT_TRUE(first.says("_trace.jsonl:2: "));
  EXPECT_EQ(first.err, "");
  Result again = run({"ingest", "artifacts_remote", "--format", "json"});
  EXPECT_EQ(again.json()["new_sources"], 0);
  EXPECT_EQ(again.json()["rows"], 0);
  EXPECT_EQ(run({"trace", "--format", "json"}).json()[0]["hash"], "18446744073709551615");
  EXPECT_EQ(run({"ingest", "--quiet", "artifacts_remote"}).out, "");
  EXPECT_EQ(run({"ingest", "nowhere"}).status, 2);
  EXPECT_EQ(run({"ingest"}).status, 2);
}

TEST_F(IngestCommand, AnInterruptedIngestIsGivenUpOnlyWhenAskedTo) {
  write("a.md", "# B3.9\n");
  run({"ingest", "a.md"});
  {
    SQLite::Database db(database(), SQLite::OPEN_READWRITE);
    db.exec("INSERT INTO ingest VALUES (7, '2026-02-07T00:00:00Z', '" + this_process().host +
            "', 2147483647, 'ended', '', '[\"/gone/away\"]')");
  }
  EXPECT_EQ(run({"ingest", "--give-up"}).status, 2) << "by itself it means nothing";
  EXPECT_EQ(run({"ingest", "--resume"}).status, 1);
  EXPECT_TRUE(run({"check"}).says("open ingest"));
  EXPECT_TRUE(run({"ingest", "--resume", "--give-up"}).answers(1, {"/gone/away"}));
  EXPECT_FALSE(run({"check"}).says("open ingest"));
  EXPECT_EQ(run({"ingest", "--resume", "--give-up"}).status, 0);
}

TEST_F(IngestCommand, TakesADirectoryThatLooksLikeAnOption) {
  std::filesystem::create_directories(path("--seeds"));
  write("--seeds/x.json", "{}\n");
  Result result = run({"ingest", "--format", "json", "--", "--seeds"});
  EXPECT_NE(result.status, 2) << result.err;
  EXPECT_EQ(result.json()["files"], 1);
}

TEST_F(IngestCommand, InputOfWhichNothingIsTakenIsNoSuccess) {
  std::filesystem::create_directories(path("in"));
  std::ofstream(path("in/what.bin")) << "?";
  EXPECT_TRUE(
      run({"ingest", "in"}).answers(1, {"nothing of this was taken\ngreta reads:", "safetensors"}));
  std::ofstream(path("in/some.txt")) << "a text about nothing\n";
  EXPECT_EQ(run({"ingest", "in"}).status, 1);
  std::ofstream(path("in/foo.json")) << "{\"foo\": 1}\n";
  EXPECT_EQ(run({"ingest", "in"}).status, 1);
  EXPECT_EQ(run({"ingest", "in/foo.json"}).status, 1);
  EXPECT_EQ(run({"runs", "--format", "json"}).json().size(), 0u);
  std::ofstream(path("in/table.tsv")) << "tensor\tstatus\nattn_out\tDRIFT\n";
  EXPECT_EQ(run({"ingest", "in"}).status, 0) << "something of it is";
}

TEST_F(IngestCommand, TextsThatWereNotJudgedAreNamedBesideTheVerdict) {
  const std::string folder = "artifacts_remote/2026-02-07/b3_9/", name = "2026-02-07/b3_9";
  std::filesystem::create_directories(path(folder));
  for (const char* phase : {"prefill_last", "decode0"}) {
    std::ofstream(path(folder + phase + ".jsonl"))
        << R"({"event":"stage_trace","prompt_id":"p0","pos_id":3,"step":0,"layer":0,)"
        << R"("point":"attn_out","hash_algo":"greta-1","n":4,"hash":1,"phase":")" << phase
        << "\"}\n";
  }
  EXPECT_EQ(run({"ingest", "artifacts_remote"}).status, 0);
  EXPECT_FALSE(run({"firstfail", "--run", name}).says("not judged"));
  std::ofstream(path(folder + "notes.md")) << "It crashed.\n";
  std::ofstream(path(folder + "engine.log")) << "Segmentation fault\n";
  EXPECT_EQ(run({"ingest", "artifacts_remote"}).status, 0);
  const std::string texts = "2 texts beside it were not judged: engine.log, notes.md";
  const Result block = run({"firstfail", "--run", name});
  EXPECT_TRUE(block.out.starts_with(name + "  PASS; " + texts + "\n")) << block.out;
  const Result gate = run({"gate", "--run", name});
  EXPECT_TRUE(gate.out.starts_with("PASS; " + texts + "  " + name + "\n")) << gate.out;
  EXPECT_EQ(gate.status, 0);
  EXPECT_EQ(run({"firstfail", "--run", name, "--format", "json"}).json()[0]["unjudged_texts"],
            texts);
  const auto gated = run({"gate", "--run", name, "--format", "json"}).json();
  EXPECT_EQ(gated["runs"][0]["unjudged_texts"], texts);
  for (const char* command : {"firstfail", "gate"})
    EXPECT_TRUE(run({command, "--run", name, "--format", "csv"}).says("\"" + texts + "\""));
  for (const char* file : {"--junit", "--markdown", "--html"})
    EXPECT_TRUE(run({"gate", "--run", name, file, "-"}).says(texts)) << file;
}

TEST_F(IngestCommand, ADatabaseIsForMerge) {
  const Warehouse other(path("other.db"));
  EXPECT_TRUE(run({"ingest", "other.db"}).answers(1, {"greta-db merge"}));
}

}  // namespace
}  // namespace greta
