#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "db/trace_row.h"

namespace greta {

/// Fields of row_context: what repeats from row to row.
struct RowContext {
  std::optional<std::string> route, src_kind, phase_raw;
  std::optional<int64_t> seq_len, tokens_total, token_index, kv_pos, stride_elems, alloc_bytes,
      prompt_tokens, decode_step;
  std::optional<std::string> extra;  ///< JSON object
};
inline constexpr const char* kContextColumns =
    "route, src_kind, phase_raw, seq_len, tokens_total, token_index, kv_pos, stride_elems,"
    " alloc_bytes, prompt_tokens, decode_step, extra";

struct PhaseId {
  int64_t id;
  Side side;
};

struct TensorId {
  int64_t name_id;    ///< tensor_name.id
  int64_t tensor_id;  ///< canonical
};

/// Names of prompts, phases and trace points as ids, entered when new. Inside a transaction that
/// the caller owns. Throws SQLite::Exception.
class Dictionary {
 public:
  explicit Dictionary(SQLite::Database& db) : db_(db) {}

  int64_t prompt_id(int64_t run_id, std::string_view name);
  /// A name that begins with prefill or decode is of that side.
  PhaseId phase_id(std::string_view name);
  /// A name that greta does not know becomes a trace point, last in its layer, with cause
  /// NAME_DRIFT. Throws std::invalid_argument when a database holds as many names as it can.
  TensorId tensor_id(std::string_view name);

  /// The same for what a file says, where a run may bring a 64th of the names that are free when it
  /// brings its first: some 1,000 of an empty database, and never all that are left. Nothing
  /// beyond.
  std::optional<TensorId> tensor_id_of_run(int64_t run_id, std::string_view name);

  /// After a rollback: what was entered in that transaction is gone.
  void forget();

 private:
  SQLite::Database& db_;
  std::map<std::pair<int64_t, std::string>, int64_t, std::less<>> prompts_;
  std::unordered_map<std::string, PhaseId> phases_;
  std::unordered_map<std::string, TensorId> tensors_;
  std::unordered_map<int64_t, int64_t> names_left_;  // of runs that brought some
};

}  // namespace greta
