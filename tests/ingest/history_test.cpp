// The real history against what it must yield. Everything expected is read from expected.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "db/check.h"
#include "tests/ingest/ingest_fixture.h"

namespace greta {
namespace {

using nlohmann::json;

struct History : testing::Test {
  void SetUp() override {
    const auto folder = folder_from_environment("GRETA_ARTIFACTS");
    if (!folder) GTEST_SKIP() << "GRETA_ARTIFACTS is not set";
    root = fs::exists(*folder / "expected.json") ? *folder / "artifacts_remote" : *folder;
    ASSERT_TRUE(fs::is_directory(root)) << root;
    const fs::path file = fs::absolute(root).lexically_normal().parent_path() / "expected.json";
    expected = json::parse(bytes_of(file));
    db.emplace(open_for_writing(scratch / "history.db"));
    queries.emplace(*db);
    first = ingest_all(*db, {root}, 2);
  }

  void expect_run(const std::string& key, const json& want);
  void expect_breakdown(const std::string& run, const json& want, int64_t pairs);

  TemporaryFolder scratch;
  fs::path root;
  json expected;
  std::optional<SQLite::Database> db;
  std::optional<KeptQueries> queries;
  IngestSummary first;
};

std::string value_text(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void History::expect_breakdown(const std::string& run, const json& want, int64_t pairs) {
  json have = json::object();
  SQLite::Statement query(*db, "SELECT cause, count, percent FROM failure_breakdown WHERE run = ?");
  query.bind(1, run);
  while (query.executeStep()) {
    const int64_t count = query.getColumn(1).getInt64();
    have[query.getColumn(0).getString()] = count;
    EXPECT_DOUBLE_EQ(query.getColumn(2).getDouble(),
                     100.0 * static_cast<double>(count) / static_cast<double>(pairs));
  }
  EXPECT_EQ(have, want);
}

/// "date/experiment dimension dimension" is the run of that name.
void History::expect_run(const std::string& key, const json& want) {
  std::string run = key;
  std::replace(run.begin(), run.end(), ' ', '/');
  const auto column = [&](const std::string& name) {
    return queries->text_of("SELECT " + name + " FROM run_verdict WHERE run = ?", run);
  };
  ASSERT_EQ(column("count(*)"), "1");
  for (const auto& [field, value] : want.items()) {
    SCOPED_TRACE(field);
    if (field == "breakdown") {
      expect_breakdown(run, value, want.at("pairs"));
    } else if (field == "first_fail") {
      for (const auto& [part, text] : value.items()) {
        SCOPED_TRACE(part);
        const std::string sql = part == "cause" ? "strict_first_fail"
                                : part == "canonical_tensor"
                                    ? "(SELECT t.name FROM tensor t JOIN tensor_name n ON "
                                      "n.tensor_id = t.id WHERE n.name = strict_tensor)"
                                    : "strict_" + part;
        EXPECT_EQ(column(sql), value_text(text));
      }
    } else {
      EXPECT_EQ(column(field), value_text(value));
    }
  }
  const std::string verdict = column("strict_verdict");
  EXPECT_TRUE(verdict == "FAIL" || want.value("fail", 0) == 0) << verdict;
  EXPECT_TRUE(verdict != "PASS" || want.at("pairs") > 0) << verdict;
}

TEST_F(History, YieldsWhatIsExpected) {
  int64_t all_rows = 0;
  for (const auto& [name, want] : expected.items()) {
    SCOPED_TRACE(name);
    if (name == "tensor_rows") {
      for (const auto& [shape, count] : want.items()) {
        EXPECT_EQ(number_of(*db, "SELECT count(*) FROM trace WHERE shape = '" + shape + "'"), count)
            << shape;
        all_rows += count.get<int64_t>();
      }
      EXPECT_EQ(number_of(*db, "SELECT count(*) FROM trace"), all_rows);
      EXPECT_EQ(first.rows, all_rows);
    } else if (name == "zero_byte_gz") {
      EXPECT_EQ(number_of(*db,
                          "SELECT count(*) FROM ingest_error WHERE severity = 'error' AND reason "
                          "LIKE '%(0 bytes)%'"
                          " AND file LIKE '%.gz'"),
                want);
    } else if (name == "valid_empty_gz") {
      EXPECT_EQ(number_of(*db,
                          "SELECT count(*) FROM ingest_error WHERE severity = 'warning' AND reason "
                          "LIKE '%gzip of nothing%'"),
                want);
    } else if (name == "strict") {
      for (const auto& [key, run] : want.items()) {
        SCOPED_TRACE(key);
        expect_run(key, run);
      }
    } else {
      ADD_FAILURE() << "nothing checks this";
    }
  }
}

TEST_F(History, NothingWithoutPairsPasses) {
  EXPECT_EQ(text_of(*db, "SELECT run FROM run_verdict WHERE verdict = 'PASS' AND NOT pairs > 0"),
            "");
  EXPECT_EQ(text_of(*db,
                    "SELECT run FROM run_verdict WHERE verdict = 'PASS' AND"
                    " (divergent + unmeasured + nonfinite + missing > 0"
                    "  OR strict_verdict = 'PASS' AND fail > 0)"),
            "");
  EXPECT_GT(number_of(*db, "SELECT count(*) FROM run_verdict WHERE pairs = 0"), 0);
}

TEST_F(History, DocumentsStandBesideWhatRunsShow) {
  EXPECT_EQ(text_of(*db,
                    "SELECT run FROM run_verdict WHERE evidence <> 'trace'"
                    " AND 'PASS' IN (verdict, strict_verdict, numeric_verdict)"),
            "");
  // every document that says PASS of a run that does not pass
  const std::string contradicted =
      " FROM report_claim c JOIN run_verdict v ON v.run_id = c.run_id"
      " WHERE c.kind = 'verdict' AND c.value = 'PASS' AND v.strict_verdict <> 'PASS'";
  EXPECT_GT(number_of(*db, "SELECT count(*)" + contradicted), 0);
  EXPECT_EQ(text_of(*db, "SELECT v.run, c.text" + contradicted +
                             " AND NOT EXISTS (SELECT 1 FROM report_conflict x"
                             "   WHERE x.run_id = c.run_id AND x.claimed = 'PASS')"),
            "");
  EXPECT_EQ(text_of(*db,
                    "SELECT x.run, x.verdict, v.strict_verdict FROM report_conflict x"
                    " JOIN run_verdict v ON v.run_id = x.run_id"
                    " WHERE (x.verdict, x.evidence) IS NOT (v.strict_verdict, v.evidence)"),
            "");
}

/// The folders of days, under the names that these have years later.
void copy_years_later(const fs::path& root, const fs::path& copy) {
  for (const auto& day : fs::directory_iterator(root)) {
    const std::string name = day.path().filename().string();
    if (day.is_directory() && name.size() == 10 && name[4] == '-')
      fs::copy(day.path(), copy / ("2099" + name.substr(4)), fs::copy_options::recursive);
  }
}

TEST_F(History, ClaimsNoChangeBetweenRunsThatCannotBeCompared) {
  fs::create_directories(scratch / "later");
  copy_years_later(root, scratch / "later");
  ingest_all(*db, {scratch / "later"}, 2);
  // what has rows, and nothing else, is held against what it is a copy of, and is the same as far
  // as anything tells
  EXPECT_GT(number_of(*db, "SELECT count(*) FROM change WHERE change = 'SAME'"), 0);
  EXPECT_EQ(text_of(*db,
                    "SELECT run, change FROM change"
                    " WHERE change NOT IN ('SAME', 'INCOMPARABLE') OR change IS NULL"),
            "");
  EXPECT_EQ(
      text_of(*db, "SELECT run, baseline FROM change WHERE substr(run, 5) <> substr(baseline, 5)"),
      "");
  EXPECT_EQ(text_of(*db,
                    "SELECT c.run FROM change c"
                    " CROSS JOIN run_verdict v ON v.run_id IN (c.run_id, c.baseline_id)"
                    " WHERE v.evidence <> 'trace' AND c.change <> 'INCOMPARABLE'"),
            "");
  EXPECT_EQ(text_of(*db, "SELECT first_bad FROM regression"), "");
  // a claim is of runs that compare, and of rows that were compared; of two runs named, for all
  // there are in twos are many
  SQLite::Statement claims(*db,
                           "SELECT baseline_id, run_id FROM change WHERE change <> 'INCOMPARABLE'");
  while (claims.executeStep()) {
    EXPECT_EQ(text_of(*db,
                      "SELECT comparable, compared > 0, why_not FROM diff_verdict"
                      " WHERE run_a_id = " +
                          claims.getColumn(0).getString() +
                          " AND run_b_id = " + claims.getColumn(1).getString()),
              "1|1|-");
  }
}

TEST_F(History, EveryLineIsAccountedFor) {
  EXPECT_EQ(
      number_of(
          *db,
          "SELECT count(*) FROM source WHERE id NOT IN (SELECT source_id FROM source_location)"),
      0);
  EXPECT_EQ(
      number_of(*db, "SELECT count(*) FROM trace WHERE source_file IS NULL OR source_line < 1"), 0);
  EXPECT_EQ(check_database(*db), std::vector<std::string>());
  expect_every_line_accounted_for(*db);
}

TEST_F(History, EveryFileIsASourceOrAFinding) {
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!entry.is_regular_file()) continue;
    const std::string path = fs::absolute(entry.path()).lexically_normal().string();
    SQLite::Statement query(
        *db,
        "SELECT (SELECT count(*) FROM source_location WHERE path = ?1 OR path GLOB ?1 || '!*')"
        " + (SELECT count(*) FROM ingest_error WHERE file = ?1)");
    query.bind(1, path);
    query.executeStep();
    EXPECT_GT(query.getColumn(0).getInt(), 0) << path;
  }
}

TEST_F(History, TheSameTreeAgainChangesNothing) {
  const std::string before = dump(*db);
  const IngestSummary again = ingest_all(*db, {root}, 2);
  EXPECT_TRUE(same_dump(before, dump(*db)));
  EXPECT_EQ(again.files, first.files);
  EXPECT_EQ(again.known_sources, first.new_sources + first.known_sources);
  EXPECT_EQ(again.new_sources + again.rows + again.duplicates + again.conflicts, 0);
}

}  // namespace
}  // namespace greta
