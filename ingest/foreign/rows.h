#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "ingest/foreign/name_rules.h"
#include "ingest/record/batch.h"
#include "kernels/fingerprint/fingerprint.h"

namespace greta {

/// Rows of another tool's file, by the names of trace points, in batches as a parser of lines makes
/// them. Call begin() for each tensor, then add() for each of its rows; flush() at the end.
class ForeignRows {
 public:
  using Take = std::function<void(RecordBatch&)>;

  /// `take` gets each batch when it is full; what it leaves there is cleared. Borrows the rules.
  ForeignRows(const NameRules& rules, Take take) : rules_(rules), take_(std::move(take)) {}

  const NameRules& rules() const { return rules_; }

  /// Rows from here on are of a tensor at `place`; `line` tells it in its file (1-based), `extra`
  /// is a JSON object of what else the file says of it.
  void begin(const TracePlace& place, int64_t line, std::string extra);
  /// A row of one position.
  TraceRow& add(const std::string& prompt, const std::string& phase, int64_t step, int64_t pos_id);
  /// A row of the whole tensor: of no position, compared between runs only.
  TraceRow& add_whole(const std::string& prompt, const std::string& phase, int64_t step);
  /// All that a fingerprint says. A row of no values has no hash.
  void set(TraceRow& row, const Fingerprint& fingerprint);
  /// A hash by an algorithm that is not greta's own; one for the file.
  void set_hash(TraceRow& row, uint64_t hash, const std::string& algorithm);
  /// A sketch of printed values, some of the row's.
  void set_printed(TraceRow& row, std::span<const float> values);

  void find(int64_t line, bool is_error, std::string reason, std::string raw = "");
  /// Values of this type were read: the one of most is the run's.
  void note_dtype(std::string_view dtype, uint64_t values);
  void note_attribute(const std::string& name, const std::string& value);
  int64_t rows() const { return rows_; }

  void flush();
  /// Hands over the last batch, with what the file says of its run.
  void finish();

 private:
  int64_t symbol(std::map<std::string, int64_t>& known, const std::string& name, bool& is_new);

  const NameRules& rules_;
  Take take_;
  RecordBatch batch_;
  std::map<std::string, int64_t> prompts_, phases_, names_;
  std::map<std::string, uint64_t, std::less<>> dtypes_;
  std::vector<std::pair<std::string, std::string>> attributes_;
  TracePlace place_;
  int64_t name_ = 0, context_ = -1, line_ = 0, rows_ = 0;
};

}  // namespace greta
