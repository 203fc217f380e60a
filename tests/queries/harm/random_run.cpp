#include "tests/queries/harm/random_run.h"

#include <set>
#include <tuple>

#include "kernels/fingerprint/fingerprint.h"

namespace greta::harm {
namespace {

enum class Temper { kMatches, kRounds, kDoubts, kOneFault, kWild };

/// How decode's values differ from prefill's.
enum class Difference { kNone, kRounding, kCoarse, kDivergent, kInTheLastValue };

class Maker {
 public:
  explicit Maker(Random& random) : random_(random) {}

  ToldRun make() {
    temper_ = random_.of(std::vector<Temper>{Temper::kMatches, Temper::kMatches, Temper::kMatches,
                                             Temper::kRounds, Temper::kDoubts, Temper::kOneFault,
                                             Temper::kOneFault, Temper::kWild});
    run_.hash_algo = random_.one_in(3) ? "fnv-256" : "greta-1";
    style_ = style();
    const size_t prompts = random_.of(std::vector<size_t>{1, 1, 2, 3});
    for (size_t i = 0; i < prompts; ++i) add_prompt("p" + std::to_string(i));
    if (temper_ == Temper::kDoubts) make_doubtful();
    if (temper_ == Temper::kWild) spoil(40);
    if (temper_ == Temper::kOneFault && !has_fault_) spoil_one();
    add_facts();
    return std::move(run_);
  }

 private:
  bool is_wild(size_t n) { return temper_ == Temper::kWild && random_.one_in(n); }

  Style style() {
    const std::vector<Style> greta = {{},
                                      {.sample = 3},
                                      {.sketch = false, .sample = 6},
                                      {.statistics = false, .sketch = false},
                                      {.hash = false, .statistics = false},
                                      {.hash = false, .sketch = false, .sample = 6},
                                      {.hash = false, .sample = 3}};
    const std::vector<Style> legacy = {{.sketch = false},
                                       {.sketch = false, .sample = 6},
                                       {.sketch = false, .sample = 3, .more = 4096},
                                       {.sketch = false, .sample = 6, .more = 4096},
                                       {.hash = false, .sketch = false, .sample = 3}};
    return random_.of(run_.hash_algo == "greta-1" ? greta : legacy);
  }

  void add_prompt(const std::string& prompt) {
    const int64_t last = 2 + static_cast<int64_t>(random_.below(3));
    std::optional<int64_t> token;
    if (random_.one_in(2)) token = 100 + static_cast<int64_t>(random_.below(3));
    std::vector<std::string> tensors = {"x_in",        "norm_out", "q_pre_rope", "q_post_rope",
                                        "k_post_rope", "attn_out", "mlp_out",    "gate_17"};
    for (size_t i = tensors.size() - 1; i > 0; --i)
      std::swap(tensors[i], tensors[random_.below(i + 1)]);
    tensors.resize(random_.of(std::vector<size_t>{1, 1, 2, 3}));
    const size_t layers = random_.one_in(3) ? 2 : 1;
    const bool earlier = random_.one_in(3), later = random_.one_in(4);
    for (size_t layer = 0; layer < layers; ++layer) {
      for (const std::string& tensor : tensors) {
        ToldRow row{.prompt = prompt,
                    .tensor = tensor,
                    .layer = static_cast<int64_t>(layer),
                    .pos = last,
                    .token = token};
        add_pair(row, "prefill_last", "decode0");
        row.pos = last - 1;
        if (earlier && random_.one_in(4)) add_one(row, "prefill", 0, ++content_);
        if (earlier) add_pair(row, "prefill", "decode");
        row.pos = last + 1;
        if (later) add_one(row, "decode", 2, ++content_);
      }
    }
    if (random_.one_in(3)) {  // what decode has none of
      add_one({.prompt = prompt, .tensor = "embed_out", .pos = last - 1, .token = token}, "prefill",
              0, ++content_);
    }
    if (random_.one_in(3)) {
      add_pair({.prompt = prompt, .tensor = "logits", .layer = -1, .pos = last, .token = token},
               "prefill_last", "decode0");
    }
  }

  Difference difference() {
    if (temper_ == Temper::kRounds && random_.one_in(2))
      return random_.one_in(3) ? Difference::kCoarse : Difference::kRounding;
    const bool is_the_fault = temper_ == Temper::kOneFault && !has_fault_ && random_.one_in(4);
    has_fault_ |= is_the_fault;
    if (!is_wild(6) && !is_the_fault) return Difference::kNone;
    return random_.of(std::vector<Difference>{Difference::kRounding, Difference::kDivergent,
                                              Difference::kInTheLastValue});
  }

  void add_pair(ToldRow row, const char* prefill, const char* decode) {
    const std::vector<float> of_prefill = values_of(++content_);
    std::vector<float> of_decode = of_prefill;
    const Difference difference = this->difference();
    for (size_t i = 0; i < of_decode.size(); ++i) {
      if (difference == Difference::kRounding) of_decode[i] *= 1.00001f;
      if (difference == Difference::kCoarse) of_decode[i] *= 1.002f;  // no rounding in f32
      if (difference == Difference::kDivergent && i % 2 == 0) of_decode[i] *= -1;
    }
    if (difference == Difference::kInTheLastValue) of_decode.back() += 1;
    const Style of_pair = is_wild(8) ? style() : style_;
    row.phase = prefill;
    tell_values(row, of_prefill, of_pair, run_.hash_algo);
    run_.rows.push_back(row);
    row.phase = decode;
    row.step = 1;
    tell_values(row, of_decode, is_wild(8) ? style() : of_pair, run_.hash_algo);
    run_.rows.push_back(row);
  }

