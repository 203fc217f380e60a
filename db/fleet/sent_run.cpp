#include "db/fleet/sent_run.h"

#include <unistd.h>

#include <random>

#include "common/sha256.h"
#include "db/clickhouse/row_binary.h"
#include "db/database.h"
#include "db/with_views.h"

namespace greta {
namespace {

/// ?1 is the run.
const std::string kSentRun = std::string(
                                 "SELECT r.name, r.experiment, ifnull(r.date, ''), "
                                 "ifnull(r.commit_sha, ''), ifnull(r.mode, ''),"
                                 " ifnull(r.dtype, ''), r.status, r.hash_algo,"
                                 " ") +
                             identity_sql("r.id") +
                             ", (SELECT count(*) FROM trace_row t WHERE t.run_id = r.id),"
                             " (SELECT count(*) FROM difference d WHERE d.run_id = r.id),"
                             " EXISTS (SELECT 1 FROM ingest_run i WHERE i.run_id = r.id)"
                             " FROM run r WHERE r.id = ?";

constexpr const char* kLevels =
    "SELECT l.id FROM run r CROSS JOIN run l ON r.name > l.name || '/' AND r.name < l.name || '0'"
    " CROSS JOIN directory_level d ON d.run_id = l.id WHERE r.id = ? ORDER BY l.id";

constexpr const char* kSources =
    "SELECT id FROM source WHERE run_id IN (SELECT value FROM json_each(?2))"
    " UNION SELECT source_id FROM attribute WHERE run_id = ?1 AND source_id IS NOT NULL"
    " UNION SELECT source_id FROM run_metric WHERE run_id = ?1"
    " UNION SELECT source_id FROM report_claim WHERE run_id = ?1"
    " UNION SELECT source_id FROM report_pair WHERE run_id = ?1"
    " UNION SELECT source_id FROM report WHERE run_id = ?1"
    " UNION SELECT source_id FROM log_event WHERE run_id = ?1"
    " UNION SELECT source_id FROM run_event WHERE run_id = ?1"
    " UNION SELECT source_id FROM readout WHERE run_id = ?1"
    " UNION SELECT source_id FROM trace_row WHERE run_id = ?1";

std::string json_of(const std::vector<int64_t>& ids) {
  std::string text = "[";
  for (const int64_t id : ids) text += (text.size() > 1 ? "," : "") + std::to_string(id);
  return text + "]";
}

uint64_t random_number() {
  static std::random_device device;
  uint64_t number = 0;
  while (number <= kLastSharedPush) number = (uint64_t{device()} << 32) | device();
  return number;
}

std::vector<int64_t> ids_of(SQLite::Statement& query) {
  std::vector<int64_t> ids;
  while (query.executeStep()) ids.push_back(query.getColumn(0).getInt64());
  query.reset();  // one that stands on a row keeps a read transaction open
  return ids;
}

}  // namespace

void SentRun::renumber() {
  const uint64_t old = published.push, push = random_number();
  // every record begins with the shard and the push
  clickhouse::RowWriter from, to;
  from.u64(published.shard).u64(old);
  to.u64(published.shard).u64(push);
  for (size_t at = 0; (at = records.find(from.bytes(), at)) != std::string::npos; at += to.size())
    records.replace(at, to.size(), to.bytes());
  published.push = push;
}

SentRunReader::SentRunReader(SQLite::Database& db, const SharedRules& rules)
    : rules_(rules), tallies_(db), statements_(db) {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) == 0) host_ = name;
  for (const RunTable& table : run_tables()) {
    selects_.emplace_back(table.name, std::make_unique<RowStatement>(db, record_select(db, table)));
  }
}

SentRun SentRunReader::read(int64_t run_id) {
  SentRun sent;
  sent.run_id = run_id;
  read_published(sent);
  read_records(sent);
  read_sources(sent);
  read_verdict(sent);
  return sent;
}

