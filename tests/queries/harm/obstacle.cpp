#include "tests/queries/harm/obstacle.h"

#include <algorithm>
#include <map>
#include <set>

#include "kernels/fingerprint/fingerprint.h"

namespace greta::harm {
namespace {

bool is_finite(const ToldRow& row) {
  return row.nan.value_or(0) == 0 && row.inf.value_or(0) == 0 && !row.nonfinite &&
         std::all_of(row.sample.begin(), row.sample.end(),
                     [](float x) { return std::isfinite(x); });
}

/// Whether two rows of a side say the same of the values.
bool same_content(const ToldRow& a, const ToldRow& b) {
  ToldRow moved = a;
  moved.phase = b.phase;
  moved.tensor = b.tensor;
  moved.step = b.step;
  moved.file = b.file;
  moved.claimed = b.claimed;
  return moved == b;
}

bool differ(const std::optional<double>& a, const std::optional<double>& b) {
  return a && b && std::abs(*a - *b) > 0.01 * std::max({1.0, std::abs(*a), std::abs(*b)});
}

bool statistics_differ(const ToldRow& a, const ToldRow& b) {
  return differ(a.min, b.min) || differ(a.max, b.max) || differ(a.mean, b.mean) ||
         differ(a.abs_sum, b.abs_sum);
}

bool samples_differ(const ToldRow& a, const ToldRow& b) {
  const size_t n = std::min(a.sample.size(), b.sample.size());
  return !std::equal(a.sample.begin(), a.sample.begin() + static_cast<ptrdiff_t>(n),
                     b.sample.begin());
}

double distance(const ToldSketch& a, const ToldSketch& b) {
  double sum = 0;
  for (size_t i = 0; i < 32; ++i) sum += (a.bucket[i] - b.bucket[i]) * (a.bucket[i] - b.bucket[i]);
  return std::sqrt(sum / 2 / std::max(a.sum_sq, b.sum_sq));
}

std::optional<ToldSketch> sketch_of(const std::vector<float>& sample) {
  if (sample.empty()) return std::nullopt;
  const Fingerprint f = fingerprint(sample);
  return ToldSketch{f.sum_sq, f.sketch};
}

double tolerance_of(const std::optional<std::string>& dtype) {
  if (dtype == "f32" || dtype == "fp32") return 1e-4;
  return dtype == "bf16" ? 3e-2 : 1e-2;
}

struct Pair {
  const ToldRow &prefill, &decode;
};

bool has_hashes(const Pair& p) { return p.prefill.hash && p.decode.hash; }

bool has_hashes_of_one_length(const Pair& p) {
  return has_hashes(p) && p.prefill.n && p.prefill.n == p.decode.n;
}

bool other_lengths(const Pair& p) { return p.prefill.n && p.decode.n && p.prefill.n != p.decode.n; }

/// Whether anything says that the values are not the same.
bool is_different(const Pair& p) {
  const bool hashes = has_hashes(p) && p.prefill.hash != p.decode.hash;
  const bool by_hash = has_hashes_of_one_length(p);
  const bool sketches =
      !by_hash && p.prefill.sketch && p.decode.sketch && p.prefill.sketch != p.decode.sketch;
  return other_lengths(p) || hashes || sketches || samples_differ(p.prefill, p.decode);
}

bool is_decided(const Pair& p) {
  const bool samples =
      !p.prefill.sample.empty() && p.prefill.sample.size() == p.decode.sample.size();
  const bool sketches = p.prefill.sketch && p.decode.sketch && p.prefill.n && p.decode.n;
  return has_hashes_of_one_length(p) || samples || sketches;
}

/// Whether a difference is measured, and within the tolerance.
bool is_rounding(const Pair& p, double tolerance) {
  if (other_lengths(p)) return false;
  if (p.prefill.sketch && p.decode.sketch)
    return distance(*p.prefill.sketch, *p.decode.sketch) <= tolerance;
  if (p.prefill.sketch || p.decode.sketch) return false;
  if (p.prefill.sample.size() != p.decode.sample.size()) return false;
  // equal samples do not measure what only the hashes saw
  if (p.prefill.sample == p.decode.sample) return false;
  return distance(*sketch_of(p.prefill.sample), *sketch_of(p.decode.sample)) <= tolerance;
}

std::string obstacle_of_pair(const Pair& p, const ToldRun& run, Reading reading) {
  if (!is_finite(p.prefill) || !is_finite(p.decode)) return "a value is not finite";
  const bool covers = run.hash_algo == "greta-1" || p.prefill.n.value_or(0) <= 256;
  if (has_hashes_of_one_length(p) && p.prefill.hash == p.decode.hash && covers &&
      statistics_differ(p.prefill, p.decode))
    return "statistics contradict the hash";
  if (!is_decided(p)) return "nothing decides";
  if (!is_different(p)) return "";
  if (reading == Reading::kStrict) return "values differ";
  return is_rounding(p, tolerance_of(run.dtype)) ? "" : "values differ by more than rounding";
}

using Sides = std::array<std::vector<const ToldRow*>, 2>;

std::string obstacle_of_sides(const Sides& sides, const ToldRun& run, Reading reading) {
  for (const auto& side : sides) {
    for (const ToldRow* row : side) {
      if (!same_content(*row, *side.front())) return "rows of one side differ";
    }
    if (std::all_of(side.begin(), side.end(), [](const ToldRow* r) { return r->claimed; }))
      return "only a document states the row";
  }
  return obstacle_of_pair({*sides[0].front(), *sides[1].front()}, run, reading);
}

std::string obstacle_in_rows(const ToldRun& run, Reading reading) {
  std::map<Pairing, Sides> pairs;
  std::set<std::pair<std::string, int64_t>> demanding;
  for (const ToldRow& row : run.rows) {
    if (row.pos < 0 || side_of(row) == kNoSide) continue;
    pairs[pairing_of(row)][static_cast<size_t>(side_of(row))].push_back(&row);
    if (demands_partner(row)) demanding.insert({row.prompt, row.pos});
  }
  int compared = 0;
  for (const auto& [at, sides] : pairs) {
    std::string why;
    if (!sides[0].empty() && !sides[1].empty()) {
      ++compared;
      why = obstacle_of_sides(sides, run, reading);
    } else if (sides[0].empty()) {
      if (demanding.contains({at.prompt, at.pos})) why = "no partner";
    } else if (std::any_of(sides[0].begin(), sides[0].end(),
                           [](const ToldRow* r) { return demands_partner(*r); })) {
      why = "no partner";
    }
    if (!why.empty())
      return why + ": " + at.prompt + " " + at.tensor + " of layer " + std::to_string(at.layer) +
             " at " + std::to_string(at.pos);
  }
  return compared == 0 ? "no pair" : "";
}

/// Rows that the run itself wrote: those of other files than the engine's but once, for one that
/// comes again may be of a copy.
int64_t rows_written(const ToldRun& run) {
  int64_t count = 0;
  for (size_t i = 0; i < run.rows.size(); ++i) {
    const ToldRow& row = run.rows[i];
    bool is_copy = false;
    for (size_t k = 0; k < run.rows.size() && row.file != 0; ++k) {
      ToldRow other = run.rows[k];
      if (k >= i && other.file != 0) continue;
      other.file = row.file;
      is_copy |= other == row;
    }
    count += !row.claimed && !is_copy;
  }
  return count;
}

std::string obstacle_in_facts(const ToldRun& run) {
  if (run.status == "running" || run.status == "failed") return "the run is " + run.status;
  if (run.ingest_open) return "its ingest has not ended";
  if (!run.rejected.empty()) return "a line was not taken";
  if (run.stated_rows && *run.stated_rows > rows_written(run)) return "rows are lost";
  for (const ToldPlan& p : run.plan) {
    const bool met = std::any_of(run.rows.begin(), run.rows.end(), [&](const ToldRow& row) {
      return !row.claimed && row.pos >= 0 && row.prompt == p.prompt && side_of(row) == p.side &&
             row.layer == p.layer && canonical(row.tensor) == canonical(p.tensor);
    });
    if (!met) return "a planned row is not there: " + p.prompt + " " + p.tensor;
  }
  return "";
}

bool a_document_fails_it(const ToldRun& run) {
  for (const ToldDocument& document : run.documents) {
    if (document.verdict == "FAIL") return true;
    for (const ReportRow& row : document.table) {
      if (row.status != "MATCH") return true;
    }
  }
  return false;
}

}  // namespace

std::string obstacle(const ToldRun& told, Reading reading) {
  ToldRun run = told;
  for (ToldRow& row : run.rows) {
    if (!row.n) row.sketch.reset();  // nobody knows what it covers
  }
  if (const std::string why = obstacle_in_facts(run); !why.empty()) return why;
  if (const std::string why = obstacle_in_rows(run, reading); !why.empty()) return why;
  // Rows that differ by rounding may be what the document means.
  const bool rows_differ = !obstacle_in_rows(run, Reading::kStrict).empty();
  return a_document_fails_it(run) && !rows_differ ? "a document says that it fails" : "";
}

}  // namespace greta::harm
