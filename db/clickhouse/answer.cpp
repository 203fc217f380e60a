#include "db/clickhouse/answer.h"

#include <algorithm>
#include <stdexcept>

#include "db/clickhouse/error.h"
#include "db/clickhouse/refusal.h"

namespace greta::clickhouse {
namespace {

constexpr size_t kLongestText = 8192;

}  // namespace

void Answer::take(std::string_view bytes) {
  kept_ += bytes;
  tail_ += bytes.substr(bytes.size() - std::min(bytes.size(), kLongestText));
  if (tail_.size() > kLongestText) tail_.erase(0, tail_.size() - kLongestText);
  if (is_over_) {
    kept_.resize(std::min(kept_.size(), kLongestText));
  } else {
    take_rows(false);
  }
}

void Answer::end() {
  if (!is_over_) take_rows(true);
  if (kept_.empty() && !thrown_) return;
  for (const std::string& bytes : {kept_, tail_}) {
    const size_t at = find_exception(bytes);
    if (at == std::string::npos) continue;
    std::string text = bytes.substr(at, kLongestText);
    hide(password_, text);
    refuse(address_, 200, text);
  }
  if (thrown_) std::rethrow_exception(thrown_);
}

void Answer::take_rows(bool is_last) {
  RowReader reader(kept_);
  size_t whole = 0;
  try {
    while (!reader.at_end()) {
      const std::string_view rest = std::string_view(kept_).substr(whole);
      is_over_ = is_exception(rest);
      if (is_over_ || (!is_last && may_become_exception(rest))) break;
      row_(reader);
      has_delivered_ = true;
      whole = reader.taken();
    }
  } catch (const NoMoreBytes&) {
  } catch (const std::logic_error&) {  // a key or a number that nobody expects
    is_over_ = true;
    thrown_ = std::make_exception_ptr(
        Error(address_.text() + ": an answer is none of what was asked for"));
  }
  kept_.erase(0, whole);
  if (kept_.size() > most_row_bytes_)
    throw Error(address_.text() + ": a row of an answer has no end: is it ClickHouse?");
}

}  // namespace greta::clickhouse
