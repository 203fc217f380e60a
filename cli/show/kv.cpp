#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cli/show/section.h"

namespace greta {
namespace {

using std::to_string;

class KvSections : public RunSection {
 public:
  explicit KvSections(const RunSection& run) : RunSection(run) {}

  bool add() {
    read();
    if (all_.rows == 0) return false;
    kv_indicators();
    kv_layers();
    kv_hashes();
    score_statistics();
    interpretation_guide();
    return true;
  }

 private:
  /// How many rows of kv_alignment there are, and of how many a column says yes and anything.
  struct Counts {
    int64_t rows = 0, pass = 0;
    std::array<int64_t, 6> yes{}, known{};  ///< by Match
    std::set<std::string> prompts;
    std::vector<std::string> kinds;  ///< interpretations, each once, as they come

    void add(const Query& row) {
      ++rows;
      pass += row.text(11) == "PASS";
      for (size_t i = 0; i < yes.size(); ++i) {
        const int column = kFirstMatch + static_cast<int>(i);
        yes[i] += row.integer(column);
        known[i] += !row.is_null(column);
      }
      prompts.insert(row.text(1));
      const std::string kind = row.text(10);
      if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
    }
  };
  enum Match { kK, kV, kQ, kAligned, kCache, kCacheRows };
  static constexpr int kFirstMatch = 4;

  /// The view once: it works out what it compares anew for every statement.
  void read() {
    RunQuery rows(statements_, run_.id,
                  "SELECT layer, prompt, prompt_id, pos_id, k_match, v_match, q_match, kv_aligned,"
                  " cache_match, cache_rows_match, interpretation, status FROM kv_alignment"
                  " WHERE run_id = ? ORDER BY layer, prompt, pos_id");
    std::optional<std::array<int64_t, 3>> first;
    while (rows.step()) {
      all_.add(rows);
      layers_[rows.integer(0)].add(rows);
      ++kinds_[rows.text(10)];
      const std::array<int64_t, 3> place{rows.integer(0), rows.integer(2), rows.integer(3)};
      if (rows.text(10) == "ALIGNED" || (first && *first <= place)) continue;
      first = place;
      first_ = Sentence("guide.first", {rows.text(10), show(rows.cell(0)), rows.text(1)});
    }
  }

  std::string match_count(int64_t matching, int64_t known) const {
    return known == 0 ? words_("not_comparable")
                      : words_("kv.of", {to_string(matching), to_string(known)});
  }

  void kv_indicators() {
    section("kv");
    ShownTable table{{words_("kv.indicator"), words_("kv.observed"), words_("kv.if_structural"),
                      words_("kv.if_bug")}};
    auto observed = [&](Match match) { return match_count(all_.yes[match], all_.known[match]); };
    table.add({words_("kv.k"), observed(kK), words_("kv.may_vary"), words_("kv.consistent")});
    table.add({words_("kv.v"), observed(kV), words_("kv.may_vary"), words_("kv.consistent")});
    table.add({words_("kv.aligned"), observed(kAligned), words_.line("kv.false"),
               words_.line("kv.true")});
    table.add({words_("kv.cache"), observed(kCache), words_("kv.cache_required"),
               words_("kv.cache_required")});
    table.add({words_("kv.cache_rows"), observed(kCacheRows), words_("kv.cache_required"),
               words_("kv.cache_required")});
    out_.push_back(std::move(table));
  }

  void kv_layers() {
    section("kv.per_layer", 1);
    say({"kv.per_layer.text"});
    ShownTable table{{words_("layer"), words_("kv.prompts"), "K", "V", "Q",
                      words_("kv.cache_column"), words_("kv.consistency"),
                      words_("guide.interpretation"), words_("kv.status")}};
    for (const auto& [layer, n] : layers_) {
      auto matches = [&counts = n, this](Match match) {
        return match_count(counts.yes[match], counts.known[match]);
      };
      auto agrees = [&counts = n](Match match) {
        return counts.known[match] == counts.rows &&
               (counts.yes[match] == 0 || counts.yes[match] == counts.rows);
      };
      std::string kinds;
      for (const std::string& kind : n.kinds) kinds += (kinds.empty() ? "" : ",") + kind;
      const bool known = n.known[kK] == n.rows && n.known[kV] == n.rows;
      std::string status = n.pass == n.rows ? "PASS" : "KV_MISMATCH";
      if (n.pass > 0 && n.pass < n.rows)
        status += " (" + to_string(n.rows - n.pass) + "/" + to_string(n.rows) + ")";
      table.add({to_string(layer), to_string(n.prompts.size()), matches(kK), matches(kV),
                 matches(kQ), matches(kCache),
                 !known                     ? words_("not_comparable")
                 : agrees(kK) && agrees(kV) ? words_("kv.yes")
                                            : words_("kv.varies"),
                 kinds, status});
    }
    out_.push_back(std::move(table));
  }

