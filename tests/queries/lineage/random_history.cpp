#include <algorithm>
#include <set>
#include <sstream>
#include <tuple>

#include "tests/queries/harm/random_run.h"
#include "tests/queries/lineage/told_history.h"

namespace greta::lineage {
namespace {

using harm::Random;

/// Of a row of values 2, 3, 4 behind it: two of one group are apart by rounding of f32, those of
/// 1.1 by that of bf16 alone, others by more than any.
const std::vector<double> kNear = {1, 1.0001, 1.0002}, kAcross = {1.1, 3, 3.0001, 7};

/// A place of a trace, and what stands there on either side as the engine is now.
struct Place {
  std::string prompt, tensor, alias;
  int64_t layer = 0, pos = 0;
  std::vector<std::string> phases;  // of prefill, of decode, or either alone
  std::optional<int64_t> token;
  double value[2] = {1, 1};
  int64_t bits[2] = {0, 0};
  bool nan[2] = {false, false};
};

struct Tensor {
  const char* name;
  const char* alias;
  int64_t layer;
};
constexpr Tensor kTensors[] = {{"embed_out", "embed_out", 0},
                               {"residual_pre_attn", "x_in", 0},
                               {"q_pre_rope", "q_proj", 0},
                               {"q_post_rope", "q_post_rope", 0},
                               {"attn_out", "attn_out", 0},
                               {"x_out", "x_out", 0},
                               {"q_post_rope", "q_post_rope", 1},
                               {"attn_out", "attn_out", 1},
                               {"x_out", "x_out", 1},
                               {"gate_17", "gate_17", 1},
                               {"final_norm", "rms", -1},
                               {"logits", "logits", -1}};

class Maker {
 public:
  explicit Maker(uint64_t seed) : random_(seed), experiments_("h" + std::to_string(seed) + "e") {}

  ToldHistory make() {
    make_commits();
    make_places();
    const size_t lineages = 1 + random_.below(3);
    const size_t runs = 3 + std::min(random_.below(10), random_.below(10));
    for (size_t i = 0; i < lineages; ++i) lineages_.push_back({new_lineage(i), places_});
    for (size_t i = 0; i < runs; ++i) add_run(random_.below(lineages));
    for (size_t i = runs - 1; i > 0 && random_.one_in(2); --i)
      std::swap(history_.runs[i], history_.runs[random_.below(i + 1)]);
    for (size_t i = 0; i < history_.runs.size(); ++i) {
      if (random_.one_in(20)) history_.pins[lineage_of(history_.runs[i])] = i;
    }
    return std::move(history_);
  }

 private:
  struct Lineage {
    ToldRun head;  // what its runs have in common
    std::vector<Place> places;
  };

  void make_commits() {
    const size_t count = random_.one_in(2) ? 0 : 2 + random_.below(8);
    const size_t shape = random_.below(3);  // linear, branches, merges
    std::set<std::string> beginnings;
    while (history_.commits.size() < count) {
      std::string sha;
      while (sha.size() < 40) sha += "0123456789abcdef"[random_.below(16)];
      if (!beginnings.insert(sha.substr(0, 7)).second) continue;
      ToldCommit commit{sha, {}};
      const size_t at = history_.commits.size();
      if (at > 0) {
        commit.parents.push_back(shape == 0 || random_.one_in(2) ? at - 1 : random_.below(at));
        const size_t other = random_.below(at);
        if (shape == 2 && random_.one_in(3) && other != commit.parents[0])
          commit.parents.push_back(other);
      }
      history_.commits.push_back(commit);
    }
  }

  void make_places() {
    const size_t prompts = random_.one_in(3) ? 2 : 1;
    const bool tokens = !random_.one_in(4);
    std::set<std::tuple<std::string, std::string, int64_t, int64_t>> taken;
    const size_t count = 2 + random_.below(6);
    for (size_t i = 0; i < count; ++i) {
      const Tensor& tensor = kTensors[random_.below(std::size(kTensors))];
      Place place;
      place.prompt = "p" + std::to_string(random_.below(prompts));
      place.tensor = tensor.name;
      place.alias = random_.one_in(3) ? tensor.alias : tensor.name;
      place.layer = tensor.layer;
      place.pos = random_.of(std::vector<int64_t>{3, 4, 4, 4, 5, 6});
      if (place.pos == 3) place.phases = {"prefill", random_.one_in(2) ? "decode" : ""};
      if (place.pos == 4) place.phases = {"prefill_last", "decode0"};
      if (place.pos > 4) place.phases = {"", "decode"};
      if (tokens) place.token = 100 + place.pos;
      if (taken.insert({place.prompt, place.tensor, place.layer, place.pos}).second)
        places_.push_back(place);
    }
  }

