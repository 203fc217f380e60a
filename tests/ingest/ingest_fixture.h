// Trees of artifacts that a test spells out or is pointed to, ingested into a database of its own.
#pragma once
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "common/temporary_folder.h"
#include "db/database.h"
#include "ingest/content/archive.h"
#include "ingest/content/reader.h"
#include "ingest/importer.h"
#include "tests/environment_folder.h"
#include "tests/file_bytes.h"
#include "tests/ingest/made_archive.h"
#include "tests/query_text.h"

namespace greta {

namespace fs = std::filesystem;

/// Every row of every table but those named, as SQL literals: equal databases, equal dumps.
inline std::string dump(SQLite::Database& db, const std::set<std::string>& but = {}) {
  std::vector<std::string> tables;
  SQLite::Statement list(db,
                         "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB "
                         "'sqlite_*' ORDER BY name");
  while (list.executeStep()) tables.push_back(list.getColumn(0).getString());
  std::string text;
  for (const std::string& table : tables) {
    if (but.contains(table)) continue;
    std::string columns;
    SQLite::Statement info(db, "SELECT name FROM pragma_table_info('" + table + "')");
    while (info.executeStep()) {
      columns +=
          (columns.empty() ? "quote(" : " || ', ' || quote(") + info.getColumn(0).getString() + ")";
    }
    text += "-- " + table + "\n" +
            text_of(db, "SELECT " + columns + " FROM " + table + " ORDER BY 1") + "\n";
  }
  return text;
}

/// Says where two dumps part ways, instead of printing both.
inline testing::AssertionResult same_dump(const std::string& a, const std::string& b) {
  if (a == b) return testing::AssertionSuccess();
  size_t at = 0;
  while (at < a.size() && at < b.size() && a[at] == b[at]) ++at;
  const auto around = [at](const std::string& text) {
    const size_t begin = at < text.size() ? text.rfind('\n', at) + 1 : text.rfind('\n') + 1;
    const size_t table = text.rfind("\n-- ", at);
    return text.substr(table == std::string::npos ? 0 : table + 1, 40) + "...\n" +
           text.substr(begin, 300);
  };
  return testing::AssertionFailure() << "the databases differ:\n"
                                     << around(a) << "\n---- and\n"
                                     << around(b);
}

inline IngestSummary ingest_all(SQLite::Database& db, const std::vector<fs::path>& paths,
                                int jobs = 1) {
  IngestOptions options;
  options.jobs = jobs;
  return ingest(db, paths, options);
}

/// A stage_trace line, the shape that most tests need.
struct StageLine {
  std::string prompt = "p0_short", phase = "prefill_last", point = "attn_out";
  int64_t layer = 0, step = 0, pos = 37;
  std::string hash = "11";
  int64_t n = 256;
  std::string more = {};  // further members, each with its comma in front

  operator std::string() const {  // NOLINT: reads like the text it is
    return R"({"event":"stage_trace","prompt_id":")" + prompt + R"(","phase":")" + phase +
           R"(","point":")" + point + R"(","layer":)" + std::to_string(layer) + R"(,"step":)" +
           std::to_string(step) + R"(,"pos_id":)" + std::to_string(pos) + R"(,"sample_n":)" +
           std::to_string(n) + R"(,"hash":)" + hash + more + "}";
  }
};

/// A small trace: two layers, each pair matches but the last.
inline std::string small_trace(const std::string& prompt = "p0_short", int64_t pos = 37) {
  std::string text;
  for (const char* phase : {"prefill_last", "decode0"}) {
    for (int64_t layer = 0; layer < 2; ++layer) {
      const bool drifts = layer == 1 && phase[0] == 'd';
      const StageLine line = {.prompt = prompt,
                              .phase = phase,
                              .layer = layer,
                              .step = phase[0] == 'd',
                              .pos = pos,
                              .hash = drifts ? "99" : std::to_string(10 + layer)};
      text += std::string(line) + "\n";
    }
  }
  return text;
}

/// What must hold of the lines of every source that came from a .jsonl: each gave rows, or is kept
/// in ingest_error as it was written, or is blank.
inline void expect_every_line_accounted_for(SQLite::Database& db) {
  const auto is_lines = [](std::string path) {
    if (path.ends_with(".gz")) path.resize(path.size() - 3);
    return path.ends_with(".jsonl");
  };
  SQLite::Statement sources(db,
                            "SELECT s.id, min(l.path), s.lines, s.rows FROM source s"
                            " JOIN source_location l ON l.source_id = s.id GROUP BY s.id");
  while (sources.executeStep()) {
    const std::string path = sources.getColumn(1).getString(),
                      id = sources.getColumn(0).getString();
    if (!is_lines(path)) continue;
    SCOPED_TRACE(path);
    std::string bytes;
    const size_t bang = std::min(path.find('!'), path.size());
    const auto reader = open_content(path.substr(0, bang));
    const auto read = [&](ContentReader& from) {
      char buffer[4096];
      for (size_t n; (n = from.read(buffer, sizeof buffer)) > 0;) bytes.append(buffer, n);
    };
    if (bang == path.size()) {
      read(*reader);
    } else {
      for_each_member(
          *reader,
          [&](const ArchiveMember& member, std::unique_ptr<ContentReader> content) {
            if (member.path == path.substr(bang + 1)) read(*content);
          },
          [](const std::string&, const std::string&) {});
    }
    int64_t lines = 0, blank = 0;
    for (size_t begin = 0; begin < bytes.size(); ++lines) {
      const size_t end = std::min(bytes.find('\n', begin), bytes.size());
      blank += bytes.substr(begin, end - begin).find_first_not_of(" \t\r") == std::string::npos;
      begin = end + 1;
    }
    EXPECT_EQ(sources.getColumn(2).getInt64(), lines);
    // Rows per line: what a shape gives, for each of its lines the same.
    const int64_t kept_rows =
        number_of(db, "SELECT count(*) FROM trace_row WHERE source_id = " + id);
    const int64_t kept_lines =
        number_of(db, "SELECT count(DISTINCT line) FROM trace_row WHERE source_id = " + id);
    const int64_t per_line = kept_lines == 0 ? 1 : kept_rows / kept_lines;
    ASSERT_EQ(kept_rows, kept_lines * per_line);
    const int64_t quarantined = number_of(
        db,
        "SELECT count(DISTINCT line) FROM ingest_error e WHERE raw IS NOT NULL AND source_id = " +
            id +
            " AND NOT EXISTS (SELECT 1 FROM trace_row t WHERE t.source_id = e.source_id AND t.line "
            "= e.line)"
            " AND line > 0");
    const int64_t damaged_tail = number_of(
        db,
        "SELECT count(*) FROM ingest_error WHERE raw IS NOT NULL AND line = 0 AND source_id = " +
            id);
    EXPECT_EQ(sources.getColumn(3).getInt64() / per_line + quarantined + damaged_tail + blank,
              lines);
  }
}

}  // namespace greta
