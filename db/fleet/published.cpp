#include "db/fleet/published.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <tuple>

#include "db/clickhouse/quote.h"
#include "db/fleet/sent_rows.h"

namespace greta {
namespace {

using clickhouse::ExternalTable;
using clickhouse::quote_text;
using clickhouse::RowReader;
using clickhouse::RowWriter;

constexpr const char* kPublishedColumns =
    "shard, push, version, identity, run, origin, experiment, date, commit_sha, mode, dtype,"
    " status, hash_algo, verdict, numeric_verdict, rows, differences, records, content, rules,"
    " rules_records, host";
/// Of tables that an earlier greta-db has made there are none before the next push.
constexpr const char* kSumColumns = ", rows_sum, differences_sum, records_sum";
constexpr const char* kNoSums =
    ", toUInt64(0) AS rows_sum, toUInt64(0) AS differences_sum, toUInt64(0) AS records_sum";

Published read_published(RowReader& row) {
  Published p;
  p.shard = row.u64();
  p.push = row.u64();
  p.version = row.u64();
  p.identity = row.text();
  p.run = row.text();
  p.origin = row.i64();
  for (std::string* text : {&p.experiment, &p.date, &p.commit_sha, &p.mode, &p.dtype, &p.status,
                            &p.hash_algo, &p.verdict, &p.numeric_verdict}) {
    *text = row.text();
  }
  p.rows.n = row.u64();
  p.differences.n = row.u64();
  p.records.n = row.u64();
  p.content = row.text();
  p.rules = row.u64();
  p.rules_records = row.u64();
  p.host = row.text();
  for (RowSum* rows : {&p.rows, &p.differences, &p.records}) rows->sum = row.u64();
  return p;
}

/// Of each identity the last; under names of their own; in the order of their files.
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
  const std::string columns = kPublishedColumns;
  server.select(
      "SELECT " + columns + (server.has_sums() ? kSumColumns : kNoSums) + " FROM " +
          server.table("published") +
          " WHERE (identity, version) IN (SELECT identity, max(version) FROM " +
          server.table("published") + " GROUP BY identity)" +
          (condition.empty() ? "" : " AND (" + condition + ")"),
      columns + kSumColumns, [&](RowReader& row) { all.push_back(read_published(row)); }, tables);
  return settled(std::move(all));
}

ExternalTable text_table(const std::string& name, const std::vector<std::string>& texts) {
  RowWriter rows;
  for (const std::string& text : texts) rows.text(text);
  return {name, "text String", rows.bytes()};
}

void read_records(FleetServer& server, const ExternalTable& asked,
                  const std::vector<std::string>& kinds, const char* one_of,
                  const std::function<void(uint64_t, Record&)>& take) {
  std::string condition = "push IN (SELECT push FROM asked)";
  std::vector<ExternalTable> tables{asked};
  if (!kinds.empty()) {
    condition += " AND (kind IN (SELECT text FROM kinds)";
    if (one_of != nullptr) condition += " OR ord = 0 AND kind = " + quote_text(one_of);
    condition += ")";
    tables.push_back(text_table("kinds", kinds));
  }
  server.select(
      "SELECT push, kind, ord, any(cells) AS cells FROM " + server.table("record") + " WHERE " +
          condition + " GROUP BY push, kind, ord",
      "push, kind, ord, cells",
      [&](RowReader& row) {
        const uint64_t push = row.u64();
        Record record;
        record.kind = row.text();
        record.ord = row.u64();
        const uint64_t cells = row.length();
        for (uint64_t i = 0; i < cells; ++i) record.cells.push_back(row.text_or_null());
        take(push, record);
      },
      tables);
}

/// Throws unless a table has as many rows of each run as were sent, and, where it is told what
/// hashes a row, the same.
void check_table(FleetServer& server, const std::vector<Published>& runs, const std::string& table,
                 const char* what, RowSum Published::*wanted, const std::string& hash = "") {
  if (runs.empty()) return;
  std::map<uint64_t, RowSum> found;
  server.select("SELECT push, toUInt64(count()) AS total, " +
                    (hash.empty() ? "toUInt64(0)" : "sum(" + hash + ")") + " AS said FROM " +
                    server.table(table) + " WHERE push IN (SELECT push FROM asked) GROUP BY push",
                "push, total, said",
                [&](RowReader& row) {
                  const uint64_t push = row.u64(), n = row.u64(), said = row.u64();
                  found[push].n += n;
                  found[push].sum += said;
                },
                {asked_table(runs)});
  require_all(server, runs, found, what, wanted, hash.empty() ? Held::kCount : Held::kContent);
}

std::string hex(uint64_t number) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "%016" PRIx64, number);
  return digits;
}

}  // namespace

