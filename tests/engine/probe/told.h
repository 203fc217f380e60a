#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/probe/probe.h"
#include "tests/engine/engine_fixture.h"

// All that a probe tells a sink about a suite, to the bit, as lines that can be compared.

namespace greta {

/// Remembers every call as a line: those of a prompt after those of the prompts before it, and the
/// attributes behind all of them.
class ToldSink final : public TraceSink {
 public:
  size_t begin_prompt(const PromptRecord& prompt) override {
    std::string line = "prompt " + prompt.name + " " + std::to_string(prompt.plan.size());
    for (const int32_t id : prompt.token_ids) line += " " + std::to_string(id);
    ends_.push_back(ends_.empty() ? 0 : ends_.back());
    add(ends_.size() - 1, {line});
    return ends_.size() - 1;
  }
  void rows(size_t prompt, std::vector<TraceRecord> rows) override {
    std::vector<std::string> added;
    for (const TraceRecord& row : rows) added.push_back(line_of(row));
    add(prompt, added);
  }
  void readout(size_t prompt, const ReadoutRecord& r) override {
    add(prompt,
        {"readout " + std::string(phase_name(r.phase)) +
         numbers({static_cast<double>(r.step), static_cast<double>(r.pos_id),
                  static_cast<double>(r.top1_id), static_cast<double>(r.top1_logit),
                  static_cast<double>(r.top2_id), static_cast<double>(r.top2_logit),
                  static_cast<double>(r.vocab), r.norm_error.value_or(-1),
                  r.logits_error.value_or(-1), static_cast<double>(r.cpu_top1_id.value_or(-2))}) +
         " " + r.route});
  }
  void attribute(const std::string& name, const std::string& value) override {
    lines.push_back("attribute " + name + " " + value);
  }
  void end(bool) override {}

  std::vector<std::string> of(const std::string& what) const {
    std::vector<std::string> found;
    for (const std::string& line : lines) {
      if (line.starts_with(what + " ")) found.push_back(line);
    }
    return found;
  }

  std::vector<std::string> lines;

 private:
  void add(size_t prompt, const std::vector<std::string>& added) {
    lines.insert(lines.begin() + ends_[prompt], added.begin(), added.end());
    for (size_t i = prompt; i < ends_.size(); ++i) ends_[i] += std::ssize(added);
  }
  static std::string numbers(std::initializer_list<double> all) {
    std::string text;
    for (const double x : all) {
      char digits[48];
      std::snprintf(digits, sizeof digits, " %a", x);
      text += std::isnan(x) ? " nan" : digits;
    }
    return text;
  }
  static std::string line_of(const TraceRecord& row) {
    const Fingerprint& print = row.fingerprint;
    std::string line = "row " + row_name({row.point, row.layer}) + " " +
                       std::string(phase_name(row.phase)) + " " + std::to_string(row.step) + " " +
                       std::to_string(row.pos_id) + " " + std::to_string(row.token_id) + " " +
                       std::to_string(row.seq_len) + " " + std::to_string(row.token_index) + " " +
                       (row.route.empty() ? "-" : row.route) + " " + std::to_string(print.hash) +
                       row.extra;
    line += numbers({static_cast<double>(print.n), static_cast<double>(print.min),
                     static_cast<double>(print.max), print.mean, print.abs_sum, print.sum_sq,
                     static_cast<double>(print.nan), static_cast<double>(print.inf),
                     std::accumulate(print.sketch.begin(), print.sketch.end(), 0.0)});
    for (const float x : row.sample) line += numbers({static_cast<double>(x)});
    if (row.difference == nullptr) return line;
    const PairDifference& d = *row.difference;
    return line + " differs " + std::to_string(d.prefill_hash) + " " +
           std::to_string(d.decode_hash) + " " + std::to_string(d.heads) +
           numbers({static_cast<double>(d.values.differing), d.rel_l2().value_or(-1),
                    static_cast<double>(d.values.max_abs)});
  }

  std::vector<std::ptrdiff_t> ends_;  // of each prompt's lines
};

/// Prompts of as many tokens as `lengths` says.
inline std::vector<ProbePrompt> prompts_of(const TestModel& model,
                                           std::span<const int64_t> lengths) {
  std::vector<ProbePrompt> suite;
  for (const int64_t n : lengths) {
    const std::string number = std::to_string(suite.size());
    suite.push_back({"p" + number, "", model.tokens(n, suite.size() + 1), {}});
  }
  return suite;
}

/// What a probe says of a suite.
inline ToldSink told(const TestEngine& engine, ProbeOptions options,
                     std::span<const ProbePrompt> suite, int64_t sequences) {
  int64_t longest = 0;
  for (const ProbePrompt& prompt : suite) {
    longest = std::max(
        longest, std::ssize(prompt.tokens) + prompt.decode_steps.value_or(options.decode_steps));
  }
  options.sequences = sequences;
  Probe probe(engine.model, engine.weights, *engine.backend, longest, std::move(options));
  probe.repeat_beyond(std::vector<double>(kTracePoints, 1e-4));
  ToldSink sink;
  for (const std::span<const ProbePrompt> together : probe.groups(suite)) probe.run(together, sink);
  return sink;
}

/// Fails where what two probes said is not the same, with the first line that is not.
inline void expect_same(const ToldSink& expected, const ToldSink& got, const std::string& what) {
  const auto [a, b] = std::mismatch(expected.lines.begin(), expected.lines.end(), got.lines.begin(),
                                    got.lines.end());
  const bool same = a == expected.lines.end() && b == got.lines.end();
  EXPECT_TRUE(same) << what << ", line " << a - expected.lines.begin() << " of "
                    << expected.lines.size() << "\n  "
                    << (a == expected.lines.end() ? "no more" : a->substr(0, 300)) << "\n  "
                    << (b == got.lines.end() ? "no more" : b->substr(0, 300));
}

}  // namespace greta
