#include "engine/probe/probe.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "engine/probe/suite.h"

namespace greta {
namespace {

/// Throws std::invalid_argument when a row to trace would be longer than a fingerprint can be.
ProbeOptions checked(ProbeOptions options, const ModelConfig& config, int64_t capacity) {
  const auto check = [&](TracePoint a, TracePoint b, int64_t width, const char* of) {
    const bool wanted = options.selection.wants(a) || options.selection.wants(b);
    if (!wanted || capacity <= static_cast<int64_t>(kMaxFingerprintValues) / width) return;
    const auto name = [](TracePoint point) { return std::string(trace_point_name(point)); };
    throw std::invalid_argument(name(a) + " of " + std::to_string(width) + of + " over " +
                                std::to_string(capacity) + " positions have more than the " +
                                std::to_string(kMaxFingerprintValues) +
                                " values that one fingerprint covers; leave " + name(a) + " and " +
                                name(b) + " out of --tensors");
  };
  check(TracePoint::kAttnScores, TracePoint::kAttnProbs, config.n_heads, " heads");
  check(TracePoint::kKCacheRows, TracePoint::kVCacheRows, config.kv_dim(), " values");
  return options;
}

/// Of several prompts that are computed together all faults begin at the same time: at once.
int64_t most_sequences(const ProbeOptions& options) {
  const std::span<const Fault> faults = options.forward.faults.all();
  const bool late = std::any_of(faults.begin(), faults.end(), [&](const Fault& fault) {
    const bool waits = fault.kind == FaultKind::kRopeThetaKept &&
                       options.forward.mode != Mode::kBatchInvariant;  // it runs again alone there
    return waits || fault.onset.pos > 0 || fault.onset.step > 0 || fault.onset.n_prompt > 0;
  });
  return late ? 1 : options.sequences;
}

std::string names_of(std::span<const ProbePrompt> prompts) {
  nlohmann::json names = nlohmann::json::array();
  for (const ProbePrompt& prompt : prompts) names.push_back(prompt.name);
  return names.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// Rows that the cache has for prompts that are computed together.
int64_t shared_rows(const ProbeOptions& options) {
  const int64_t n = most_sequences(options);
  return n > 1 ? options.forward.max_batch + n : 0;
}

}  // namespace

Probe::Probe(const Model& model, const ModelWeights& weights, Backend& backend, int64_t capacity,
             ProbeOptions options)
    : model_(model),
      backend_(backend),
      options_(checked(std::move(options), model.config(), capacity)),
      cache_(model.config(), capacity, backend, shared_rows(options_), options_.forward.kv_cache),
      forward_(model, weights, backend, cache_, options_.forward),
      tracer_(options_.selection, backend,
              {options_.kept_bytes, model.config().n_heads, model.config().n_kv_heads}) {
  if (options_.rms_verify || options_.cpu_probe) head_probe_.emplace(model, options_.n_threads);
}

std::vector<std::span<const ProbePrompt>> Probe::groups(std::span<const ProbePrompt> suite) const {
  std::vector<int64_t> lengths;
  for (const ProbePrompt& prompt : suite) {
    lengths.push_back(std::ssize(prompt.tokens) + n_steps_of(prompt));
  }
  std::vector<std::span<const ProbePrompt>> groups;
  const GroupLimits limits{.sequences = most_sequences(options_),
                           .tokens = options_.forward.max_batch};
  size_t first = 0;
  for (const size_t n : group_sizes(lengths, limits)) {
    groups.push_back(suite.subspan(first, n));
    first += n;
  }
  return groups;
}

void Probe::repeat_beyond(std::vector<double> tolerances) {
  const bool equal = options_.forward.mode == Mode::kBatchInvariant;
  if (equal) std::fill(tolerances.begin(), tolerances.end(), 0);
  const bool halves = options_.forward.kv_cache == KvType::kF16;
  watch_ = PairWatch(std::move(tolerances), halves ? 0x1p-10 : 0);
}

void Probe::run(std::span<const ProbePrompt> together, TraceSink& sink) {
  pending_.clear();
  std::vector<Member> all = members_of(together);
  const bool any_again = std::ranges::any_of(together, &ProbePrompt::again);
  for (Member& member : all) {
    if (is_invariant() ? member.prompt->again : any_again) member.hashes.emplace();
    member.sink = &sink;
    const ProbePrompt& prompt = *member.prompt;
    member.of_run = sink.begin_prompt({prompt.name, prompt.text_sha256, prompt.tokens,
                                       options_.selection.plan(model_.config().n_layers)});
  }
  if (all.size() > 1 && !is_invariant()) sink.attribute("prefilled_together", names_of(together));
  repeat_ = 0;
  run_once(all);
  trace_rest(all, sink);
  repeat_failing(all, sink);
  keep_for_again(all);
  last_.assign(together.begin(), together.end());
}

std::vector<Probe::Member> Probe::members_of(std::span<const ProbePrompt> together) const {
  const bool share = together.size() > 1;
  std::vector<Member> all;
  int64_t row = share ? cache_.rows() : 0;
  for (const ProbePrompt& prompt : together) {
    Member& member = all.emplace_back();
    member.prompt = &prompt;
    member.number = all.size() - 1;
    member.cache_row = row;
    member.cache_rows = share ? member.n_prompt() + n_steps_of(prompt) + 1 : cache_.rows();
    member.watch = watch_;
    row += member.cache_rows;
  }
  return all;
}

/// Runs prompts again that have a pair beyond rounding, and traces what the selection left out: a
/// difference is judged by those of its inputs, and located between two traced rows.
void Probe::trace_rest(std::vector<Member>& all, TraceSink& sink) {
  TraceSelection rest = options_.selection;
  rest.layers.clear();
  const int64_t per_position = std::max(model_.config().n_heads, model_.config().kv_dim());
  if (cache_.rows() * per_position <= static_cast<int64_t>(kMaxFingerprintValues)) {
    rest.points.clear();
  }
  const auto n_rows = [this](const TraceSelection& selection) {
    return selection.plan(model_.config().n_layers).size();
  };
  const auto fails = [](const Member& member) { return member.watch.any_beyond(); };
  if (std::ranges::none_of(all, fails) || n_rows(rest) == n_rows(options_.selection)) return;
  std::deque<RestOfRows> wanted;
  for (Member& member : all) {
    member.sink = fails(member) ? &wanted.emplace_back(options_.selection, sink) : nullptr;
    if (member.sink == nullptr) continue;
    sink.attribute("traced_whole", member.prompt->name);
    member.watch.begin();
  }
  tracer_.select(std::move(rest));
  run_once(all);
  tracer_.select(options_.selection);
}

/// Runs prompts again that have a pair beyond rounding, with all that they were computed with.
void Probe::repeat_failing(std::vector<Member>& all, TraceSink& sink) {
  const auto fails = [](const Member& member) { return member.watch.first().has_value(); };
  if (std::none_of(all.begin(), all.end(), fails)) return;
  for (repeat_ = 1; repeat_ <= options_.repeats; ++repeat_) {
    if (repeat_ % 2 == 0) run_last();
    std::deque<RepeatedRows> repeated;
    for (Member& member : all) {
      const std::optional<PairPlace>& failing = member.watch.first();
      member.sink = failing ? &repeated.emplace_back(*failing, repeat_, sink) : nullptr;
    }
    run_once(all);
  }
  repeat_ = 0;
}

/// Runs the prompts once more that ran before, for what they leave behind.
void Probe::run_last() {
  if (last_.empty()) return;
  std::vector<Member> all = members_of(last_);
  RowsOnly nobody;
  for (Member& member : all) member.sink = &nobody;
  run_once(all);
}

/// Keeps prompts that are to run again, with the hashes of their rows.
void Probe::keep_for_again(std::vector<Member>& all) {
  const auto add = [&](std::span<Member> members) {
    const auto passes = [](const Member& member) { return member.hashes && !member.watch.first(); };
    if (!std::ranges::all_of(members, passes)) return;
    Again& one = again_.emplace_back();
    for (Member& member : members) {
      one.prompts.push_back(*member.prompt);
      one.prompts.back().decode_steps = 0;
      one.of_run.push_back(member.of_run);
      one.hashes.push_back(*std::move(member.hashes));
    }
  };
  if (!is_invariant()) return add(all);
  for (Member& member : all) add({&member, 1});
}

/// sinks: of each prompt.
template <class Sinks>
void Probe::repeat(const Again& one, Sinks& sinks) {
  std::vector<Member> all = members_of(one.prompts);
  for (size_t i = 0; i < all.size(); ++i) {
    all[i].of_run = one.of_run[i];
    all[i].sink = &sinks[i];
  }
  run_once(all);
}

void Probe::run_again(TraceSink& sink) {
  if (options_.repeats == 0) again_.clear();
  for (; !again_.empty(); again_.pop_back()) {
    const Again& one = again_.back();
    sink.attribute("ran_again", names_of(one.prompts));
    std::deque<ChangedRows> changed;
    for (const RowHashes& hashes : one.hashes) changed.emplace_back(hashes, sink);
    repeat_ = 1;  // odd, since it comes after others than at first
    repeat(one, changed);
    const bool any_changed = std::ranges::any_of(
        changed, [](const ChangedRows& rows) { return rows.first().has_value(); });
    for (int64_t i = 0; i < options_.repeats && any_changed; ++i) {
      repeat_ += 2;
      run_last();
      std::deque<RepeatedRows> repeated;
      for (const ChangedRows& rows : changed) repeated.emplace_back(rows.first(), repeat_, sink);
      repeat(one, repeated);
    }
    last_ = one.prompts;
  }
  repeat_ = 0;
}

/// All that is computed for prompts. Of one that nothing is wanted of, only what the others are
/// computed with.
void Probe::run_once(std::vector<Member>& all) {
  shares_ = all.size() > 1;
  longest_ = std::ranges::max_element(all, {}, &Member::n_prompt)->n_prompt();
  tracer_.forget_kept();
  std::vector<int64_t> not_kept;
  Members every, wanted;
  for (Member& member : all) {
    not_kept.push_back(tracer_.n_not_kept(member.number));
    every.push_back(&member);
    if (member.sink == nullptr) continue;
    wanted.push_back(&member);
    member.tokens = member.prompt->tokens;
  }
  forward_.poison_activations();
  poison_rows(all);
  prefill(every, false);
  if (is_invariant()) {
    decode_all(wanted);
  } else {
    for (Member* const member : wanted) decode_all({member});
  }
  verify(all);
  hand_over_all();
  for (const Member* const member : wanted) {
    const int64_t n = tracer_.n_not_kept(member->number) - not_kept[member->number];
    if (n == 0) continue;
    member->sink->attribute("not_compared_exactly",
                            member->prompt->name + ": " + std::to_string(n) +
                                " rows more than fit in " +
                                std::to_string(options_.kept_bytes >> 20) + " MiB");
  }
}

void Probe::poison_rows(const std::vector<Member>& all) {
  const Member& last = all.back();
  const int64_t first_row = all.front().cache_row;
  cache_.poison(first_row, last.cache_row + last.cache_rows - first_row);
}

/// Decodes the last token of prompts, and those that follow.
void Probe::decode_all(const Members& members) {
  begin_decode(members);
  decode(members, !is_aligned(), true);
  hand_over_all();
  const bool learns_only = options_.selection.wants(Phase::kDecode) && is_aligned();
  generate(members, !learns_only);
}

/// What the decoded tokens must not read is NaN, and the rest of the cache where they read it.
void Probe::begin_decode(const Members& members) {
  const bool in_place = !shares_ || is_invariant();
  const auto n_known = [&](const Member& one) { return one.n_prompt() - (is_aligned() ? 0 : 1); };
  if (!in_place) cache_.copy(members[0]->cache_row, n_known(*members[0]), 0);
  forward_.poison_activations();
  if (!in_place) return cache_.poison_from(n_known(*members[0]));
  for (const Member* const one : members) {
    cache_.poison(one->cache_row + n_known(*one), one->cache_rows - n_known(*one));
  }
}

/// Decodes the tokens that follow prompts greedily. Fewer than asked where no logit is a number:
/// what the run has found until then is worth more than the rest.
void Probe::generate(Members members, bool traced) {
  for (;;) {
    const auto is_done = [this](const Member* one) {
      return one->end() - one->n_prompt() >= n_steps_of(*one->prompt);
    };
    if (std::all_of(members.begin(), members.end(), is_done)) break;
    const std::vector<TopLogits> tops = forward_.fetch(forward_.top_read());
    Members going;
    for (size_t i = 0; i < members.size(); ++i) {
      Member& one = *members[i];
      if (is_done(&one)) continue;
      if (tops[i].has_choice()) {
        one.tokens.push_back(tops[i].ids[0]);
        going.push_back(&one);
        continue;
      }
      hand_over_all();
      one.sink->attribute("decode_ended", one.prompt->name + " after " +
                                              std::to_string(one.end() - one.n_prompt()) + " of " +
                                              std::to_string(n_steps_of(*one.prompt)) +
                                              " tokens: no logit is a number above -inf");
    }
    if (going.empty()) break;
    decode(going, true, traced);
    members = std::move(going);
  }
  hand_over_all();
}

/// Gives decoded tokens their other side where both are traced.
void Probe::verify(std::vector<Member>& all) {
  const bool traced = options_.selection.wants(Phase::kDecode);
  if (!traced || !(is_aligned() || options_.selection.wants(Phase::kPrefillLast))) return;
  Members decoded;
  for (Member& member : all) {
    if (member.end() > member.n_prompt()) decoded.push_back(&member);
  }
  if (decoded.empty()) return;
  forward_.poison_activations();
  poison_rows(all);
  prefill(decoded, true);
  if (!is_aligned()) return;
  for (Member* const one : decoded) {
    if (one->sink == nullptr) continue;
    if (shares_) cache_.copy(one->cache_row, one->end(), 0);
    forward_.poison_activations();
    for (int64_t pos = one->end() - 1; pos >= one->n_prompt(); --pos) {
      cache_.poison_from(pos + 1);
      decode({one}, false, true, pos);
    }
  }
}

/// verifies: what was decoded after the prompts is prefilled as well, and traced as such; else the
/// last token of each prompt is.
void Probe::prefill(const Members& members, bool verifies) {
  Pass pass{.last = Phase::kPrefillLast,
            .others = verifies ? Phase::kPrefillLast : Phase::kPrefill,
            .ends_prompt = !verifies};
  const auto tokens_of = [&](const Member& one) {
    return std::span<const int32_t>(verifies ? one.tokens : one.prompt->tokens);
  };
  const auto from = [&](const Member& one) { return verifies ? one.n_prompt() : 0; };
  if (shares_) {
    std::vector<Part> parts;
    for (Member* const one : members) parts.push_back({one, tokens_of(*one), 0, from(*one)});
    compute(parts, pass, true);
    if (on_progress) on_progress("prefill");
    return;
  }
  Member& one = *members.front();
  const std::span<const int32_t> tokens = tokens_of(one);
  const auto n = std::ssize(tokens);
  for (int64_t first = 0, count = 0; first < n; first += count) {
    const int64_t most = std::min(options_.forward.max_batch, n - first);
    count = options_.forward.faults.end_of_batch(first, first + most) - first;
    const bool ends = first + count == n;
    pass.last = ends ? Phase::kPrefillLast : *pass.others;
    pass.ends_prompt = ends && !verifies;
    const auto piece = tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(count));
    const Part part{&one, piece, first, from(one)};
    compute({&part, 1}, pass, true);
    if (on_progress) on_progress("prefill");
  }
}

/// One token of each, at one step: that at `pos`, else the last that is known.
void Probe::decode(const Members& members, bool keep_kv, bool traced, std::optional<int64_t> pos) {
  std::vector<Part> parts;
  for (Member* const one : members) {
    const int64_t at = pos.value_or(one->end() - 1);
    parts.push_back({one, std::span(one->tokens).subspan(static_cast<size_t>(at), 1), at, 0});
  }
  const int64_t step = parts.front().first_pos - members.front()->n_prompt() + 2;
  const Phase phase = step == 1 ? Phase::kDecode0 : Phase::kDecode;
  compute(parts, {.decode = true, .keep_kv = keep_kv, .step = step, .last = phase, .others = {}},
          traced);
  if (on_progress && traced) on_progress(phase_name(phase).data());
}

/// Runs a batch. Rows of the traced one before are handed over while the device computes this one.
void Probe::compute(std::span<const Part> parts, const Pass& pass, bool traced) {
  const bool in_place = shares_ && (!pass.decode || is_invariant());
  std::vector<int32_t> tokens;
  std::vector<Stretch> stretches;
  std::vector<TracedSequence> sequences;
  Pending pending;
  for (const Part& part : parts) {
    const Member& one = *part.member;
    const int64_t row = in_place ? one.cache_row : 0;
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
    if (in_place) {
      stretches.push_back({std::ssize(part.tokens), part.first_pos, row, one.cache_rows});
    }
    sequences.push_back({part.tokens, part.first_pos, part.from, one.number});
    pending.members.push_back(part.member);
  }
  const Batch batch{.tokens = tokens,
                    .stretches = stretches,
                    .first_pos = parts.front().first_pos,
                    .decode = pass.decode,
                    .keep_kv = pass.keep_kv,
                    .step = pass.step,
                    .n_prompt = longest_,
                    .repeat = repeat_};
  if (!traced) return forward_.run(batch, nullptr);
  tracer_.begin(sequences, pass.last, pass.others, pass.step);
  forward_.run(batch, &tracer_);
  pending.tops = forward_.top_read();
  note_readouts(parts, pass, pending);
  pending_.push_back(std::move(pending));
  while (pending_.size() > 1) hand_over();
}

/// The readouts of what is compared, but for the logits that are not known yet.
void Probe::note_readouts(std::span<const Part> parts, const Pass& pass, Pending& pending) {
  const std::span<const TracedToken> traced = tracer_.traced();
  const auto add = [&](const Part& part, Phase phase, int64_t pos,
                       int64_t token) -> ReadoutRecord& {
    const Moment at{pos, pass.step, part.member->n_prompt()};
    const int64_t row = forward_.logits_row(token);
    pending.readouts.push_back({part.member, row, phase, at, {}});
    return pending.readouts.back().checks;
  };
  for (size_t i = 0; i < traced.size(); ++i) {
    const TracedToken& one = traced[i];
    if (one.phase == Phase::kPrefill) continue;
    const Part& part = parts[one.sequence];
    ReadoutRecord& readout = add(part, one.phase, one.pos, one.row);
    tracer_.annotate(TracePoint::kLogits, i, audit(is_decode(one.phase)));
    if (head_probe_ && repeat_ == 0) check_head(i, one.row, readout);
  }
  if (!pass.ends_prompt) return;
  int64_t end = 0;
  for (const Part& part : parts) {
    const auto n = std::ssize(part.tokens);
    end += n;
    const bool is_traced = tracer_.first_of(end - 1, 1) == 0;
    if (!is_traced) add(part, pass.last, part.first_pos + n - 1, end - 1);
  }
}

/// Gives the sinks the rows and readouts of the oldest batch. Waits for the device.
void Probe::hand_over() {
  const Pending batch = std::move(pending_.front());
  pending_.pop_front();
  std::vector<std::vector<TraceRecord>> rows = tracer_.take_each();
  for (size_t i = 0; i < batch.members.size(); ++i) {
    Member& member = *batch.members[i];
    if (repeat_ == 0) member.watch.look(rows[i]);
    if (repeat_ == 0 && member.hashes) member.hashes->add(rows[i]);
    if (member.sink != nullptr) member.sink->rows(member.of_run, std::move(rows[i]));
  }
  if (batch.readouts.empty()) return;
  const std::vector<TopLogits> tops = forward_.fetch(batch.tops);
  for (const Pending::Readout& one : batch.readouts) {
    if (one.member->sink == nullptr) continue;
    ReadoutRecord readout =
        forward_.readout(tops[static_cast<size_t>(one.logits_row)], one.phase, one.at);
    readout.cpu_top1_id = one.checks.cpu_top1_id;
    readout.norm_error = one.checks.norm_error;
    readout.logits_error = one.checks.logits_error;
    one.member->sink->readout(one.member->of_run, readout);
  }
}

void Probe::hand_over_all() {
  while (!pending_.empty()) hand_over();
}

/// What double arithmetic makes of the hidden state of a token of the batch, traced as number
/// `traced`.
void Probe::check_head(size_t traced, int64_t token, ReadoutRecord& readout) {
  const int64_t row = forward_.logits_row(token), dim = model_.config().dim;
  std::vector<float> hidden(static_cast<size_t>(dim)), normed(hidden.size());
  backend_.read(forward_.hidden() + row * dim, dim, hidden.data());
  backend_.read(forward_.final_norm() + row * dim, dim, normed.data());
  if (options_.rms_verify) {
    const RmsCheck check = head_probe_->check_norm(hidden, normed);
    tracer_.annotate(TracePoint::kFinalNorm, traced,
                     nlohmann::json{{"rms_sumsq", check.sum_sq},
                                    {"rms_eps", check.eps},
                                    {"rms_max_rel_err", check.max_rel_err},
                                    {"rms_weight_dtype", "f32"},
                                    {"rms_input_dtype", "f32"}}
                         .dump());
    readout.norm_error = check.rel_l2;
  }
  if (!options_.cpu_probe) return;
  const int64_t vocab = model_.config().vocab;
  std::vector<float> given(static_cast<size_t>(vocab));
  backend_.read(forward_.logits() + row * vocab, vocab, given.data());
  const std::vector<double> expected = head_probe_->logits(hidden);
  readout.cpu_top1_id = HeadProbe::top1(expected);
  readout.logits_error = relative_error(given, expected);
}

std::string Probe::audit(bool decode) const {
  const Matrix& w = model_.weights().output;
  const Route route = forward_.route(Op::kLmHead, decode);
  return nlohmann::json{{"lm_head_route", route_name(route)},
                        {"lm_head_quant_mode", weight_type_info(w.type).name},
                        {"lm_head_layout_used", "N x K (row_major)"},
                        {"lm_head_dtype_a", "f32"},
                        {"lm_head_dtype_b", weight_type_info(w.type).name},
                        {"lm_head_accum_dtype", "f32"},
                        {"lm_head_tied", model_.config().tied}}
      .dump();
}

}  // namespace greta
