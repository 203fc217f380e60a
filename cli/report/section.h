#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/report/judged_row.h"
#include "cli/report/markdown.h"

namespace greta {

/// Order of rows of a view `p`: as the model computes them. What greta does not know comes last.
inline constexpr std::string_view kForwardOrder =
    "p.forward_layer, p.tensor_id IS NULL, p.tensor_id";

/// An id to bind, NULL when there is none.
inline Value value_of(const std::optional<int64_t>& id) { return id ? Value(*id) : Value(nullptr); }

/// Base of the sections of one run: what they read, where they write and how they show values.
/// Borrows everything that it is given.
class RunSection {
 public:
  /// Headings of the sections are of `level`.
  RunSection(QueryPool& statements, const JudgedRow& row, MarkdownWriter& out, int level)
      : statements_(statements),
        run_(row.run),
        verdict_(row.verdict),
        head_(row.head),
        words_(out.words()),
        out_(out),
        level_(level) {}

 protected:
  /// The verdict is the numeric one, and passes what is not bitwise equal.
  bool within_rounding() const {
    return head_.gate == Gate::kNumeric && head_.verdict == "PASS" && head_.disputed();
  }
  bool numeric_leads() const { return head_.gate == Gate::kNumeric; }
  int64_t compared() const { return verdict_.number("pairs") + verdict_.number("missing"); }
  bool has_failing_pair() const { return verdict_.number("fail") > 0; }

  void section(TextId title, int below = 0) { out_.heading(level_ + below, words_(title)); }
  /// For a table cell; NULL, as the empty text below, is "not recorded".
  std::string show(const Cell& cell) const {
    return cell.type == Cell::Type::kNull ? words_("not_recorded") : escaped(display_text(cell));
  }
  std::string show(const std::optional<int64_t>& id) const {
    return id ? std::to_string(*id) : words_("not_recorded");
  }
  std::string show_tensor(const FailPlace& place) const {
    return place.tensor.empty() ? words_("tensor.none") : in_code(place.tensor);
  }
  /// "FAIL beyond rounding", in the language of the report.
  std::string headline(const std::string& verdict) const {
    return headline_text(verdict, head_.remark, escaped(head_.mode), words_);
  }
  std::string shown(const std::string& text) const {
    return text.empty() ? words_("not_recorded") : escaped(text);
  }

  QueryPool& statements_;
  const Run& run_;
  const RunVerdict& verdict_;
  const Headline& head_;
  const Wording& words_;
  MarkdownWriter& out_;
  int level_;
};

}  // namespace greta
