#include "ingest/facts.h"

#include <nlohmann/json.hpp>

#include "common/json_document.h"
#include "ingest/text.h"

namespace greta {
namespace {

constexpr int64_t kFinalStage = 1'000'000;

/// "final" beats every vN, vN beats vM < N, a name without either comes last.
int64_t stage_of(std::string path) {
  path = text::to_lower(path.substr(path.find_last_of('/') + 1));
  if (path.find("final") != std::string::npos) return kFinalStage;
  for (size_t at = path.find("_v"); at != std::string::npos; at = path.find("_v", at + 1)) {
    size_t end = at + 2;
    while (end < path.size() && end < at + 8 && path[end] >= '0' && path[end] <= '9') ++end;
    if (end > at + 2) return std::stoll(path.substr(at + 2, end - at - 2));
  }
  return 0;
}

}  // namespace

std::string readout_text(const ReadoutRow& r) {
  nlohmann::json json = nlohmann::json::object();
  auto put = [&json](const char* name, const auto& value) {
    if (value) json[name] = *value;
  };
  put("top1_id", r.top1_id);
  put("top1_logit", r.top1_logit);
  put("top2_id", r.top2_id);
  put("top2_logit", r.top2_logit);
  put("gap", r.gap);
  put("vocab", r.vocab);
  put("route", r.route);
  put("cpu_top1_id", r.cpu_top1_id);
  put("cpu_agrees", r.cpu_agrees);
  put("norm_error", r.norm_error);
  put("logits_error", r.logits_error);
  return json_text(json);
}

int64_t Facts::add_json_facts(int64_t source_id, int64_t run, const RunIdentity& identity,
                              const JsonFacts& facts) {
  AttributeRank rank = facts.kind == "perf" ? AttributeRank::kPerf
                       : facts.kind == "metadata" || facts.kind == "config"
                           ? AttributeRank::kLeaf
                           : AttributeRank::kSummary;
  for (const Attribute& a : facts.attributes)
    runs_.add_attribute(run, a.dim, a.value, rank, identity.leg, source_id);
  if (facts.synthetic) runs_.add_attribute(run, "synthetic", "1", rank, identity.leg, source_id);
  for (const Metric& m : facts.metrics) {
    add_metric(source_id, runs_.run_id(identity, m.dims), m.leg.empty() ? identity.leg : m.leg, "",
               m.name, m.value, m.text);
  }
  for (const ClaimedVerdict& c : facts.claims) {
    add_claim(source_id, runs_.run_id(identity, c.dims), 0,
              c.is_failure ? kFailureClaim : "verdict", c.value, c.text);
  }
  return static_cast<int64_t>(facts.metrics.size());
}

void Facts::add_table_row(int64_t source_id, const Table& header, const TableRow& row) {
  nlohmann::json cells = nlohmann::json::object();
  for (size_t i = 0; i < row.cells.size(); ++i) {
    const std::string column =
        i < header.columns.size() ? header.columns[i] : "column " + std::to_string(i + 1);
    std::string name = column;
    for (int nth = 2; cells.contains(name); ++nth) name = column + " (" + std::to_string(nth) + ")";
    cells[name] = row.cells[i];
  }
  sql_("INSERT OR IGNORE INTO document_row VALUES (?, ?, ?, ?)", source_id, row.line,
       header.section, json_text(cells))
      .exec();
}

void Facts::add_report(int64_t source_id, int64_t run_id, const std::string& path) {
  sql_("INSERT OR IGNORE INTO report VALUES (?, ?, ?)", source_id, run_id, stage_of(path)).exec();
}

bool Facts::add_report_pair(int64_t source_id, int64_t run_id, const ReportPair& pair) {
  static constexpr const char* kStatus[] = {"MATCH", "DRIFT", "MISSING"};
  SQLite::Statement& s =
      sql_("INSERT INTO report_pair VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
  s.bind(1, source_id);
  s.bind(2, pair.line);
  s.bind(3, run_id);
  s.bind(4, writer_.prompt_id(run_id, pair.prompt));
  bind_value(s, 5, pair.layer);
  const auto tensor =
      pair.tensor.empty() ? std::nullopt : writer_.tensor_id_of_run(run_id, pair.tensor);
  if (tensor) s.bind(6, tensor->name_id);
  bind_value(s, 7, pair.token_id);
  bind_value(s, 8, pair.pos_id);
  s.bind(9, kStatus[pair.status]);
  if (!pair.cause.empty()) s.bind(10, pair.cause);
  if (!pair.root_cause.empty()) s.bind(11, pair.root_cause);
  if (!pair.details.empty()) s.bind(12, pair.details);
  s.exec();
  return tensor || pair.tensor.empty();
}

void Facts::add_claim(int64_t source_id, int64_t run_id, int64_t line, const std::string& kind,
                      const std::string& value, const std::string& text) {
  sql_(
      "INSERT INTO report_claim(source_id, run_id, line, kind, value, text) VALUES (?, ?, ?, "
      "?, ?, ?)",
      source_id, run_id, line, kind, value, text)
      .exec();
}

void Facts::add_metric(int64_t source_id, int64_t run_id, const std::string& leg,
                       const std::string& prompt, const std::string& name,
                       std::optional<double> value, const std::string& text) {
  SQLite::Statement& s = sql_(
      "INSERT INTO run_metric(run_id, leg, prompt, name, value, text, source_id)"
      " VALUES (?, ?, ?, ?, ?, ?, ?)");
  s.bind(1, run_id);
  s.bind(2, leg);
  s.bind(3, prompt);
  s.bind(4, name);
  bind_value(s, 5, value);
  s.bind(6, text);
  s.bind(7, source_id);
  s.exec();
}

void Facts::add_log_event(int64_t source_id, int64_t run_id, const std::string& prompt,
                          const LogEvent& event, int64_t seq) {
  nlohmann::json fields = nlohmann::json::object();
  for (const auto& [key, value] : event.fields) fields[key] = value;
  SQLite::Statement& s = sql_("INSERT INTO log_event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  s.bind(1, source_id);
  s.bind(2, event.line);
  s.bind(3, seq);
  s.bind(4, run_id);
  s.bind(5, prompt);
  s.bind(6, event.tag);
  bind_value(s, 7, event.step);
  s.bind(8, json_text(fields));
  s.bind(9, event.text);
  s.exec();
}

}  // namespace greta
