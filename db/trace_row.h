#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

// A row of the table trace_row, as the engine and the importer give it to TraceWriter.

namespace greta {

struct Fingerprint;

inline constexpr int64_t kUnknownPosition = -1;
inline constexpr int64_t kUnknownStep = -1;
/// Greatest position and layer of a row; one beyond them is refused.
inline constexpr int64_t kMaxPosition = (int64_t{1} << 21) - 2;
inline constexpr int64_t kMaxLayer = 8189;

/// Side of the comparison a phase belongs to (phase.side).
enum class Side : int { kPrefill = 0, kDecode = 1, kNeither = 2 };

/// trace_row.flags.
inline constexpr int kFlagNonfiniteStatistic = 1;  ///< a statistic was written as NaN or inf
inline constexpr int kFlagDerived = 2;             ///< statistics computed from the sample
inline constexpr int kFlagRejectedField = 4;       ///< a field was rejected, see row_context.extra
inline constexpr int kFlagClaimed = 8;             ///< only a document states the row
inline constexpr int kFlagOtherHash = 16;  ///< hashed by the algorithm that run.hash_algo is not
inline constexpr int kFlagTensor = 32;     ///< covers a whole tensor, not a position
inline constexpr int kAllFlags = 63;

/// Sketch of a row: two maps of 16 buckets, in the values' own unit. StoredSketch is what is
/// stored.
struct RowSketch {
  int64_t n = 0;         ///< values covered
  bool derived = false;  ///< made from a stored sample
  double sum_sq = 0;     ///< squared L2 norm
  std::array<double, 32> bucket{};
};

/// One row of trace_row, with the ids of its dictionaries. sample and sketch are borrowed until
/// TraceWriter::write returns.
struct TraceRow {
  int64_t run_id = 0;
  int64_t prompt_id = 0;
  Side side = Side::kNeither;
  int64_t pos_id = kUnknownPosition;
  int64_t layer = 0;
  int64_t tensor_id = 0;
  int64_t nth = 0;  ///< set by the writer
  int64_t phase_id = 0;
  int64_t step = kUnknownStep;
  int64_t name_id = 0;

  std::optional<int64_t> token_id, logical_tok_idx, n;
  std::optional<uint64_t> hash;
  std::optional<double> min, max, mean, abs_sum;  ///< never NaN: SQLite would store NULL
  std::optional<int64_t> nan, inf, nz_count;
  int flags = 0;
  std::optional<int64_t> ptr, offset_bytes, context_id;
  int64_t source_id = 0;
  int64_t line = 0;  ///< 1-based; a source never gives one key twice on one line
  std::span<const float> sample;
  const RowSketch* sketch = nullptr;
};

/// Sets what a fingerprint says of its values in columns: n, and min to nz_count, where those that
/// no finite value has stay absent.
void set_statistics_of(TraceRow& row, const Fingerprint& f);

/// The sketch of a fingerprint.
RowSketch sketch_of(const Fingerprint& f, bool derived = false);

/// Why no row of finite values can be what this one says of them, however it was rounded: its
/// statistics rule each other out. "" when one can, or when it says that not all are finite.
/// `covers_n`: hash, mean and sums are of all that n counts.
std::string fault_of(const TraceRow& row, bool covers_n);

/// The same for what rounding can do that is coarser than any in use: the row stays, and somebody
/// should look.
std::string doubt_of(const TraceRow& row, bool covers_n);

/// Why the row's sketch is not one of its values: all of it is 0, or its sum of squares is one that
/// min and max rule out. "" where nothing tells, or there is no sketch.
std::string sketch_doubt(const TraceRow& row);

/// Notices a hash that stands still while the values change: that of kRows rows and more, which say
/// kOthers different extremes or counts. Two may be one row, printed with more digits and with
/// less. Remembers the hashes that were last.
class StillHash {
 public:
  static constexpr int kRows = 8, kOthers = 4;
  /// True if the row, which has a hash of all its values, is such a one.
  bool has_seen(const TraceRow& row);

 private:
  struct Statistics {
    std::optional<double> min, max;
    std::optional<int64_t> nz_count;
    bool operator==(const Statistics&) const = default;
  };
  struct Seen {
    std::optional<uint64_t> hash;
    int rows = 0;
    std::vector<Statistics> others;  ///< at most kOthers
  };
  std::array<Seen, 256> seen_{};
};

/// Columns of trace_row: where a row is, what it says, whether it stands for others, and all of
/// them in the order of the table.
inline constexpr const char* kPlaceColumns = "run_id, prompt_id, side, pos_id, layer, tensor_id";
inline constexpr const char* kValueColumns =
    "token_id, logical_tok_idx, n, hash, min, max, mean, abs_sum, nan, inf, nz_count, flags";
inline constexpr const char* kStandingColumns =
    "stands, stands_in_phase, ambiguous, ambiguous_in_phase";
inline const std::string kTraceColumns =
    std::string(kPlaceColumns) + ", nth, phase_id, step, name_id, " + kStandingColumns + ", " +
    kValueColumns + ", sample_id, sketch_id, ptr, offset_bytes, context_id, source_id, line";

}  // namespace greta