  void kv_hashes() {
    RunQuery rows(
        statements_, run_.id,
        "SELECT p.layer, p.prompt, p.pos_id, p.tensor, p.prefill_hash, p.decode_hash,"
        " p.status, p.class"
        " FROM pair p JOIN tensor t ON t.id = p.tensor_id WHERE p.run_id = ? AND t.name IN"
        " ('q_post_rope', 'k_post_rope', 'v_proj', 'k_cache', 'v_cache', 'k_cache_rows',"
        " 'v_cache_rows')"
        " ORDER BY p.layer, p.prompt_id, p.pos_id, t.id");
    section("kv.hashes", 1);
    ShownTable table{{words_("layer"), words_("prompt"), words_("position"), words_("tensor"),
                      words_("prefill"), words_("decode"), words_("kv.status")}};
    while (rows.step()) {
      std::string status = rows.text(6);
      if (!rows.is_null(7)) status += " " + rows.text(7);
      table.add({show(rows.cell(0)), show(rows.cell(1)), show(rows.cell(2)), show(rows.cell(3)),
                 show(rows.cell(4)), show(rows.cell(5)), status});
    }
    out_.push_back(std::move(table));
  }

  void score_statistics() {
    RunQuery rows(
        statements_, run_.id,
        "SELECT t.layer, t.prompt, t.pos_id, t.canonical_tensor, t.phase, t.n, t.min, t.max,"
        " t.mean, t.nan, t.inf FROM trace t WHERE t.run_id = ? AND t.canonical_tensor IN"
        " ('attn_scores', 'attn_probs') AND t.side IN ('prefill', 'decode')"
        " ORDER BY t.layer, t.prompt_id, t.pos_id, t.canonical_tensor DESC, t.side DESC");
    section("scores");
    ShownTable table{{words_("layer"), words_("prompt"), words_("position"), words_("scores.stage"),
                      words_("phase"), "n", "min", "max", "mean", "nan", "inf"}};
    while (rows.step()) {
      std::vector<Line> cells = {
          show(rows.cell(0)), show(rows.cell(1)), show(rows.cell(2)),
          rows.text(3) == "attn_scores" ? words_("scores.pre") : words_("scores.post")};
      for (int i = 4; i < rows.columns(); i++) cells.emplace_back(show(rows.cell(i)));
      table.add(std::move(cells));
    }
    if (table.rows.empty()) return say({"scores.none"});
    out_.push_back(std::move(table));
  }

  void interpretation_guide() {
    const int64_t total = all_.rows;
    std::map<std::string, int64_t>& counts = kinds_;
    section("guide");
    ShownTable table{{words_("guide.scenario"), words_("guide.evidence"),
                      words_("guide.interpretation"), words_("guide.here")}};
    for (const std::string kind : {"STRUCTURAL_DRIFT", "REAL_MISMATCH", "KV_MISALIGNMENT",
                                   "Q_MISMATCH", "ALIGNED", "UNKNOWN"}) {
      const auto text = [&](const char* of) {
        return words_.line(*find_report_text("guide." + kind + of)).text();
      };
      const int64_t count = counts[kind];
      table.add(
          {strong(text("")), text(".evidence"), text(".meaning"),
           count ? strong(words_("guide.holds", {to_string(count), to_string(total)})) : "-"});
    }
    out_.push_back(std::move(table));
    say(first_ ? *first_ : Sentence("guide.all_aligned"));
    hypothesis(counts, total);
  }

  void hypothesis(std::map<std::string, int64_t>& counts, int64_t total) {
    int64_t against = counts["REAL_MISMATCH"] + counts["KV_MISALIGNMENT"] + counts["Q_MISMATCH"];
    section("hypothesis", 1);
    say({"hypothesis.h0"});
    say({"hypothesis.h1"});
    if (against > 0) {
      say({"hypothesis.rejected", {to_string(against), to_string(total)}});
    } else if (counts["UNKNOWN"] > 0) {
      say({"hypothesis.undecided", {to_string(counts["UNKNOWN"]), to_string(total)}});
    } else {
      say({"hypothesis.kept", {to_string(total)}});
    }
    if (verdict_.text("mode") != "kv_aligned") return;
    if (all_.pass < total) {
      say({"hypothesis.cache", {to_string(total - all_.pass), to_string(total)}});
    }
  }

  Counts all_;
  std::map<int64_t, Counts> layers_;
  std::map<std::string, int64_t> kinds_;  // rows by interpretation
  std::optional<Sentence> first_;         // that is not ALIGNED, in forward order
};

}  // namespace

bool add_kv(const RunSection& run) { return KvSections(run).add(); }

}  // namespace greta
