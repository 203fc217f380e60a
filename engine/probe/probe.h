#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/forward/forward.h"
#include "engine/forward/model.h"
#include "engine/probe/pair_watch.h"
#include "engine/run/trace_sink.h"
#include "kernels/cpu/thread_pool.h"

// The probe: computes the same tokens by prefill and by decode.

namespace greta {

/// Expected result of an RMS norm, and how far off it is.
struct RmsCheck {
  double sum_sq = 0;  ///< Σx² of its input, in double
  double eps = 0;
  double max_rel_err = 0;  ///< greatest |given − expected| / |expected|; NaN when either is
  double rel_l2 = 0;       ///< relative_error() of the norm
};

/// ‖given − expected‖ over the larger norm, as readouts record it: kNotFinite when that is NaN or
/// infinite.
double relative_error(std::span<const float> given, std::span<const double> expected);
inline constexpr double kNotFinite = 1e30;

/// The LM head done again on the CPU, in double, from the hidden state that was traced: tells which
/// route of the engine to doubt when prefill and decode choose different tokens.
class HeadProbe {
 public:
  /// The model must outlive it. n_threads as for make_cpu_backend.
  HeadProbe(const Model& model, int n_threads);

  /// hidden: f32 [dim], residual stream after the stack; given: f32 [dim], what the engine made of
  /// it.
  RmsCheck check_norm(std::span<const float> hidden, std::span<const float> given) const;

  /// logits [vocab] in double: norm and product from `hidden`, weights expanded to f32.
  std::vector<double> logits(std::span<const float> hidden);

  /// Index of the greatest logit, ties to the lower one; -1 when none is a number.
  static int32_t top1(std::span<const double> logits);

 private:
  std::vector<double> norm(std::span<const float> hidden) const;

  const Model& model_;
  ThreadPool pool_;
};

inline constexpr int64_t kDefaultRepeats = 2;

/// How a probe runs.
struct ProbeOptions {
  ForwardOptions forward;
  TraceSelection selection;
  bool rms_verify = false;   ///< recompute the final norm in double
  bool cpu_probe = false;    ///< recompute the logits in double
  int64_t decode_steps = 0;  ///< greedy tokens after decode0, for prompts that do not say
  int n_threads = 0;         ///< of the checks on the CPU
  /// Memory of the backend for rows of the side that comes first, so that each pair is compared
  /// value by value; what does not fit is not.
  int64_t kept_bytes = int64_t{256} << 20;
  /// How often a prompt runs again that has a pair beyond rounding, or comes out otherwise in
  /// run_again(). 0: nothing runs again.
  int64_t repeats = kDefaultRepeats;
  /// Prompts that are computed together at most, as far as their tokens, with those decoded after
  /// them, fit a batch. Where a fault begins at a place, each is by itself.
  int64_t sequences = 1;
};

/// A prompt to probe.
struct ProbePrompt {
  std::string name;
  std::string text_sha256;      ///< empty when given as ids
  std::vector<int32_t> tokens;  ///< at least one
  std::optional<int64_t> decode_steps = {};
  bool again = false;  ///< Probe::run_again() has it
};

/// The same token at the same position, once by prefill and once by decode, into a trace sink.
///
/// Prefill runs the whole prompt (P tokens) and its last position is traced; then every activation
/// and every cache row from P − 1 on (kv_aligned: from P on) is overwritten with NaN, and the last
/// token runs again by the decode path on the cache of the others. Before prefill all of them are
/// NaN: what an earlier prompt left, or nobody wrote, does not look like a result.
///
/// Then N tokens are decoded greedily, and, with everything NaN again, a prefill of prompt and
/// tokens gives each of them its other side (phase prefill_last). In kv_aligned the order is turned
/// around: the tokens are learned first, and decode attends over what that prefill wrote, the last
/// token first, so that all that a token must not read is NaN.
///
/// Prompts can be computed together: prefill takes all of them in one batch. Each has cache rows of
/// its own, and sees nobody else's. What this changes of a row is rounding at most, and in
/// batch_invariant no bit; only there tokens of several prompts are decoded by one batch as well,
/// for else decode is to be what it is of one token. What the sink is told of a prompt does not
/// depend on the others.
///
/// Prompts are nothing to each other, so one of them has the same rows whatever ran before it.
/// run_again() tries that with some.
///
/// The two rows of a pair are compared value by value on the device: the record of the second one
/// has their difference.
class Probe {
 public:
  /// All references must outlive it. capacity: positions of the longest prompt with the tokens that
  /// are decoded after it. Throws std::invalid_argument when a row to trace would have more values
  /// than a fingerprint covers.
  Probe(const Model& model, const ModelWeights& weights, Backend& backend, int64_t capacity,
        ProbeOptions options);

  /// Called when a traced batch is under way; for progress.
  std::function<void(const char* phase)> on_progress;