void SentRunReader::read_published(SentRun& sent) {
  Published& p = sent.published;
  SQLite::Statement& run = statements_(kSentRun.c_str(), sent.run_id);
  if (!run.executeStep()) throw DatabaseError("a run went while it was to be pushed");
  sent.here = run.getColumn(0).getString();
  p.run = sent.here;
  p.origin = sent.run_id;
  p.experiment = run.getColumn(1).getString();
  p.date = run.getColumn(2).getString();
  p.commit_sha = run.getColumn(3).getString();
  p.mode = run.getColumn(4).getString();
  p.dtype = run.getColumn(5).getString();
  p.status = run.getColumn(6).getString();
  p.hash_algo = run.getColumn(7).getString();
  p.identity = run.getColumn(8).getString();
  p.rows.n = static_cast<uint64_t>(run.getColumn(9).getInt64());
  p.differences.n = static_cast<uint64_t>(run.getColumn(10).getInt64());
  const bool is_open = run.getColumn(11).getInt() != 0;
  run.reset();
  if (is_open) {
    throw DatabaseError("an ingest of " + sent.here +
                        " has not ended: `greta-db ingest --resume` finishes it, then push");
  }
  p.shard = number_of(Sha256::digest_of(p.identity));
  p.push = random_number();
  p.rules = rules_.push;
  p.rules_records = rules_.records;
  p.host = host_;
}

void SentRunReader::read_records(SentRun& sent) {
  Published& p = sent.published;
  std::vector<int64_t> with_levels = ids_of(statements_(kLevels, sent.run_id));
  with_levels.insert(with_levels.begin(), sent.run_id);
  const std::string runs = json_of(with_levels);
  const std::string sources = json_of(ids_of(statements_(kSources, sent.run_id, runs)));
  RecordWriter records;
  records.begin(p.shard, p.push);
  bool has_tally = false;
  for (auto& [name, select] : selects_) {
    const int parameters = select->parameters();
    if (parameters >= 1) select->bind(sent.run_id);
    if (parameters >= 2) select->bind_text(runs);
    if (parameters >= 3) select->bind_text(sources);
    const uint64_t before = records.count();
    const bool is_kept = name.starts_with("kept_");
    records.add(*select, name, !is_kept);
    if (name == "kept_tally") has_tally = records.count() > before;
  }
  if (!has_tally) add_tally(records, sent.run_id);
  records.content().update(&p.rows.n, sizeof p.rows.n);
  p.records = records.sum();
  p.content = records.content().hex();
  sent.records = records.rows().bytes();
}

void SentRunReader::read_sources(SentRun& sent) {
  SQLite::Statement& own =
      statements_("SELECT leg, prompt, sha256, rows FROM source WHERE run_id = ?", sent.run_id);
  while (own.executeStep()) {
    sent.sources.insert(
        {own.getColumn(0), own.getColumn(1), own.getColumn(2), own.getColumn(3).getInt64()});
  }
  own.reset();
}

void SentRunReader::read_verdict(SentRun& sent) {
  // Where it is kept, and where it is worked out, which takes ten times as long to prepare.
  static const std::string kept = with_views(
      "SELECT verdict, numeric_verdict FROM kept_verdict_part WHERE run_id = ? AND prompt_id = 0");
  for (const char* sql :
       {kept.c_str(),
        "SELECT verdict, numeric_verdict FROM verdict_part WHERE run_id = ? AND prompt_id = 0"}) {
    SQLite::Statement& verdict = statements_(sql, sent.run_id);
    if (!verdict.executeStep()) continue;
    sent.published.verdict = verdict.getColumn(0).getString();
    sent.published.numeric_verdict = verdict.getColumn(1).getString();
    verdict.reset();
    return;
  }
  throw DatabaseError(sent.here + " has no verdict");
}

/// Of a run that nobody has judged.
void SentRunReader::add_tally(RecordWriter& records, int64_t run_id) {
  constexpr size_t kTallyColumns = 17;
  const TallyRows tally = tallies_.read(run_id);
  for (size_t at = 0; at < tally.values.size(); at += kTallyColumns) {
    std::vector<CellText> cells;
    for (size_t i = at; i < at + kTallyColumns; ++i) {
      const TallyRows::Value& value = tally.values[i];
      if (const auto* number = std::get_if<int64_t>(&value)) {
        cells.emplace_back(std::to_string(*number));
      } else if (const auto* text = std::get_if<std::string>(&value)) {
        cells.emplace_back(*text);
      } else {
        cells.emplace_back();
      }
    }
    records.add_kept("kept_tally", at / kTallyColumns, cells);
  }
}

}  // namespace greta
