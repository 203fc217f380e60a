// Runs of a made-up model: every trace point of two blocks, the same numbers by prefill and by
// decode unless a test changes them.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "db/check.h"
#include "db/database.h"
#include "engine/run/trace_sink.h"
#include "kernels/row_difference.h"
#include "tests/ingest/ingest_fixture.h"

namespace greta {

/// A row before it is fingerprinted.
struct MadeUpRow {
  std::string prompt;
  TraceRecord record;
  std::vector<float> values;
};

inline bool is(const MadeUpRow& row, TracePoint point, int layer) {
  return row.record.point == point && row.record.layer == layer;
}

struct MadeUpRun {
  std::vector<std::pair<std::string, int64_t>> prompts = {{"p0_short", 6}, {"p6_len_16", 16}};
  std::vector<int> layers = {0, 1};
  std::vector<TracePoint> points = {};  ///< none: all
  int64_t decode_steps = 0;             ///< after decode0
  int64_t sample_n = 0;
  bool planned = true;
  bool cpu_probe = false;
  bool compared = false;  ///< decode0 rows know how they differ from prefill's
  /// Changes a row, or drops it by returning false.
  std::function<bool(MadeUpRow&)> alter = [](MadeUpRow&) { return true; };
  std::function<void(ReadoutRecord&)> alter_readout = [](ReadoutRecord&) {};

  struct FirstRow {
    std::vector<float> values;
    Fingerprint fingerprint;
  };
  mutable std::map<std::tuple<std::string, int64_t, int, TracePoint>, FirstRow> first_rows = {};

  static constexpr int64_t kWidth = 48, kVocab = 40;

  static RunRecord record(const std::string& mode = "batch_invariant") {
    RunRecord run;
    run.experiment = "b3_66_v2";
    run.date = "2026-02-07";
    run.commit_sha = "c0ffee1";
    run.mode = mode;
    run.dtype = "f32";
    run.seed = 1;
    run.started_at = "2026-02-07T10:00:00Z";
    run.attributes = {{"host", "node \"7\""}, {"device", "cpu"}, {"inject", "a"}, {"inject", "b"}};
    return run;
  }

  /// Gives the whole run to a sink, but its end.
  void feed(TraceSink& sink) const {
    sink.attribute("model_sha256", "0a1b");
    for (const auto& [prompt, n_tokens] : prompts) {
      const size_t number = sink.begin_prompt(prompt_record(prompt, n_tokens));
      give(sink, number, prompt, Phase::kPrefillLast, 0, n_tokens - 1, n_tokens);
      for (int64_t i = 0; i <= decode_steps; ++i) {
        give(sink, number, prompt, i == 0 ? Phase::kDecode0 : Phase::kDecode, 1 + i,
             n_tokens - 1 + i, 1);
      }
    }
  }

  /// What a trace point holds: the same in every run.
  static std::vector<float> values(const std::string& prompt, int layer, TracePoint point,
                                   int64_t pos) {
    std::seed_seq seed{static_cast<int64_t>(prompt.size()), int64_t{layer} + 1,
                       static_cast<int64_t>(point), pos};
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> steps(-4000, 4000);
    int64_t n = kWidth;
    if (point == TracePoint::kLogits) n = kVocab;
    if (point == TracePoint::kLogitsTop1) n = 2;
    if (point == TracePoint::kAttnScores || point == TracePoint::kAttnProbs) n = 2 * (pos + 1);
    std::vector<float> out(static_cast<size_t>(n));
    for (float& x : out) x = static_cast<float>(steps(random)) / 1024.0f;
    return out;
  }

 private:
  /// As a probe does.
  static void compare(MadeUpRow& row, FirstRow& first) {
    const Fingerprint& print = row.record.fingerprint;
    if (!is_decode(row.record.phase)) {
      first = {row.values, print};
      return;
    }
    if (first.values.size() != row.values.size() || first.fingerprint.hash == print.hash) return;
    PairDifference difference{.prefill_hash = first.fingerprint.hash,
                              .decode_hash = print.hash,
                              .values = {},
                              .segments = {.n = 2}};
    difference.values =
        row_difference({first.values.data(), row.values.data(),
                        static_cast<int64_t>(row.values.size()), difference.segments});
    difference.finite = print.nan + print.inf + first.fingerprint.nan + first.fingerprint.inf == 0;
    if (is_attention(row.record.point)) difference.heads = 2;
    row.record.difference = std::make_shared<const PairDifference>(difference);
  }
  static bool is_attention(TracePoint point) {
    return point == TracePoint::kAttnOut || point == TracePoint::kKPostRope;
  }