  ToldRun new_lineage(size_t nth) {
    ToldRun run;
    run.experiment = experiments_ + std::to_string(random_.one_in(3) ? nth : 0);
    run.mode = "m" + std::to_string(random_.below(2));
    if (random_.one_in(6)) run.mode.reset();
    run.dtype = random_.of(std::vector<std::string>{"f32", "f32", "f16", "bf16"});
    if (random_.one_in(6)) run.dtype.reset();
    if (random_.one_in(3)) run.attributes["backend"] = random_.one_in(2) ? "cpu" : "hip";
    if (random_.one_in(3)) run.attributes["model"] = random_.one_in(2) ? "small" : "large";
    if (random_.one_in(3)) run.attributes["model_file"] = "a.gguf";
    if (random_.one_in(3)) run.attributes["suite"] = "s" + std::to_string(random_.below(2));
    if (random_.one_in(3)) run.attributes["kv_cache"] = random_.one_in(2) ? "f32" : "f16";
    return run;
  }

  /// What happens to the engine between two runs of a lineage.
  void change(Lineage& lineage) {
    for (size_t times = random_.of(std::vector<size_t>{0, 0, 1, 1, 1, 2}); times > 0; --times) {
      if (random_.one_in(5)) {  // back to what it was
        lineage.places = places_;
        continue;
      }
      Place& place = lineage.places[random_.below(lineage.places.size())];
      const size_t first = random_.below(3), last = first == 2 ? 1 : first;
      switch (random_.below(9)) {
        case 0:
          set(place, 1, 1, random_.of(kNear));
          break;  // decode only, rounding
        case 1:
        case 2:
          set(place, 1, 1, random_.of(kAcross));
          break;  // beyond
        case 3:
          set(place, 0, 1, random_.of(kNear));
          break;
        case 4:
        case 5:
          set(place, 0, 1, random_.of(kAcross));
          break;
        case 6:
          for (size_t side = first % 2; side <= last; ++side)
            place.bits[side] = static_cast<int64_t>(random_.below(3));
          break;
        case 7:
          for (size_t side = first % 2; side <= last; ++side) place.nan[side] = random_.one_in(2);
          break;
        default: {  // as it was, at this place
          for (const Place& was : places_) {
            if (was.prompt == place.prompt && was.tensor == place.tensor &&
                was.layer == place.layer && was.pos == place.pos) {
              place = was;
              break;
            }
          }
        }
      }
    }
  }
  static void set(Place& place, size_t first, size_t last, double value) {
    for (size_t side = first; side <= last; ++side) place.value[side] = value;
  }

  std::optional<std::string> commit_of_a_run() {
    if (random_.one_in(4)) return std::nullopt;
    if (history_.commits.empty() || random_.one_in(8)) return "0badc0de";  // nothing knows it
    const std::string& sha = history_.commits[random_.below(history_.commits.size())].sha;
    return sha.substr(0, random_.of(std::vector<size_t>{40, 40, 12, 7}));
  }

  void add_run(size_t of) {
    Lineage& lineage = lineages_[of];
    change(lineage);
    ToldRun run = lineage.head;
    if (!random_.one_in(6)) run.date = "2026-01-0" + std::to_string(1 + random_.below(6));
    if (random_.one_in(2))
      run.started_at =
          run.date.value_or("2026-01-01") + "T0" + std::to_string(random_.below(4)) + ":00:00Z";
    run.commit = commit_of_a_run();
    if (random_.one_in(8)) run.seed = 1 + static_cast<int64_t>(random_.below(2));
    run.synthetic = random_.one_in(30);
    run.status = random_.of(std::vector<std::string>{"complete", "complete", "complete", "complete",
                                                     "unknown", "unknown", "failed", "running"});
    if (random_.one_in(15)) run.attributes["inject"] = "rope_theta@decode";
    for (const char* digest : {"model_sha256", "model_root"}) {
      if (random_.one_in(12)) run.attributes[digest] = random_.one_in(2) ? "aa" : "bb";
    }
    if (random_.one_in(12)) run.attributes["trace.layers"] = random_.one_in(2) ? "all" : "0,1";
    if (random_.one_in(12)) run.attributes["trace.tensors"] = random_.one_in(2) ? "all" : "x_out";
    if (random_.one_in(12)) run.prompt_tokens["p0"] = random_.one_in(2) ? "[1,2]" : "[1,3]";
    name(run);
    add_rows(run, lineage);
    history_.runs.push_back(run);
  }

  /// "h7e0/m0", "h7e0/m0#2", ... "h7e0/m0#14": the number says nothing of when it ran.
  void name(ToldRun& run) {
    const std::string base = run.experiment + "/" + run.mode.value_or("run");
    do {
      const size_t number = 1 + random_.below(14);
      run.name = number == 1 ? base : base + "#" + std::to_string(number);
    } while (!names_.insert(run.name).second);
  }

