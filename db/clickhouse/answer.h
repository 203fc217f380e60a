#pragma once
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "db/clickhouse/address.h"
#include "db/clickhouse/row_binary.h"

namespace greta::clickhouse {

/// The rows of an answer in RowBinary, as its bytes arrive. A server ends one that it cannot
/// complete by the text of an exception, in the place of a row: that is no row.
class Answer {
 public:
  /// What it is given lives longer; `password` is in no message.
  Answer(const Address& address, const std::string& password, size_t most_row_bytes,
         const std::function<void(RowReader&)>& row)
      : address_(address), password_(password), most_row_bytes_(most_row_bytes), row_(row) {}

  /// Throws Error where a row has no end.
  void take(std::string_view bytes);

  /// No more bytes will come: throws what the server says in the place of rows (Refused,
  /// Unavailable), or Error where its rows are none of what was asked for.
  void end();

  bool has_delivered() const { return has_delivered_; }
  bool is_within_a_row() const { return !kept_.empty(); }

 private:
  void take_rows(bool is_last);

  const Address& address_;
  const std::string& password_;
  const size_t most_row_bytes_;
  const std::function<void(RowReader&)>& row_;
  std::string kept_;  ///< what is no whole row yet; when it is over, what came in the place of one
  std::string tail_;  ///< the last bytes, where a text that begins within a row is looked for
  bool is_over_ = false, has_delivered_ = false;
  std::exception_ptr thrown_;
};

}  // namespace greta::clickhouse