  bool has(TracePoint point) const {
    return points.empty() || std::find(points.begin(), points.end(), point) != points.end();
  }

  /// Every trace point with its layer, in forward order.
  std::vector<std::pair<int, TracePoint>> places() const {
    std::vector<std::pair<int, TracePoint>> all;
    const auto add = [&](int layer, Stage stage) {
      for (int i = 0; i < kTracePoints; ++i) {
        const auto point = static_cast<TracePoint>(i);
        if (trace_point_stage(point) == stage && has(point)) all.emplace_back(layer, point);
      }
    };
    add(0, Stage::kEmbed);
    for (int layer : layers) add(layer, Stage::kLayer);
    add(kLayerAfterStack, Stage::kHead);
    return all;
  }

  PromptRecord prompt_record(const std::string& name, int64_t n_tokens) const {
    PromptRecord prompt;
    prompt.name = name;
    prompt.text_sha256 = std::string(64, 'a');
    for (int64_t i = 0; i < n_tokens; ++i)
      prompt.token_ids.push_back(static_cast<int32_t>(100 + i));
    for (bool decode : {false, true}) {
      for (const auto& [layer, point] : places()) {
        if (planned) prompt.plan.push_back({decode, layer, point});
      }
    }
    return prompt;
  }

  void give(TraceSink& sink, size_t number, const std::string& prompt, Phase phase, int64_t step,
            int64_t pos, int64_t seq_len) const {
    std::vector<TraceRecord> rows;
    for (const auto& [layer, point] : places()) {
      MadeUpRow row{prompt, {}, values(prompt, layer, point, pos)};
      TraceRecord& r = row.record;
      r.point = point;
      r.layer = layer;
      r.phase = phase;
      r.step = step;
      r.pos_id = pos;
      r.token_id = static_cast<int32_t>(100 + pos);
      r.seq_len = seq_len;
      r.token_index = seq_len - 1;
      if (point == TracePoint::kAttnOut) r.route = is_decode(phase) ? "TWO_PASS" : "ONLINE";
      if (point == TracePoint::kFinalNorm) r.extra = R"({"rms_sumsq":26284.25,"rms_eps":1e-05})";
      if (point == TracePoint::kLogits)
        r.extra = R"({"lm_head_quant_mode":"F16","lm_head_tied":true})";
      if (!alter(row)) continue;
      r.fingerprint = fingerprint(row.values);
      if (compared) compare(row, first_rows[{prompt, pos, layer, point}]);
      const size_t n = std::min(row.values.size(), static_cast<size_t>(sample_n));
      r.sample.assign(row.values.begin(), row.values.begin() + static_cast<std::ptrdiff_t>(n));
      rows.push_back(std::move(r));
    }
    sink.rows(number, std::move(rows));
    ReadoutRecord readout;
    readout.phase = phase;
    readout.step = step;
    readout.pos_id = pos;
    readout.top1_id = 7;
    readout.top1_logit = 3.1f;
    readout.top2_id = 9;
    readout.top2_logit = 1.7f;
    readout.vocab = kVocab;
    readout.route = is_decode(phase) ? "DOT" : "GEMM";
    if (cpu_probe) readout.cpu_top1_id = 7;
    alter_readout(readout);
    sink.readout(number, readout);
  }
};

/// All problems of a database, one by line: "" when it is sound.
inline std::string problems_of(SQLite::Database& db) {
  std::string text;
  for (const std::string& problem : check_database(db)) text += problem + "\n";
  return text;
}

/// What a view answers but for the run's ids, NULL as '-'.
inline std::string view(SQLite::Database& db, const std::string& name, const std::string& order,
                        const std::set<std::string>& but = {"run_id", "prompt_id"}) {
  std::string columns;
  SQLite::Statement info(db, "SELECT name FROM pragma_table_info('" + name + "')");
  while (info.executeStep()) {
    const std::string column = info.getColumn(0);
    if (!but.contains(column)) columns += (columns.empty() ? "" : ", ") + column;
  }
  return text_of(db, "SELECT " + columns + " FROM " + name + " ORDER BY " + order);
}

}  // namespace greta
