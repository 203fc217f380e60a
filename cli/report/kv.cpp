#include "cli/report/kv.h"

#include <map>
#include <string>
#include <vector>

namespace greta {
namespace {

using std::to_string;

class KvSections : public RunSection {
 public:
  explicit KvSections(const RunSection& run) : RunSection(run) {}

  bool write() {
    RunQuery total(db_, run_.id, "SELECT count(*) FROM kv_alignment WHERE run_id = ?");
    total.step();
    if (total.integer(0) == 0) return false;
    kv_indicators();
    kv_layers();
    kv_hashes();
    score_statistics();
    interpretation_guide(total.integer(0));
    return true;
  }

 private:
  std::string match_count(int64_t matching, int64_t known) const {
    return known == 0 ? words_("not_comparable")
                      : words_("kv.of", {to_string(matching), to_string(known)});
  }

  void kv_indicators() {
    RunQuery sums(
        db_, run_.id,
        "SELECT sum(k_match), count(k_match), sum(v_match), count(v_match), sum(kv_aligned),"
        " count(kv_aligned), sum(cache_match), count(cache_match), sum(cache_rows_match),"
        " count(cache_rows_match) FROM kv_alignment WHERE run_id = ?");
    sums.step();
    section("kv");
    out_.table({words_("kv.indicator"), words_("kv.observed"), words_("kv.if_structural"),
                words_("kv.if_bug")});
    auto observed = [&](int column) {
      return match_count(sums.integer(column), sums.integer(column + 1));
    };
    out_.row({words_("kv.k"), observed(0), words_("kv.may_vary"), words_("kv.consistent")});
    out_.row({words_("kv.v"), observed(2), words_("kv.may_vary"), words_("kv.consistent")});
    out_.row({words_("kv.aligned"), observed(4), words_("kv.false"), words_("kv.true")});
    out_.row({words_("kv.cache"), observed(6), words_("kv.cache_required"),
              words_("kv.cache_required")});
    out_.row({words_("kv.cache_rows"), observed(8), words_("kv.cache_required"),
              words_("kv.cache_required")});
    out_.line();
  }

  void kv_layers() {
    RunQuery rows(
        db_, run_.id,
        "SELECT layer, count(DISTINCT prompt), sum(k_match), count(k_match), sum(v_match),"
        " count(v_match), sum(q_match), count(q_match), sum(cache_match), count(cache_match),"
        " group_concat(DISTINCT interpretation), sum(status = 'PASS'), count(*)"
        " FROM kv_alignment WHERE run_id = ? GROUP BY layer ORDER BY layer");
    section("kv.per_layer", 1);
    out_.paragraph({"kv.per_layer.text"});
    out_.table({words_("layer"), words_("kv.prompts"), "K", "V", "Q", words_("kv.cache_column"),
                words_("kv.consistency"), words_("guide.interpretation"), words_("kv.status")});
    while (rows.step()) {
      auto matches = [&](int column) {
        return match_count(rows.integer(column), rows.integer(column + 1));
      };
      int64_t all = rows.integer(12), pass = rows.integer(11);
      auto agrees = [&](int column) {
        return rows.integer(column + 1) == all &&
               (rows.integer(column) == 0 || rows.integer(column) == all);
      };
      bool known = rows.integer(3) == all && rows.integer(5) == all;
      std::string status = pass == all ? "PASS" : "KV_MISMATCH";
      if (pass > 0 && pass < all)
        status += " (" + to_string(all - pass) + "/" + to_string(all) + ")";
      out_.row({to_string(rows.integer(0)), to_string(rows.integer(1)), matches(2), matches(4),
                matches(6), matches(8),
                !known                   ? words_("not_comparable")
                : agrees(2) && agrees(4) ? words_("kv.yes")
                                         : words_("kv.varies"),
                show(rows.cell(10)), status});
    }
    out_.line();
  }

  void kv_hashes() {
    RunQuery rows(
        db_, run_.id,
        "SELECT p.layer, p.prompt, p.pos_id, p.tensor, p.prefill_hash, p.decode_hash,"
        " p.status, p.class"
        " FROM pair p JOIN tensor t ON t.id = p.tensor_id WHERE p.run_id = ? AND t.name IN"
        " ('q_post_rope', 'k_post_rope', 'v_proj', 'k_cache', 'v_cache', 'k_cache_rows',"
        " 'v_cache_rows')"
        " ORDER BY p.layer, p.prompt_id, p.pos_id, t.id");
    section("kv.hashes", 1);
    out_.table({words_("layer"), words_("prompt"), words_("position"), words_("tensor"),
                words_("prefill"), words_("decode"), words_("kv.status")});
    while (rows.step()) {
      std::string status = rows.text(6);
      if (!rows.is_null(7)) status += " " + rows.text(7);
      out_.row({show(rows.cell(0)), show(rows.cell(1)), show(rows.cell(2)), show(rows.cell(3)),
                show(rows.cell(4)), show(rows.cell(5)), status});
    }
    out_.line();
  }

