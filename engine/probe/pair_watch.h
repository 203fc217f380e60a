#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "engine/forward/tracer.h"
#include "engine/run/trace_sink.h"
#include "kernels/fingerprint/fingerprint.h"

// Finds pairs beyond rounding, and rows that come out otherwise in another run of their prompt,
// while a probe runs, so that the prompt runs again.

namespace greta {

/// A place that both sides trace.
struct PairPlace {
  TracePoint point{};
  int layer = 0;
  int64_t pos = 0;

  bool operator==(const PairPlace&) const = default;
  /// As verdicts order pairs: in forward order, then by position.
  auto order() const {
    return std::tuple(trace_point_stage(point) == Stage::kHead, layer, point, pos);
  }
  bool operator<(const PairPlace& other) const { return order() < other.order(); }
};

/// Distance of two rows of one length over the larger norm, estimated from their sketches; infinite
/// when a value is not finite, or the lengths differ.
double sketched_distance(const Fingerprint& a, const Fingerprint& b);

/// Holds the rows of both sides of one prompt against each other while they are made, and knows the
/// first pair that is beyond rounding and beyond what pairs before it may explain. The verdict is
/// the views' own, by direct inputs; this one decides what is run again.
class PairWatch {
 public:
  /// tolerances: relative L2 distances up to which a difference is rounding, by TracePoint; empty:
  /// nothing is looked at. stored: relative distance of two neighbours in the type of the cache.
  explicit PairWatch(std::vector<double> tolerances = {}, double stored = 0)
      : tolerances_(std::move(tolerances)), stored_(stored) {}

  /// Begins a prompt, or begins again.
  void begin();
  /// rows: those of a token and side in forward order.
  void look(std::span<const TraceRecord> rows);
  /// True if any pair is beyond its tolerance, explained or not.
  bool any_beyond() const { return any_beyond_; }
  const std::optional<PairPlace>& first() const { return first_; }

 private:
  /// Differences of a position so far.
  struct Shown {
    double most = 0;    // relative L2
    double scores = 0;  // of one attention score, as an absolute distance
  };
  void look(const TraceRecord& row);
  double explained(const PairPlace& place) const;

  std::vector<double> tolerances_;
  double stored_ = 0;
  std::map<PairPlace, Fingerprint> waiting_;  // for the row of the other side
  std::map<int64_t, Shown> shown_;            // by position
  std::optional<PairPlace> first_;
  bool any_beyond_ = false;
};

/// Takes rows, and nothing else that a probe says.
class RowsOnly : public TraceSink {
 public:
  size_t begin_prompt(const PromptRecord&) override { return 0; }
  void rows(size_t, std::vector<TraceRecord>) override {}
  void readout(size_t, const ReadoutRecord&) override {}
  void attribute(const std::string&, const std::string&) override {}
  void end(bool) override {}
};

/// Gives another sink the rows that a selection leaves out, and nothing else.
class RestOfRows final : public RowsOnly {
 public:
  RestOfRows(const TraceSelection& selection, TraceSink& sink)
      : selection_(selection), sink_(sink) {}

  void rows(size_t prompt, std::vector<TraceRecord> rows) override;

 private:
  const TraceSelection& selection_;
  TraceSink& sink_;
};

/// Hashes of the rows of both sides of a prompt.
class RowHashes {
 public:
  void add(std::span<const TraceRecord> rows);
  /// False if there is a row of that place and side with other values.
  bool agree_with(const TraceRecord& row) const;

 private:
  std::map<std::pair<PairPlace, bool>, uint64_t> hashes_;  // true: of decode
};

/// Gives another sink the rows of both sides that are not what they were, and nothing else.
class ChangedRows final : public RowsOnly {
 public:
  ChangedRows(const RowHashes& before, TraceSink& sink) : before_(before), sink_(sink) {}

  /// The first in forward order.
  const std::optional<PairPlace>& first() const { return first_; }

  void rows(size_t prompt, std::vector<TraceRecord> rows) override;

 private:
  const RowHashes& before_;
  TraceSink& sink_;
  std::optional<PairPlace> first_;
};

/// Gives another sink the rows of one place as those of a repeat, and nothing else.
class RepeatedRows final : public RowsOnly {
 public:
  /// number: of the repeat, from 1; the step of its rows. Even: it ran after the prompts that the
  /// first run of its prompt came after. Odd: after others.
  RepeatedRows(const std::optional<PairPlace>& place, int64_t number, TraceSink& sink)
      : place_(place), number_(number), sink_(sink) {}

  void rows(size_t prompt, std::vector<TraceRecord> rows) override;

 private:
  std::optional<PairPlace> place_;  // nothing: no row is given
  int64_t number_;
  TraceSink& sink_;
};

}  // namespace greta