std::string identity_sql(const std::string& run_id) {
  return "coalesce('engine:' || (SELECT min(s.sha256) FROM source s WHERE s.run_id = " + run_id +
         " AND s.shape = 'engine' AND NOT EXISTS (SELECT 1 FROM source o WHERE o.sha256 = s.sha256"
         " AND o.shape = 'engine' AND o.run_id <> s.run_id)), 'name:' || (SELECT own.name FROM run "
         "own WHERE own.id = " +
         run_id + "))";
}

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
  std::vector<ExternalTable> tables;
  if (!filter.runs.empty()) {
    add("x", "run IN (SELECT text FROM named)");
    tables.push_back(text_table("named", filter.runs));
  }
  return published_where(server, condition, tables);
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
    for (const std::string* text : {&p.experiment, &p.date, &p.commit_sha, &p.mode, &p.dtype,
                                    &p.status, &p.hash_algo, &p.verdict, &p.numeric_verdict}) {
      rows.text(*text);
    }
    rows.u64(p.rows.n).u64(p.differences.n).u64(p.records.n).text(p.content);
    rows.u64(p.rules).u64(p.rules_records).text(p.host);
    rows.u64(p.rows.sum).u64(p.differences.sum).u64(p.records.sum);
  }
  bool is_sent = rows.size() == 0;
  server.insert(
      "published", std::string(kPublishedColumns) + kSumColumns, [&]() -> std::string_view {
        return std::exchange(is_sent, true) ? std::string_view() : std::string_view(rows.bytes());
      });
}

void require_all(const FleetServer& server, const std::vector<Published>& runs,
                 const std::map<uint64_t, RowSum>& found, const char* what, RowSum Published::*sent,
                 Held held) {
  for (const Published& run : runs) {
    const auto at = found.find(run.push);
    const RowSum there = at == found.end() ? RowSum() : at->second;
    const RowSum& wanted = run.*sent;
    if (there.n != wanted.n) {
      throw clickhouse::Error(server.where() + " has " + std::to_string(there.n) + " " + what +
                              " of " + run.run + ", not the " + std::to_string(wanted.n) +
                              " that were sent: no answer is made of " +
                              (there.n < wanted.n ? "fewer" : "more"));
    }
    if (held == Held::kCount || !run.has_sums() || there.sum == wanted.sum) continue;
    throw clickhouse::Error(server.where() + " has other " + what + " of " + run.run +
                            " than were sent: they sum to " + hex(there.sum) + ", not to " +
                            hex(wanted.sum) + "; `push --replace` from a file that has the run" +
                            " sends it anew");
  }
}

void check_counts(FleetServer& server, const std::vector<Published>& runs) {
  check_table(server, runs, "trace_row", "trace rows", &Published::rows);
  check_table(server, runs, "difference", "differences", &Published::differences);
  check_record_counts(server, runs);
}

void check_record_counts(FleetServer& server, const std::vector<Published>& runs) {
  check_table(server, runs, "record", "records", &Published::records);
}

void check_differences(FleetServer& server, const std::vector<Published>& runs) {
  check_table(server, runs, "difference", "differences", &Published::differences,
              hash_sql(kDifferenceColumnsThere));
}

uint64_t count_records(FleetServer& server, uint64_t push) {
  uint64_t n = 0;
  server.select("SELECT toUInt64(uniqExact(kind, ord)) AS n FROM " + server.table("record") +
                    " WHERE push IN (SELECT push FROM asked)",
                "n", [&](RowReader& row) { n += row.u64(); }, {push_table("asked", {push})});
  return n;
}

void for_each_record(FleetServer& server, const std::vector<Published>& runs,
                     const std::vector<std::string>& kinds,
                     const std::function<void(uint64_t, Record&)>& take) {
  for_each_record(server, runs, kinds, nullptr, take);
}

void for_each_record(FleetServer& server, const std::vector<Published>& runs,
                     const std::vector<std::string>& kinds, const char* one_of,
                     const std::function<void(uint64_t, Record&)>& take) {
  if (!runs.empty()) read_records(server, asked_table(runs), kinds, one_of, take);
}

void for_each_record(FleetServer& server, uint64_t push, const std::vector<std::string>& kinds,
                     const std::function<void(uint64_t, Record&)>& take) {
  read_records(server, push_table("asked", {push}), kinds, nullptr, take);
}

}  // namespace greta
