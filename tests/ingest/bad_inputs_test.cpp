// Damaged and odd inputs against what each must yield. Everything expected is read from their
// expected.json: a number, or words like "0 or 27", "1..2", ">=0; ...", "6 + 4 ...".
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "db/check.h"
#include "tests/ingest/ingest_fixture.h"

namespace greta {
namespace {

using nlohmann::json;

struct Range {
  int64_t low, high;
};

/// What is allowed, as alternatives.
std::vector<Range> alternatives(const json& value) {
  if (value.is_number()) return {{value, value}};
  std::string text = value.get<std::string>();
  text = text.substr(0, text.find(';'));
  while (text.find('(') < text.find(')')) {
    const size_t open = text.find('('), close = text.find(')');
    text = text.substr(0, open) + (close == std::string::npos ? "" : text.substr(close + 1));
  }
  std::vector<Range> out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(" or ", begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    begin = end == text.size() ? end + 1 : end + 4;
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < part.size();) {
      if (part[i] < '0' || part[i] > '9') {
        ++i;
        continue;
      }
      size_t used = 0;
      numbers.push_back(std::stoll(part.substr(i), &used));
      i += used;
    }
    if (numbers.empty()) continue;
    if (part.find(">=") != std::string::npos) {
      out.push_back({numbers[0], INT64_MAX});
    } else if (part.find("..") != std::string::npos) {
      out.push_back({numbers.at(0), numbers.at(1)});
    } else {  // "1 clean + 3 flagged" are four
      int64_t sum = 0;
      for (const int64_t n : numbers) sum += n;
      out.push_back({sum, sum});
    }
  }
  return out;
}

/// Every path below a folder with its size.
std::vector<std::string> listing(const fs::path& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    out.push_back(entry.path().string() +
                  (entry.is_regular_file() ? " " + std::to_string(entry.file_size()) : ""));
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

void expect_case(SQLite::Database& db, const IngestSummary& summary, const json& want) {
  const std::map<std::string, int64_t> counts = {
      {"rows", number_of(db, "SELECT count(*) FROM trace")},
      {"errors", number_of(db, "SELECT count(*) FROM ingest_error WHERE severity = 'error'")},
      {"warnings", number_of(db, "SELECT count(*) FROM ingest_error WHERE severity = 'warning'")},
      {"duplicates", summary.duplicates},
      {"report_rows", number_of(db, "SELECT count(*) FROM report_pair")},
      {"rope", number_of(db, "SELECT count(*) FROM log_event WHERE tag LIKE '%ROPE%'")}};
  // Alternatives of one case belong together: the first of one with the first of the other.
  std::vector<bool> open;
  for (const auto& [name, value] : want.items()) {
    SCOPED_TRACE(name);
    if (const auto count = counts.find(name); count != counts.end()) {
      const std::vector<Range> allowed = alternatives(value);
      std::vector<bool> fits;
      for (const Range& range : allowed)
        fits.push_back(count->second >= range.low && count->second <= range.high);
      EXPECT_NE(std::find(fits.begin(), fits.end(), true), fits.end())
          << count->second << " is not " << value;
      if (fits.size() < 2) continue;
      if (open.empty()) open.assign(fits.size(), true);
      ASSERT_EQ(open.size(), fits.size());
      for (size_t i = 0; i < fits.size(); ++i) open[i] = open[i] && fits[i];
    } else if (name == "error_line" || name == "error_lines") {
      std::string lines;
      for (const json& line : value.is_array() ? value : json::array({value})) {
        lines += (lines.empty() ? "" : "\n") + line.dump();
      }
      EXPECT_EQ(text_of(db, "SELECT line FROM ingest_error WHERE severity = 'error' ORDER BY line"),
                lines);
    } else if (name == "hashes") {
      std::vector<std::string> hashes = lines_of(text_of(db, "SELECT hash FROM trace"));
      std::vector<std::string> wanted = value;
      std::sort(hashes.begin(), hashes.end());
      std::sort(wanted.begin(), wanted.end());
      EXPECT_EQ(hashes, wanted);
    } else if (name == "run_date") {
      EXPECT_EQ(text_of(db, "SELECT DISTINCT date FROM run"), value.get<std::string>());
    } else {
      EXPECT_TRUE(name == "why" || name == "real") << "nothing checks this";
    }
  }
  if (!open.empty()) {
    EXPECT_NE(std::find(open.begin(), open.end(), true), open.end())
        << "the alternatives do not go together";
  }
}

TEST(BadInputs, EveryCaseHolds) {
  const auto folder = folder_from_environment("GRETA_BAD_INPUTS");
  if (!folder) GTEST_SKIP() << "GRETA_BAD_INPUTS is not set";
  const json cases = json::parse(bytes_of(*folder / "expected.json"));
  ASSERT_FALSE(cases.empty());
  for (const auto& [name, want] : cases.items()) {
    SCOPED_TRACE(name);
    const fs::path input = *folder / name;
    ASSERT_TRUE(fs::is_directory(input));
    TemporaryFolder
        scratch;  // the tree lies two levels down, so that a "../.." has somewhere to go
    fs::create_directories(scratch / "a/b");
    fs::copy(input, scratch / "a/b/tree", fs::copy_options::recursive);
    const std::vector<std::string> before = listing(scratch.path());
    {
      TemporaryFolder place;
      SQLite::Database db = open_for_writing(place / "g.db");
      const IngestSummary summary = ingest_all(db, {scratch / "a/b/tree"}, 2);
      expect_case(db, summary, want);
      expect_every_line_accounted_for(db);
      EXPECT_EQ(check_database(db), std::vector<std::string>());
      EXPECT_EQ(
          number_of(db, "SELECT count(*) FROM run_verdict WHERE verdict = 'PASS' AND pairs = 0"),
          0);
      EXPECT_EQ(
          number_of(
              db, "SELECT count(*) FROM ingest_error WHERE reason = '' OR file NOT LIKE '%tree%'"),
          0);

      const std::string once = dump(db);
      const IngestSummary again = ingest_all(db, {scratch / "a/b/tree"}, 1);
      EXPECT_TRUE(same_dump(once, dump(db)));
      EXPECT_EQ(again.new_sources, 0);
      for (const auto& entry : fs::directory_iterator(place.path())) {
        EXPECT_TRUE(entry.path().filename().string().starts_with("g.db")) << entry.path();
      }
    }
    EXPECT_EQ(listing(scratch.path()), before);
  }
}

}  // namespace
}  // namespace greta