  void score_statistics() {
    RunQuery rows(
        db_, run_.id,
        "SELECT t.layer, t.prompt, t.pos_id, t.canonical_tensor, t.phase, t.n, t.min, t.max,"
        " t.mean, t.nan, t.inf FROM trace t WHERE t.run_id = ? AND t.canonical_tensor IN"
        " ('attn_scores', 'attn_probs') AND t.side IN ('prefill', 'decode')"
        " ORDER BY t.layer, t.prompt_id, t.pos_id, t.canonical_tensor DESC, t.side DESC");
    section("scores");
    bool any = false;
    while (rows.step()) {
      if (!any) {
        out_.table({words_("layer"), words_("prompt"), words_("position"), words_("scores.stage"),
                    words_("phase"), "n", "min", "max", "mean", "nan", "inf"});
      }
      any = true;
      std::vector<std::string> cells = {
          show(rows.cell(0)), show(rows.cell(1)), show(rows.cell(2)),
          rows.text(3) == "attn_scores" ? words_("scores.pre") : words_("scores.post")};
      for (int i = 4; i < rows.columns(); i++) cells.push_back(show(rows.cell(i)));
      out_.row(cells);
    }
    if (any) {
      out_.line();
    } else {
      out_.paragraph({"scores.none"});
    }
  }

  void interpretation_guide(int64_t total) {
    std::map<std::string, int64_t> counts;
    RunQuery rows(db_, run_.id,
                  "SELECT interpretation, count(*) FROM kv_alignment WHERE run_id = ? GROUP BY 1");
    while (rows.step()) counts[rows.text(0)] = rows.integer(1);
    section("guide");
    out_.table({words_("guide.scenario"), words_("guide.evidence"), words_("guide.interpretation"),
                words_("guide.here")});
    auto add = [&](const char* name, TextId title, TextId evidence, TextId meaning) {
      int64_t count = counts[name];
      out_.row({"**" + words_(title) + "**", words_(evidence), words_(meaning),
                count ? "**" + words_("guide.holds", {to_string(count), to_string(total)}) + "**"
                      : "-"});
    };
    add("STRUCTURAL_DRIFT", "guide.STRUCTURAL_DRIFT", "guide.STRUCTURAL_DRIFT.evidence",
        "guide.STRUCTURAL_DRIFT.meaning");
    add("REAL_MISMATCH", "guide.REAL_MISMATCH", "guide.REAL_MISMATCH.evidence",
        "guide.REAL_MISMATCH.meaning");
    add("KV_MISALIGNMENT", "guide.KV_MISALIGNMENT", "guide.KV_MISALIGNMENT.evidence",
        "guide.KV_MISALIGNMENT.meaning");
    add("Q_MISMATCH", "guide.Q_MISMATCH", "guide.Q_MISMATCH.evidence", "guide.Q_MISMATCH.meaning");
    add("ALIGNED", "guide.ALIGNED", "guide.ALIGNED.evidence", "guide.ALIGNED.meaning");
    add("UNKNOWN", "guide.UNKNOWN", "guide.UNKNOWN.evidence", "guide.UNKNOWN.meaning");
    out_.line();
    first_interpretation();
    hypothesis(counts, total);
  }

  void first_interpretation() {
    RunQuery first(
        db_, run_.id,
        "SELECT a.interpretation, a.layer, a.prompt FROM kv_alignment a LEFT JOIN prompt q"
        " ON q.run_id = a.run_id AND q.name = a.prompt WHERE a.run_id = ?"
        " AND a.interpretation <> 'ALIGNED' ORDER BY a.layer, q.id, a.pos_id LIMIT 1");
    if (first.step()) {
      out_.paragraph({"guide.first", {first.text(0), show(first.cell(1)), in_code(first.text(2))}});
    } else {
      out_.paragraph({"guide.all_aligned"});
    }
  }

  void hypothesis(std::map<std::string, int64_t>& counts, int64_t total) {
    int64_t against = counts["REAL_MISMATCH"] + counts["KV_MISALIGNMENT"] + counts["Q_MISMATCH"];
    section("hypothesis", 1);
    out_.paragraph({"hypothesis.h0"});
    out_.paragraph({"hypothesis.h1"});
    if (against > 0) {
      out_.paragraph({"hypothesis.rejected", {to_string(against), to_string(total)}});
    } else if (counts["UNKNOWN"] > 0) {
      out_.paragraph({"hypothesis.undecided", {to_string(counts["UNKNOWN"]), to_string(total)}});
    } else {
      out_.paragraph({"hypothesis.kept", {to_string(total)}});
    }
    if (verdict_.text("mode") != "kv_aligned") return;
    RunQuery cache(db_, run_.id,
                   "SELECT count(*) FROM kv_alignment WHERE run_id = ? AND status <> 'PASS'");
    cache.step();
    if (cache.integer(0) > 0) {
      out_.paragraph({"hypothesis.cache", {to_string(cache.integer(0)), to_string(total)}});
    }
  }
};

}  // namespace

bool write_kv_sections(const RunSection& run) { return KvSections(run).write(); }

}  // namespace greta
