#include "db/fleet/published.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <numeric>
#include <tuple>
#include <utility>

#include "db/clickhouse/quote.h"

namespace greta {
namespace {

using clickhouse::ExternalTable;
using clickhouse::quote_text;
using clickhouse::RowReader;
using clickhouse::RowWriter;

constexpr const char* kPublishedColumns =
    "shard, push, version, identity, run, origin, experiment, date, commit_sha, mode, rules, host,"
    " counts, sums";

Published read_published(RowReader& row) {
  Published p;
  p.shard = row.u64();
  p.push = row.u64();
  p.version = row.u64();
  p.identity = row.text();
  p.run = row.text();
  p.origin = row.i64();
  for (std::string* text : {&p.experiment, &p.date, &p.commit_sha, &p.mode}) *text = row.text();
  p.rules = row.u64();
  p.host = row.text();
  for (uint64_t RowSum::*of : {&RowSum::n, &RowSum::sum}) {
    if (row.length() != p.sums.size())
      throw clickhouse::Error(p.run + " was published with sums of other tables");
    for (RowSum& sum : p.sums) sum.*of = row.u64();
  }
  return p;
}

/// The last of each identity, in the order of their files.
std::vector<Published> settled(std::vector<Published> all) {
  std::sort(all.begin(), all.end(), [](const Published& a, const Published& b) {
    return std::tie(a.identity, b.version, b.push) < std::tie(b.identity, a.version, a.push);
  });
  all.erase(
      std::unique(all.begin(), all.end(),
                  [](const Published& a, const Published& b) { return a.identity == b.identity; }),
      all.end());
  std::sort(all.begin(), all.end(), [](const Published& a, const Published& b) {
    return std::tie(a.origin, a.run, a.identity) < std::tie(b.origin, b.run, b.identity);
  });
  return all;
}

std::vector<Published> published_where(FleetServer& server, const std::string& condition,
                                       const std::vector<ExternalTable>& tables = {}) {
  std::vector<Published> all;
  // what was superseded may look otherwise than what superseded it: the last is chosen first
  server.select(
      std::string("SELECT ") + kPublishedColumns + " FROM " + server.table("published") +
          " WHERE (identity, version) IN (SELECT identity, max(version) FROM " +
          server.table("published") + " GROUP BY identity)" +
          (condition.empty() ? "" : " AND (" + condition + ")"),
      kPublishedColumns, [&](RowReader& row) { all.push_back(read_published(row)); }, tables);
  return settled(std::move(all));
}

ExternalTable text_table(const std::string& name, const std::vector<std::string>& texts) {
  RowWriter rows;
  for (const std::string& text : texts) rows.text(text);
  return {name, "text String", rows.bytes()};
}

void read_records(FleetServer& server, const ExternalTable& asked,
                  const std::vector<std::string>& kinds,
                  const std::function<void(uint64_t, Record&)>& take) {
  server.select("SELECT push, kind, ord, cells FROM " + server.table("record") +
                    " WHERE push IN (SELECT push FROM asked)" +
                    (kinds.empty() ? "" : " AND kind IN (SELECT text FROM kinds)"),
                "push, kind, ord, cells",
                [&](RowReader& row) {
                  const uint64_t push = row.u64();
                  Record record(row);
                  take(push, record);
                },
                {asked, text_table("kinds", kinds)});
}

std::string hex(uint64_t number) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, number);
  return digits;
}

}  // namespace

ExternalTable push_table(const std::string& name, const std::vector<uint64_t>& pushes) {
  RowWriter rows;
  for (const uint64_t push : pushes) rows.u64(push);
  return {name, "push UInt64", rows.bytes()};
}

ExternalTable asked_table(const std::vector<Published>& runs) {
  std::vector<uint64_t> pushes;
  for (const Published& run : runs) pushes.push_back(run.push);
  return push_table("asked", pushes);
}

std::vector<Published> published(FleetServer& server, const PublishedFilter& filter) {
  std::string condition;
  const auto add = [&](const std::string& value, const std::string& text) {
    if (!value.empty()) condition += (condition.empty() ? "" : " AND ") + text;
  };
  add(filter.experiment, "experiment = " + quote_text(filter.experiment));
  add(filter.mode, "mode = " + quote_text(filter.mode));
  add(filter.since, "date >= " + quote_text(filter.since));
  add(filter.date, "startsWith(date, " + quote_text(filter.date) + ")");
  add(filter.commit, "startsWith(commit_sha, " + quote_text(filter.commit) + ")");
  add(filter.part_of_name, "position(run, " + quote_text(filter.part_of_name) + ") > 0");
  return published_where(server, condition);
}

std::vector<Published> published_like(FleetServer& server,
                                      const std::vector<std::string>& identities,
                                      const std::vector<std::string>& names) {
  if (identities.empty() && names.empty()) return {};
  return published_where(server,
                         "identity IN (SELECT text FROM identities) OR run IN (SELECT text FROM"
                         " named) OR replaceRegexpOne(run, '#[0-9]+$', '') IN (SELECT text FROM"
                         " named)",
                         {text_table("identities", identities), text_table("named", names)});
}

