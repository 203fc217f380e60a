#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cli/report/markdown.h"
#include "cli/warehouse/run_name.h"
#include "cli/warehouse/sql_query.h"
#include "cli/warehouse/verdict.h"

namespace greta {

/// Order of rows of a view `p`: as the model computes them. What greta does not know comes last.
inline constexpr std::string_view kForwardOrder =
    "p.forward_layer, p.tensor_id IS NULL, p.tensor_id";

/// A statement whose first parameter is a run. Throws SQLite::Exception.
class RunQuery : public Query {
 public:
  RunQuery(SQLite::Database& db, int64_t run_id, std::string_view sql) : Query(db, sql) {
    bind(1, run_id);
  }
};

/// An id to bind, NULL when there is none.
inline Value value_of(const std::optional<int64_t>& id) { return id ? Value(*id) : Value(nullptr); }

/// Base of the sections of one run: what they read, where they write and how they show values.
/// Borrows everything that it is given.
class RunSection {
 public:
  /// Headings of the sections are of `level`.
  RunSection(SQLite::Database& db, const Run& run, const RunVerdict& verdict, MarkdownWriter& out,
             int level)
      : db_(db),
        run_(run),
        verdict_(verdict),
        head_(verdict),
        words_(out.words()),
        out_(out),
        level_(level) {}

 protected:
  /// The numeric verdict leads and passes what differs bit for bit.
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
  /// "PASS within rounding", in the language of the report.
  std::string headline(const std::string& verdict) const {
    const ReportText* remark = find_report_text("remark." + head_.remark);
    return remark ? verdict + " " + words_.line(*remark) : verdict;
  }
  std::string shown(const std::string& text) const {
    return text.empty() ? words_("not_recorded") : escaped(text);
  }

  SQLite::Database& db_;
  const Run& run_;
  const RunVerdict& verdict_;
  Headline head_;
  const Wording& words_;
  MarkdownWriter& out_;
  int level_;
};

}  // namespace greta
