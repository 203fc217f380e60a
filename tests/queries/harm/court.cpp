#include "tests/queries/harm/court.h"

namespace greta::harm {

void Court::judge(const std::vector<Asked>& runs, bool keeps) {
  if (via_ == Via::kFiles) {
    take_files(runs);
  } else {
    w_.db.exec("BEGIN");
    for (const auto& [name, run, answer] : runs) teller_.tell(name, *run);
    w_.db.exec("COMMIT");
  }
  find(runs);
  if (keeps) keep();
  ask();
}

void Court::judge_again(const std::vector<Asked>& runs) {
  find(runs);
  ask();
}

void Court::take_files(const std::vector<Asked>& runs) {
  const TemporaryFolder folder;
  for (const auto& [name, run, answer] : runs) write_files(folder, name, *run);
  ingest_all(w_.db, {folder.path()});
}

void Court::find(const std::vector<Asked>& runs) {
  asked_.clear();
  SQLite::Statement find(w_.db, "SELECT id FROM run WHERE name = ?");
  for (const auto& [name, run, answer] : runs) {
    find.bind(1, full(name));
    if (find.executeStep()) {  // a run of which no file tells is none
      const int64_t id = find.getColumn(0).getInt64();
      asked_[id] = answer;
      if (run->ingest_open) open_an_ingest(w_.db, id);
    }
    find.reset();
  }
}

void Court::keep() { w_.judge(); }

void Court::ask() {
  w_.judge();
  SQLite::Statement parts(
      w_.db,
      "SELECT v.run_id, v.item, v.strict_verdict, v.numeric_verdict, v.fail,"
      " v.fail - v.drift + v.divergent, c.missing_elsewhere,"
      " printf('%s %s %d %s %d, %s %d %s, %s %s %d %s', v.strict_first_fail, v.strict_prompt,"
      "  v.strict_layer, v.strict_tensor, v.strict_pos_id, v.first_drift_cause,"
      "  v.first_drift_layer, v.first_drift_tensor, v.numeric_first_fail, v.numeric_prompt,"
      "  v.numeric_layer, v.numeric_tensor)"
      " FROM verdict v JOIN verdict_count c ON c.run_id = v.run_id AND c.level = v.level"
      " AND c.item = v.item WHERE v.level IN ('run', 'prompt')");
  while (parts.executeStep()) {
    const auto asked = asked_.find(parts.getColumn(0).getInt64());
    if (asked == asked_.end()) continue;
    (*asked->second)[parts.getColumn(1).getString()] = {
        parts.getColumn(2).getString(), parts.getColumn(3).getString(),
        parts.getColumn(4).getInt64(),  parts.getColumn(5).getInt64(),
        parts.getColumn(6).getInt64(),  parts.getColumn(7).getString()};
  }
}

std::vector<BadPair> Court::bad_pairs(const std::string& name, Reading reading) {
  if (!bad_pairs_) {
    bad_pairs_ = std::make_unique<SQLite::Statement>(
        w_.db,
        "SELECT prompt, pos_id, layer, canonical_tensor, token_id, status,"
        " status <> 'INCOMPARABLE' AND (?2 OR class IS NOT 'UNKNOWN') FROM pair WHERE run = ?1"
        " AND status NOT IN ('MATCH', 'PREFILL_ONLY', 'DECODE_ONLY')"
        " AND (?2 OR class IS NOT 'ROUNDING')");
  }
  SQLite::Statement& query = *bad_pairs_;
  query.bind(1, full(name));
  query.bind(2, reading == Reading::kStrict);
  std::vector<BadPair> pairs;
  while (query.executeStep()) {
    Pairing at{query.getColumn(0).getString(),
               query.getColumn(1).getInt64(),
               query.getColumn(2).getInt64(),
               query.getColumn(3).getString(),
               {}};
    if (!query.getColumn(4).isNull()) at.token = query.getColumn(4).getInt64();
    pairs.push_back({at, query.getColumn(5).getString(), query.getColumn(6).getInt() != 0});
  }
  query.reset();
  return pairs;
}

std::string Court::coverage(const std::string& name) {
  return w_.rows("SELECT coverage FROM run_verdict WHERE run = '" + full(name) + "'");
}

}  // namespace greta::harm
