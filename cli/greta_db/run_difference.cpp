#include "cli/greta_db/run_difference.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "cli/show/block.h"
#include "cli/warehouse/origin.h"
#include "common/json_text.h"

namespace greta {
namespace {

/// The place in five columns from `column` on, where there is one.
std::optional<DifferencePlace> difference_place_at(Query& query, int column) {
  if (query.is_null(column + 4)) return std::nullopt;
  DifferencePlace place;
  place.prompt = query.text(column);
  place.phase = query.text(column + 1);
  if (!query.is_null(column + 2)) place.pos_id = query.integer(column + 2);
  place.layer = query.integer(column + 3);
  place.tensor = query.text(column + 4);
  return place;
}

/// Looks a row up at its place: seen from the run that has it.
class DifferencePlaceQuery {
 public:
  explicit DifferencePlaceQuery(SQLite::Database& db)
      : query_(
            db,
            "SELECT s.status, s.class, CASE WHEN s.x_hash IS NOT NULL THEN printf('%llu', s.x_hash)"
            " END, CASE WHEN s.y_hash IS NOT NULL THEN printf('%llu', s.y_hash) END, s.measure,"
            " s.origin, s.numeric_origin, s.segment, s.untraced_layers, s.rel_l2"
            " FROM comparison_origin s WHERE s.run_id = ?1"
            " AND s.other_run_id = ?2 AND s.side IN (0, 1, 2) AND s.key_prompt_id ="
            " (SELECT id FROM prompt WHERE run_id = ?1 AND name = ?3)"
            " AND s.phase_id = (SELECT id FROM phase WHERE name = ?4) AND s.key_pos_id = ?5"
            " AND s.key_layer = ?6"
            " AND s.key_tensor_id = (SELECT id FROM tensor WHERE name = ?7) LIMIT 1") {}

  void fill(DifferencePlace& place, const Run& a, const Run& b, Gate gate) {
    if (take(place, a, b, gate)) {
      if (place.status == "ALONE") place.status = "ONLY_A";
    } else if (take(place, b, a, gate)) {
      place.status = "ONLY_B";
      std::swap(place.hash_a, place.hash_b);
    }
  }

 private:
  bool take(DifferencePlace& place, const Run& of, const Run& other, Gate gate) {
    query_.reset();
    query_.bind(1, of.id).bind(2, other.id).bind(3, place.prompt).bind(4, place.phase);
    query_.bind(5, place.pos_id.value_or(-1)).bind(6, place.layer).bind(7, place.tensor);
    if (!query_.step()) return false;
    const auto text = [this](int i) { return query_.is_null(i) ? "" : query_.text(i); };
    place.status = text(0);
    place.cls = text(1);
    place.hash_a = text(2);
    place.hash_b = text(3);
    place.measure = text(4);
    place.origin = text(gate == Gate::kNumeric ? 6 : 5);
    place.segment = text(7);
    place.untraced_layers = text(8);
    if (!query_.is_null(9)) place.rel_l2 = query_.cell(9).real;
    return true;
  }

  Query query_;
};

}  // namespace

std::string DifferencePlace::text(const Wording& words) const {
  std::string text =
      words("compare.place", {cls.empty() ? status : status + " " + cls, std::to_string(layer),
                              tensor, prompt, phase, pos_id ? std::to_string(*pos_id) : "-"});
  if (rel_l2 && status != "NONFINITE") text += ", rel_l2 " + real_text(*rel_l2, "%.3g");
  return text;
}

std::string DifferencePlace::json() const {
  const auto known = [](const std::string& text) { return text.empty() ? Cell() : Cell(text); };
  JsonObject object;
  object.add("prompt", prompt).add("phase", phase);
  object.add("pos_id", pos_id ? Cell(*pos_id) : Cell()).add("layer", layer).add("tensor", tensor);
  object.add("status", status).add("class", known(cls));
  object.add("rel_l2", rel_l2 ? Cell(*rel_l2) : Cell());
  object.add("hash_a", known(hash_a)).add("hash_b", known(hash_b));
  object.add("origin", known(origin)).add("segment", known(segment));
  return object.str();
}

std::string DifferencePlace::origin_text(const Wording& words) const {
  Origin place;
  place.kind = origin;
  place.segment = segment;
  place.untraced_layers = untraced_layers;
  return place.text(words("origin.tells"));
}

std::string difference_columns() {
  std::string list;
  for (const char* name : kDifferenceCounts) list += std::string(", ") + name;
  return list;
}

DifferenceCounts difference_counts(const Query& row, int from) {
  DifferenceCounts counts{};
  for (int64_t& n : counts) n = row.integer(from++);
  return counts;
}

int64_t RunDifference::count(std::string_view name) const {
  const auto* found = std::find(std::begin(kDifferenceCounts), std::end(kDifferenceCounts), name);
  return counts.at(static_cast<size_t>(found - std::begin(kDifferenceCounts)));
}

bool RunDifference::begins_with_rounding() const {
  return first && beyond && first->text(kEnglishWords) != beyond->text(kEnglishWords);
}

std::string RunDifference::remark(Gate gate) const {
  if (at(gate) == "PASS" && strict_verdict == "FAIL") return kWithinRounding;
  const bool is_numeric = gate != Gate::kStrict && numeric_verdict == "FAIL";
  return is_numeric && count("rounding") > 0 && begins_with_rounding() ? "beyond rounding" : "";
}

std::string RunDifference::headline(Gate gate) const {
  const std::string what = remark(gate);
  return what == kWithinRounding ? rounding_text("") : at(gate) + (what.empty() ? "" : " " + what);
}

FailKind RunDifference::fail_kind(Gate gate) const {
  if (at(gate) != "FAIL") return FailKind::kNone;
  if (numeric_verdict != "FAIL" && count("unknown") > 0) return FailKind::kUnmeasured;
  const bool values = count("divergent") + count("nonfinite") > 0;
  const bool alone = count("only_a") + count("only_b") > 0;
  return alone && !values ? FailKind::kUnpaired : FailKind::kValues;
}

RunDifference difference_of_runs(SQLite::Database& db, const Run& a, const Run& b) {
  RunDifference difference;
  difference.a = a;
  difference.b = b;
  Query verdict(
      db,
      "SELECT verdict, numeric_verdict, compared, ifnull(why_not, ''), ifnull(caused_by, ''),"
      " prompt, phase, pos_id, layer, tensor, numeric_prompt, numeric_phase, numeric_pos_id,"
      " numeric_layer, numeric_tensor" +
          difference_columns() +
          ", ifnull(incomplete_why, ''), strict_verdict"
          " FROM diff_verdict WHERE run_a_id = ? AND run_b_id = ?");
  verdict.bind(1, a.id).bind(2, b.id).step();
  difference.verdict = verdict.text(0);
  difference.numeric_verdict = verdict.text(1);
  difference.compared = verdict.integer(2);
  difference.why_not = verdict.text(3);
  difference.caused_by = verdict.text(4);
  difference.first = difference_place_at(verdict, 5);
  difference.beyond = difference_place_at(verdict, 10);
  difference.counts = difference_counts(verdict, 15);
  const int behind = 15 + static_cast<int>(std::size(kDifferenceCounts));
  difference.incomplete_why = verdict.text(behind);
  difference.strict_verdict = verdict.text(behind + 1);
  if (!difference.first) return difference;
  DifferencePlaceQuery place(db);
  place.fill(*difference.first, a, b, Gate::kStrict);
  if (difference.beyond) place.fill(*difference.beyond, a, b, Gate::kNumeric);
  return difference;
}

}  // namespace greta
