#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "db/stored_sketch.h"
#include "db/trace_batch.h"
#include "db/trace_row.h"

namespace greta {

/// Rows of one side at one place: which of them is one that arrives, in which order they are
/// numbered, and which of them stands for the others. Read anew for every batch that meets some
/// there, so a batch costs one walk over them.
class Crowd {
 public:
  /// Fingerprint of a sample or sketch, so that these are not held: 128 bits, all 0 of none.
  using Digest = std::array<uint64_t, 2>;
  /// The columns kStandingColumns.
  using Standing = std::array<bool, 4>;

  struct Member {
    TraceRow row;  ///< but for sample, sketch, ptr, offset_bytes and context_id
    RowIds ids;
    Digest sample{};
    Digest sketch{};  ///< of a row without hash: nothing else tells what its values are
    Standing standing{true, true, false, false};
  };

  explicit Crowd(SQLite::Database& db);
  ~Crowd();
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;

  /// Whether rows can be in one crowd: of one place and, where the position is unknown, for a
  /// place then holds all steps of a run, of one step.
  static bool may_meet(const TraceRow& a, const TraceRow& b);

  /// Forgets what it knows and reads the rows that these, which may meet, have met: some of them
  /// may be stored, though not yet their samples.
  void read(std::span<TraceRow* const> rows);
  /// The member of the same key and content; nullptr when none is.
  const Member* find(const TraceRow& row);
  /// Whether a member has the same key, whatever its content.
  bool has_key(const TraceRow& row);
  /// Id of the sketch of a member without hash that is equal to this row's; 0 when none is. The
  /// view standing tells such rows apart by it.
  int64_t equal_sketch(const TraceRow& row);
  /// Gives a new row a number; the caller inserts it.
  void add(TraceRow& row, const RowIds& ids);
  /// A member's row is that of another source now, whose content is the same.
  void take_over(const TraceRow& row, const RowIds& ids);
  /// After members were added: numbers them by key and content, whatever their order of arrival,
  /// and sets what they say of each other (kStandingColumns) as the view standing has it. Of a
  /// crowd so large that it is no trace any more, only those that were there early are in order.
  void settle();

  /// The sketch that is stored under this id; nothing when none is.
  std::optional<StoredSketch> stored_sketch(int64_t id);

 private:
  struct Statements;
  struct Before {
    bool operator()(const Member& a, const Member& b) const;
  };
  Member member_of(const TraceRow& row) const;
  Digest digest_of_sketch(int64_t id);
  void renumber(std::span<const int64_t> numbers);
  void set_standing(std::span<const int64_t> numbers);

  std::unique_ptr<Statements> statements_;
  std::set<Member, Before> members_;
  TraceRow place_;
  bool grew_ = false;
};

}  // namespace greta
