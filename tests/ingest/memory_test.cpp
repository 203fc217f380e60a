// No input makes an ingest take more than 200 MB: each is ingested by a process of its own, whose
// peak the kernel tells.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "tests/ingest/importing.h"

namespace greta {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

constexpr size_t kAlmost32MiB = (32u << 20) - (64u << 10);

/// A field of /proc/self/status in MiB.
int64_t memory_mib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field + ":")) return std::stoll(line.substr(field.size() + 1)) >> 10;
  }
  return -1;
}

/// As many of a unit as `bytes` have room for: each time as many again as there are, for one by one
/// takes a test longer than what reads them.
std::string repeated(const std::string& unit, size_t bytes) {
  const size_t whole = bytes / unit.size() * unit.size();
  std::string text = unit;
  text.reserve(whole);
  while (text.size() < whole) text.append(text, 0, std::min(text.size(), whole - text.size()));
  return text;
}

struct Memory : testing::Test {
  TemporaryFolder folder;

  /// Peak of an ingest of one such file among others of its kind, in MiB beyond what the process
  /// had; 250 stands for more, and for a failure.
  int peak(const std::string& name, const std::string& bytes) {
    folder.write("in/2026-02-07/b3_66/" + name, bytes);
    folder.write("in/2026-02-07/b3_67/" + name, bytes);
    return in_child([&] {
      malloc_trim(0);
      std::ofstream("/proc/self/clear_refs") << "5";
      const int64_t before = memory_mib("VmRSS");
      try {
        SQLite::Database db = open_for_writing(folder / "g.db");
        ingest_all(db, {folder / "in"}, 2);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 250;
      }
      return static_cast<int>(std::min<int64_t>(memory_mib("VmHWM") - before, 250));
    });
  }
};

struct Hungry {
  const char* name;
  const char* file;
  std::string start, unit, end;
};

class HungryFile : public Memory, public testing::WithParamInterface<Hungry> {};

TEST_P(HungryFile, TakesNoMoreThanAnyOther) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const Hungry& c = GetParam();
  const std::string middle = repeated(c.unit, kAlmost32MiB - c.start.size() - c.end.size());
  const int mib = peak(c.file, c.start + middle + c.end);
  RecordProperty("peak_mib", mib);
  EXPECT_LE(mib, 190);
}

const std::string kOpenLine =
    R"({"event":"stage_trace","prompt_id":"p","phase":"decode0","point":"x","layer":0)";

INSTANTIATE_TEST_SUITE_P(
    Memory, HungryFile,
    testing::Values(
        Hungry{"TabsOfOneLine", "t.tsv", "", "\t", ""},
        Hungry{"CommasOfManyLines", "t.csv", "a,b\n", std::string(500, 'x') + ",,,,\n", ""},
        Hungry{"OneQuotedCell", "t.csv", "a,b\n\"", "\"\"x\n", "\""},
        Hungry{"PipesOfOneLine", "d.md", "a|b\n-|-\n", "|", "\n"},
        Hungry{"PipesOfManyLines", "d.md", "a|b\n-|-\n", "||||||||\n", ""},
        Hungry{"EmptyLines", "d.md", "", "\n", ""}, Hungry{"OneLine", "d.md", "", "# x", ""},
        Hungry{"Claims", "d.md", "", "Verdict: PASS\n", ""},
        Hungry{"ClaimsOfOneLine", "d.md", "", "Verdict: PASS + ", ""},
        Hungry{"Fenced", "d.md", "```\n", "{}\n", "```\n"},
        Hungry{"FencedRows", "d.md", "```\n", kOpenLine + std::string(500, ' ') + "}\n", "```\n"},
        Hungry{"EmptyLogLines", "l.log", "", "\n", ""},
        Hungry{"TagsOfOneLine", "l.log", "", "[ABC] a=1 ", ""},
        Hungry{"FieldsOfOneLine", "l.log", "[ABC] ", "a=1 ", ""},
        Hungry{"Arrays", "j.json", "{\"a\":[", "[],", "[]]}"},
        Hungry{"Objects", "j.json", "{\"a\":[", "{\"a\":1},", "1]}"},
        Hungry{"OneString", "j.json", "{\"a\":\"", "x", "\"}"},
        Hungry{"NoJson", "j.json", "", "x", ""},
        Hungry{"OneStringInALine", "r.jsonl", kOpenLine + ",\"x\":\"", "x", "\"}\n"},
        Hungry{"ArraysInALine", "r.jsonl", kOpenLine + ",\"x\":[", "[],", "[]]}\n"},
        Hungry{"NoJsonInALine", "r.jsonl", "{", "1 ", "}\n"},
        Hungry{"SampleOfMany", "r.jsonl", kOpenLine + ",\"sample\":[", "1,", "1]}\n"},
        Hungry{"SampleOfBlanks", "r.jsonl", kOpenLine + ",\"sample\":[", "1,             ",
               "1]}\n"},
        Hungry{"NanStatistic", "r.jsonl", kOpenLine + ",\"min\":nan,\"sample\":[",
               "1,             ", "1]}\n"},
        Hungry{"TokenIds", "r.jsonl", R"({"event":"run_prompt","prompt_id":"p","token_ids":[)",
               "1,", "1]}\n"},
        Hungry{"BadLines", "r.jsonl", "", "x\n", ""}, Hungry{"NoLineEnd", "r.jsonl", "", "x", ""}),
    [](const auto& suite) { return suite.param.name; });

TEST_F(Memory, AsManyNamesAsLinesTakeNoMore) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes memory of its own";
  for (const char* key : {"prompt_id", "point", "phase", "route"}) {
    SCOPED_TRACE(key);
    std::string text;
    for (int64_t i = 0; text.size() < kAlmost32MiB; ++i) {
      const auto field = [&](const char* name, const char* value) {
        return "\"" + std::string(name) + "\":\"" + value +
               (std::string(name) == key ? std::to_string(i) + std::string(900, 'x') : "") + "\",";
      };
      text += "{" + field("prompt_id", "p") + field("point", "x") + field("phase", "decode") +
              field("route", "r") + "\"event\":\"stage_trace\",\"layer\":0}\n";
    }
    EXPECT_LE(peak(std::string(key) + ".jsonl", text), 190);
  }
}

}  // namespace
}  // namespace greta