  void add_one(ToldRow row, const char* phase, int64_t step, uint64_t content) {
    row.phase = phase;
    row.step = step;
    tell_values(row, values_of(content), style_, run_.hash_algo);
    run_.rows.push_back(row);
  }

  /// Nothing decides some pairs, or nothing but a document.
  void make_doubtful() {
    for (ToldRow& row : run_.rows) {
      if (random_.one_in(3)) row.n.reset();
      row.claimed = random_.one_in(4);
    }
  }

  /// Faults of single rows, of one in n each.
  void spoil(size_t n) {
    std::vector<ToldRow> rows;
    for (ToldRow& row : run_.rows) {
      if (random_.one_in(n)) continue;  // missing
      for (size_t kind = 0; kind < kSpoils; ++kind) {
        if (random_.one_in(n)) spoil_row(row, kind);
      }
      rows.push_back(row);
      if (random_.one_in(n)) rows.push_back(another_of(row));
    }
    run_.rows = std::move(rows);
  }

  void spoil_one() {
    const size_t at = random_.below(run_.rows.size()), kind = random_.below(kSpoils + 2);
    const auto row = run_.rows.begin() + static_cast<ptrdiff_t>(at);
    if (kind < kSpoils) {
      spoil_row(*row, kind);
    } else if (kind == kSpoils) {
      run_.rows.push_back(another_of(*row));
    } else {
      run_.rows.erase(row);
    }
  }

  static constexpr size_t kSpoils = 6;
  void spoil_row(ToldRow& row, size_t kind) {
    if (kind == 0) row.nan = 1;
    if (kind == 1) row.token = 7;
    if (kind == 2) row.pos = random_.one_in(2) ? -1 : row.pos + 1;
    if (kind == 3) row.claimed = true;
    if (kind == 4) row.n.reset();
    if (kind == 5 && row.hash && row.max) *row.max += 1;
  }

  ToldRow another_of(ToldRow row) {
    row.step += 1;
    if (random_.one_in(2)) tell_values(row, values_of(++content_), style_, run_.hash_algo);
    return row;
  }

  void add_facts() {
    spoils_facts_ = random_.one_in(4);
    if (random_.one_in(3)) run_.dtype = random_.of(std::vector<std::string>{"bf16", "f32", "q4_0"});
    if (random_.one_in(2)) run_.status = "complete";
    if (spoils(4)) run_.status = random_.one_in(2) ? "running" : "failed";
    if (random_.one_in(2)) add_plan();
    if (run_.status == "complete" && random_.one_in(2))
      run_.stated_rows = static_cast<int64_t>(run_.rows.size()) + spoils(3);
    if (random_.one_in(6)) run_.documents.push_back(document());
    if (spoils(8)) run_.rejected.push_back("{\"event\":\"stage_trace\",");
    if (spoils(8)) run_.ingest_open = true;
    if (random_.one_in(20)) {  // only its documents are left
      run_.rows.clear();
      run_.documents.push_back(document());
    }
  }

  bool spoils(size_t n) { return spoils_facts_ && random_.one_in(n); }

  void add_plan() {
    std::set<std::tuple<std::string, int, int64_t, std::string>> seen;
    for (const ToldRow& row : run_.rows) {
      if (row.claimed || side_of(row) == kNoSide || row.pos < 0) continue;
      if (!seen.insert({row.prompt, side_of(row), row.layer, canonical(row.tensor)}).second)
        continue;
      run_.plan.push_back({row.prompt, side_of(row), row.layer, row.tensor});
    }
    if (spoils(6)) run_.plan.push_back({"p0", 0, 9, "attn_out"});
  }

  ToldDocument document() {
    const bool is_good = !spoils_facts_;
    ToldDocument document;
    if (random_.one_in(2)) document.verdict = is_good || random_.one_in(2) ? "PASS" : "FAIL";
    for (size_t rows = random_.below(4); rows > 0; --rows) {
      const char* status = is_good || random_.one_in(2) ? "MATCH"
                           : random_.one_in(2)          ? "DRIFT"
                                                        : "MISSING";
      document.table.push_back(
          {.prompt = "p0", .layer = 0, .tensor = "attn_out", .status = status, .pos_id = 3});
    }
    return document;
  }

  Random& random_;
  Temper temper_ = Temper::kMatches;
  bool spoils_facts_ = false, has_fault_ = false;
  Style style_;
  ToldRun run_;
  uint64_t content_ = 0;
};

}  // namespace

std::vector<float> values_of(uint64_t content) {
  std::vector<float> values(6);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = mix64(content * 64 + i + 1) >> 40;  // 24 of them
    values[i] = (static_cast<float>(bits) - 8388608.0f) / 1048576.0f;
  }
  return values;
}

void tell_values(ToldRow& row, const std::vector<float>& values, const Style& style,
                 const std::string& algo) {
  const Fingerprint f = fingerprint(values);
  row.n = static_cast<int64_t>(f.n) + style.more;
  row.hash.reset();
  if (style.hash) row.hash = algo == "greta-1" ? f.hash : legacy_fnv_hash(values);
  row.min = row.max = row.mean = row.abs_sum = {};
  if (style.statistics) {
    row.min = static_cast<double>(f.min);
    row.max = static_cast<double>(f.max);
    row.mean = f.mean;
    row.abs_sum = f.abs_sum;
  }
  row.nan = row.inf = 0;
  row.sample.assign(values.begin(), values.begin() + static_cast<ptrdiff_t>(style.sample));
  row.sketch.reset();
  if (style.sketch) row.sketch = ToldSketch{f.sum_sq, f.sketch};
}

ToldRun random_run(Random& random) { return Maker(random).make(); }

}  // namespace greta::harm