  void add_rows(ToldRun& run, const Lineage& lineage) {
    const bool hashes = !random_.one_in(15), sketches = !random_.one_in(10);
    const bool other_token = random_.one_in(10);  // chosen at position 5
    const bool loses_one = random_.one_in(10);
    if (random_.one_in(40)) return;  // it wrote nothing
    for (const Place& place : lineage.places) {
      for (size_t side = 0; side < 2; ++side) {
        if (place.phases[side].empty()) continue;
        ToldRow row{.prompt = place.prompt,
                    .phase = place.phases[side],
                    .tensor = place.alias,
                    .layer = place.layer,
                    .pos = place.pos,
                    .step = side == 0 ? 0 : place.pos - 3,
                    .token = place.token};
        if (other_token && place.token && place.pos == 5) row.token = 999;
        row.value = place.value[side];
        row.bits = place.bits[side];
        row.is_nan = place.nan[side];
        row.has_hash = hashes && !random_.one_in(60);
        row.has_sketch = sketches && !random_.one_in(30);
        if (random_.one_in(60)) row.n = 5;
        if (random_.one_in(50))
          row.max = 9;
        else if (random_.one_in(4))
          row.max = 0.5;
        if (loses_one && random_.one_in(5)) continue;
        run.rows.push_back(row);
        if (random_.one_in(40)) {  // again, later in the run
          ++row.step;
          if (random_.one_in(2)) row.bits += 5;
          run.rows.push_back(row);
        }
        if (random_.one_in(40)) {  // where nobody knows
          row.pos = -1;
          row.value = 1;
          row.bits = 0;
          row.is_nan = false;
          row.n = 4;
          run.rows.push_back(row);
        }
      }
    }
  }

  Random random_;
  std::string experiments_;
  ToldHistory history_;
  std::vector<Place> places_;  // as all lineages begin
  std::vector<Lineage> lineages_;
  std::set<std::string> names_;
};

std::string or_dash(const std::optional<std::string>& text) { return text.value_or("-"); }

}  // namespace

std::vector<float> ToldRow::values() const {
  std::vector<float> all{static_cast<float>(value)};
  for (int64_t i = 1; i < n; ++i) all.push_back(static_cast<float>(i + 1));
  return all;
}

uint64_t ToldRow::hash() const {
  return static_cast<uint64_t>(value * 1e6) * 100 + static_cast<uint64_t>(bits * 10 + n);
}

std::string lineage_of(const ToldRun& run) {
  const auto attribute = [&](const char* dim) {
    const auto found = run.attributes.find(dim);
    return found == run.attributes.end() ? std::string("-") : found->second;
  };
  const std::string model = attribute("model"), cache = attribute("kv_cache");
  return run.experiment + "/" + or_dash(run.mode) + "/" + attribute("backend") + "/" +
         or_dash(run.dtype) + "/" + (model == "-" ? attribute("model_file") : model) + "/" +
         attribute("suite") + (cache == "-" || cache == "f32" ? "" : "/kv_cache=" + cache);
}

ToldHistory random_history(uint64_t seed) { return Maker(seed).make(); }

ToldHistory together(const std::vector<ToldHistory>& histories) {
  ToldHistory all;
  for (const ToldHistory& history : histories) {
    const size_t commits = all.commits.size(), runs = all.runs.size();
    for (ToldCommit commit : history.commits) {
      for (size_t& parent : commit.parents) parent += commits;
      all.commits.push_back(commit);
    }
    all.runs.insert(all.runs.end(), history.runs.begin(), history.runs.end());
    for (const auto& [lineage, run] : history.pins) all.pins[lineage] = run + runs;
  }
  return all;
}

std::string text_of(const ToldHistory& history) {
  std::ostringstream text;
  for (size_t i = 0; i < history.commits.size(); ++i) {
    text << "commit " << i << " " << history.commits[i].sha << " of";
    for (size_t parent : history.commits[i].parents) text << " " << parent;
    text << "\n";
  }
  for (const auto& [lineage, run] : history.pins)
    text << "pinned " << history.runs[run].name << "\n";
  for (const ToldRun& run : history.runs) {
    text << "run " << run.name << " of " << lineage_of(run) << " " << run.status << " date "
         << or_dash(run.date) << " started " << or_dash(run.started_at) << " commit "
         << or_dash(run.commit);
    if (run.seed) text << " seed " << *run.seed;
    if (run.synthetic) text << " synthetic";
    for (const auto& [dim, value] : run.attributes) text << " " << dim << "=" << value;
    for (const auto& [prompt, tokens] : run.prompt_tokens) text << " " << prompt << "=" << tokens;
    text << "\n";
    for (const ToldRow& row : run.rows) {
      text << "    " << row.prompt << " " << row.phase << " " << row.pos << " layer " << row.layer
           << " " << row.tensor << " step " << row.step << " token " << row.token.value_or(-1)
           << " n " << row.n << " value " << row.value << " bits " << row.bits;
      if (!row.has_hash) text << " no hash";
      if (!row.has_sketch) text << " no sketch";
      if (row.is_nan) text << " NaN";
      if (row.max) text << " max " << *row.max;
      text << "\n";
    }
  }
  return text.str();
}

}  // namespace greta::lineage