  /// A prompt with a pair beyond these relative L2 distances (by TracePoint; in batch_invariant
  /// with one that differs at all) runs again, and the sink is given the rows of its first such
  /// place as those of a repeat. Those of a race change. Of two repeats the first comes after the
  /// prompt itself, and the second after what the prompt had come after. Without this none does.
  void repeat_beyond(std::vector<double> tolerances);

  void run(const ProbePrompt& prompt, TraceSink& sink) { run({&prompt, 1}, sink); }
  /// Prompts that are computed together: one of groups(). The sink is told of all first.
  void run(std::span<const ProbePrompt> together, TraceSink& sink);

  /// Runs those of ProbePrompt::again that pass once more, after all others, up to decode0: in
  /// batch_invariant alone, else with those that they were computed with. The sink is given what
  /// rows come out otherwise as rows of the prompt, which are then ambiguous, and where there are
  /// any, repeats of the first such place.
  void run_again(TraceSink& sink);

  /// A suite's prompts in their order, as many together as may be.
  std::vector<std::span<const ProbePrompt>> groups(std::span<const ProbePrompt> suite) const;

 private:
  /// A prompt among those that are computed together.
  struct Member {
    const ProbePrompt* prompt = nullptr;
    size_t number = 0;                      ///< among them
    size_t of_run = 0;                      ///< its number in the run
    int64_t cache_row = 0, cache_rows = 0;  ///< as Stretch has them
    std::vector<int32_t> tokens;            ///< its own, and those decoded after it
    TraceSink* sink = nullptr;              ///< nullptr: nothing is wanted of it
    PairWatch watch;
    std::optional<RowHashes> hashes = {};  ///< if it is to run again

    int64_t n_prompt() const { return static_cast<int64_t>(prompt->tokens.size()); }
    int64_t end() const { return static_cast<int64_t>(tokens.size()); }
  };
  using Members = std::vector<Member*>;
  /// The tokens of a member that a batch has.
  struct Part {
    Member* member = nullptr;
    std::span<const int32_t> tokens;
    int64_t first_pos = 0;
    int64_t from = 0;  ///< positions before this one are not traced
  };
  /// What a batch is, and is traced as.
  struct Pass {
    bool decode = false, keep_kv = true;
    int64_t step = 0;
    Phase last{};                 ///< of each part's last token
    std::optional<Phase> others;  ///< of the tokens before
    bool ends_prompt = true;      ///< the last tokens have a readout, traced or not
  };
  /// A traced batch that is under way.
  struct Pending {
    struct Readout {
      Member* member;
      int64_t logits_row;
      Phase phase;
      Moment at;
      ReadoutRecord checks;  ///< of which only what the checks have found
    };
    Members members;
    std::vector<Readout> readouts;
    Forward::TopRead tops;
  };
  /// Prompts that have run, and are to run again together.
  struct Again {
    std::vector<ProbePrompt> prompts;
    std::vector<size_t> of_run;
    std::vector<RowHashes> hashes;
  };
  std::vector<Member> members_of(std::span<const ProbePrompt> together) const;
  void run_once(std::vector<Member>& all);
  void trace_rest(std::vector<Member>& all, TraceSink& sink);
  void run_last();
  void repeat_failing(std::vector<Member>& all, TraceSink& sink);
  void keep_for_again(std::vector<Member>& all);
  template <class Sinks>
  void repeat(const Again& one, Sinks& sinks);
  void decode_all(const Members& members);
  void generate(Members members, bool traced);
  void verify(std::vector<Member>& all);
  void poison_rows(const std::vector<Member>& all);
  void begin_decode(const Members& members);
  void prefill(const Members& members, bool verifies);
  void decode(const Members& members, bool keep_kv, bool traced, std::optional<int64_t> pos = {});
  void compute(std::span<const Part> parts, const Pass& pass, bool traced);
  void note_readouts(std::span<const Part> parts, const Pass& pass, Pending& pending);
  void hand_over();
  void hand_over_all();
  void check_head(size_t traced, int64_t token, ReadoutRecord& readout);
  std::string audit(bool decode) const;
  int64_t n_steps_of(const ProbePrompt& prompt) const {
    return prompt.decode_steps.value_or(options_.decode_steps);
  }
  bool is_aligned() const { return options_.forward.mode == Mode::kKvAligned; }
  /// True if tokens of several prompts are decoded together.
  bool is_invariant() const { return options_.forward.mode == Mode::kBatchInvariant; }

  const Model& model_;
  Backend& backend_;
  ProbeOptions options_;
  KvCache cache_;
  Forward forward_;
  Tracer tracer_;
  std::optional<HeadProbe> head_probe_;
  PairWatch watch_;  ///< that of every prompt begins as this one
  std::deque<Pending> pending_;
  std::vector<ProbePrompt> last_;  ///< what ran before
  std::vector<Again> again_;
  int64_t repeat_ = 0;   ///< which one is in progress; 0: the run that is judged
  bool shares_ = false;  ///< several prompts are computed together
  int64_t longest_ = 0;  ///< tokens of the longest of them
};

}  // namespace greta
