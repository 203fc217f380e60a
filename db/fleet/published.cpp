#include "db/fleet/published.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
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

std::vector<Published> published_where(FleetServer& server, const std::string& condition,
                                       const std::vector<ExternalTable>& tables = {}) {
  std::vector<Published> all;
  // what was superseded may look otherwise than what superseded it: the last is chosen first
  server.select(
      std::string("SELECT DISTINCT ") + kPublishedColumns + " FROM " + server.table("published") +
          " WHERE " + is_last_push(server) + (condition.empty() ? "" : " AND (" + condition + ")"),
      kPublishedColumns, [&](RowReader& row) { all.push_back(read_published(row)); }, tables);
  std::sort(all.begin(), all.end());
  return all;
}

ExternalTable text_table(const std::string& name, const std::vector<std::string>& texts) {
  RowWriter rows;
  for (const std::string& text : texts) rows.text(text);
  return {name, "text String", rows.bytes()};
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

std::vector<Published> published_named(FleetServer& server, const std::string& text) {
  std::vector<Published> found = published_like(server, {}, {text});  // by the key of the table
  if (std::any_of(found.begin(), found.end(), [&](const auto& one) { return one.run == text; }))
    return found;
  const std::string quoted = quote_text(text);
  return published_where(server, "position(run, " + quoted + ") > 0 OR experiment = " + quoted +
                                     " OR replaceRegexpOne(run, '#[0-9]+$', '') = " +
                                     quote_text(text.substr(0, text.rfind('#'))));
}

std::string is_last_push(const FleetServer& server) {
  return "(identity, version, push) IN (SELECT identity, tupleElement(last, 1),"
         " tupleElement(last, 2) FROM (SELECT identity, max((version, push)) AS last FROM " +
         server.table("published") + " GROUP BY identity))";
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
  server.insert("published", kPublishedColumns, rows.bytes());
}

FoundRows find_rows(FleetServer& server, std::optional<size_t> table, const std::string& condition,
                    const std::string& having, const ExternalTable& asked) {
  std::string sql;
  for (size_t number = 0; number < kFleetTables; ++number) {
    if (number != table.value_or(number)) continue;
    const FleetTable& from = fleet_tables()[number];
    sql += (sql.empty() ? "" : " UNION ALL ") +
           ("SELECT push, toUInt64(" + std::to_string(number)) +
           ") AS of_table, toUInt64(count()) AS total, sum(" + from.hash + ") AS said FROM " +
           server.table(from.name) + " WHERE " + condition + " GROUP BY push HAVING " + having;
  }
  FoundRows found;
  server.select(sql, "push, of_table, total, said",
                [&](RowReader& row) {
                  RowSums& of_push = found[row.u64()];
                  RowSum& sum = of_push.at(row.u64());
                  sum.n += row.u64();
                  sum.sum += row.u64();
                },
                {asked});
  return found;
}

void require_all(const FleetServer& server, const std::vector<Published>& runs,
                 const FoundRows& found, size_t table) {
  const std::string& what = fleet_tables()[table].what;
  for (const Published& run : runs) {
    const auto at = found.find(run.push);
    const RowSum there = at == found.end() ? RowSum() : at->second[table];
    const RowSum& sent = run.sums[table];
    if (there.n != sent.n) {
      throw clickhouse::Error(server.where() + " has " + std::to_string(there.n) + " " + what +
                              " of " + run.run + ", not the " + std::to_string(sent.n) +
                              " that were sent: no answer is made of " +
                              (there.n < sent.n ? "fewer" : "more"));
    }
    if (there.sum == sent.sum) continue;
    throw clickhouse::Error(server.where() + " has other " + what + " of " + run.run +
                            " than were sent: they sum to " + hex(there.sum) + ", not to " +
                            hex(sent.sum) + "; `push --replace` from a file that has the run" +
                            " sends it anew");
  }
}

void check_rows(FleetServer& server, const std::vector<Published>& runs,
                std::optional<size_t> table) {
  if (runs.empty()) return;
  const FoundRows found =
      find_rows(server, table, "push IN (SELECT push FROM asked)", "total > 0", asked_table(runs));
  for (size_t number = 0; number < kFleetTables; ++number)
    if (number == table.value_or(number)) require_all(server, runs, found, number);
}

void for_each_record(FleetServer& server, const ExternalTable& asked,
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

std::vector<Record> shared_records(FleetServer& server, uint64_t push) {
  std::vector<Record> all;
  for_each_record(server, push_table("asked", {push}), {},
                  [&](uint64_t, Record& record) { all.push_back(std::move(record)); });
  const auto key = [](const Record& record) { return std::tie(record.kind, record.ord); };
  std::sort(all.begin(), all.end(),
            [&](const Record& a, const Record& b) { return key(a) < key(b); });
  all.erase(std::unique(all.begin(), all.end(),
                        [&](const Record& a, const Record& b) { return key(a) == key(b); }),
            all.end());
  return all;
}

uint64_t push_of_rules(const std::vector<Record>& records) {
  uint64_t sum = 0;
  for (const Record& record : records) sum += record.hash();
  return sum > kLastSharedPush ? sum : sum + kLastSharedPush + 1;
}

}  // namespace greta
