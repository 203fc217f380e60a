#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include "db/trace_row.h"

namespace greta {

/// Rows of one side at one place: which of them is one that arrives, and in which order they
/// stand. Read anew for every batch that meets some there, so a batch costs one walk over them.
class Crowd {
 public:
  /// Fingerprint of a sample or sketch, so that these are not held: 128 bits, all 0 of none.
  using Digest = std::array<uint64_t, 2>;

  struct Member {
    TraceRow row;  ///< but for sample, sketch, ptr, offset_bytes and context_id
    std::optional<int64_t> vector_id;
    Digest sample{};
    Digest sketch{};  ///< of a row without hash: nothing else tells what its values are
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
  /// Gives a new row a number and marks the crowd as one; the caller inserts it.
  void add(TraceRow& row, int64_t vector_id);
  /// A member's row is that of another source now, whose content is the same.
  void take_over(const TraceRow& row, std::optional<int64_t> vector_id);
  /// Numbers the members by key and content, whatever their order of arrival; of a crowd so large
  /// that it is no trace any more, only those that were there early.
  void set_in_order();

 private:
  struct Statements;
  struct Before {
    bool operator()(const Member& a, const Member& b) const;
  };
  Member member_of(const TraceRow& row) const;
  Digest digest_of_sketch(int64_t vector_id);

  std::unique_ptr<Statements> statements_;
  std::set<Member, Before> members_;
  TraceRow place_;
  bool grew_ = false;
};

}  // namespace greta