std::vector<std::vector<Published>> portions(const std::vector<Published>& runs,
                                             uint64_t most_rows) {
  constexpr size_t kMostRuns = 1000;
  std::vector<std::vector<Published>> all;
  uint64_t rows = 0;
  for (const Published& run : runs) {
    if (all.empty() || all.back().size() == kMostRuns || run.trace_rows() > most_rows - rows) {
      all.emplace_back();
      rows = 0;
    }
    all.back().push_back(run);
    rows = std::min(most_rows, rows + run.trace_rows());
  }
  return all;
}

std::vector<uint64_t> wanted_rules(FleetServer& server) {
  std::vector<uint64_t> rules;
  server.select("SELECT DISTINCT rules FROM " + server.table("published"), "rules",
                [&](RowReader& row) { rules.push_back(row.u64()); });
  return rules;
}

void insert_published(FleetServer& server, const std::vector<Published>& runs) {
  RowWriter rows;
  for (const Published& p : runs) {
    rows.u64(p.shard).u64(p.push).u64(p.version).text(p.identity).text(p.run).i64(p.origin);
    rows.text(p.experiment).text(p.date).text(p.commit_sha).text(p.mode).u64(p.rules).text(p.host);
    for (const uint64_t RowSum::*of : {&RowSum::n, &RowSum::sum}) {
      rows.length(p.sums.size());
      for (const RowSum& sum : p.sums) rows.u64(sum.*of);
    }
  }
  bool is_sent = rows.size() == 0;
  server.insert("published", kPublishedColumns, [&]() -> std::string_view {
    return std::exchange(is_sent, true) ? std::string_view() : std::string_view(rows.bytes());
  });
}

void require_all(const FleetServer& server, const std::vector<Published>& runs,
                 const std::map<uint64_t, RowSum>& found, size_t table, Held held) {
  const std::string& what = fleet_tables()[table].what;
  for (const Published& run : runs) {
    const auto at = found.find(run.push);
    const RowSum there = at == found.end() ? RowSum() : at->second;
    const RowSum& sent = run.sums[table];
    if (there.n != sent.n) {
      throw clickhouse::Error(server.where() + " has " + std::to_string(there.n) + " " + what +
                              " of " + run.run + ", not the " + std::to_string(sent.n) +
                              " that were sent: no answer is made of " +
                              (there.n < sent.n ? "fewer" : "more"));
    }
    if (held == Held::kCount || there.sum == sent.sum) continue;
    throw clickhouse::Error(server.where() + " has other " + what + " of " + run.run +
                            " than were sent: they sum to " + hex(there.sum) + ", not to " +
                            hex(sent.sum) + "; `push --replace` from a file that has the run" +
                            " sends it anew");
  }
}

void check_rows(FleetServer& server, const std::vector<Published>& runs,
                std::span<const size_t> tables, Held held) {
  if (runs.empty()) return;
  std::string sql;
  for (const size_t number : tables) {
    const FleetTable& table = fleet_tables()[number];
    sql += (sql.empty() ? "" : " UNION ALL ") +
           ("SELECT push, toUInt64(" + std::to_string(number)) +
           ") AS of_table, toUInt64(count()) AS total, " +
           (held == Held::kContent ? "sum(" + table.hash + ")" : "toUInt64(0)") + " AS said FROM " +
           server.table(table.name) + " WHERE push IN (SELECT push FROM asked) GROUP BY push";
  }
  std::map<size_t, std::map<uint64_t, RowSum>> found;
  server.select(sql, "push, of_table, total, said",
                [&](RowReader& row) {
                  const uint64_t push = row.u64(), table = row.u64(), n = row.u64(),
                                 said = row.u64();
                  RowSum& sum = found[table][push];
                  sum.n += n;
                  sum.sum += said;
                },
                {asked_table(runs)});
  for (const size_t number : tables) require_all(server, runs, found[number], number, held);
}

void check_all_rows(FleetServer& server, const std::vector<Published>& runs, Held held) {
  std::array<size_t, kFleetTables> all;
  std::iota(all.begin(), all.end(), 0);
  check_rows(server, runs, all, held);
}

void for_each_record(FleetServer& server, const std::vector<Published>& runs,
                     const std::vector<std::string>& kinds,
                     const std::function<void(uint64_t, Record&)>& take) {
  if (!runs.empty()) read_records(server, asked_table(runs), kinds, take);
}

std::vector<Record> shared_records(FleetServer& server, uint64_t push) {
  std::vector<Record> all;
  read_records(server, push_table("asked", {push}), {},
               [&](uint64_t, Record& record) { all.push_back(std::move(record)); });
  const auto key = [](const Record& record) { return std::tie(record.kind, record.ord); };
  std::sort(all.begin(), all.end(),
            [&](const Record& a, const Record& b) { return key(a) < key(b); });
  all.erase(std::unique(all.begin(), all.end(),
                        [&](const Record& a, const Record& b) { return key(a) == key(b); }),
            all.end());
  return all;
}

}  // namespace greta
