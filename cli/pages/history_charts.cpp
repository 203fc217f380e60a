#include "cli/pages/history_charts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "cli/pages/cell_columns.h"

namespace greta {
namespace {

using std::to_string;

/// What a column of a chart shows of its runs: the worst.
struct Mark {
  enum class Kind { kNone, kEqual, kWithin, kBeyond };
  Kind kind = Kind::kNone;
  std::optional<double> ratio;  ///< none: how far is not known
};

class DriftCharts {
 public:
  DriftCharts(const History& history, const HistoryLineage& lineage,
              const std::vector<HistoryColumn>& columns, const Wording& words)
      : history_(history), lineage_(lineage), columns_(columns), words_(words) {
    for (const HistoryTurn& turn : history.turns) turned_.insert(turn.first_bad);
    for (const auto& [key, drift] : history.drift) {
      if (!drift.read) counted_.insert(key.first);
    }
  }

  Html write() {
    for (size_t t = 0; t < history_.tensors.size(); ++t) {
      std::vector<Mark> marks = marks_of(t);
      if (std::none_of(marks.begin(), marks.end(),
                       [](const Mark& mark) { return mark.kind > Mark::Kind::kEqual; }))
        continue;
      charts_.emplace_back(t, std::move(marks));
    }
    if (charts_.empty()) return {};
    scale();
    Html html;
    html << "<div class=multiples>\n";
    for (const auto& [tensor, marks] : charts_) chart(html, tensor, marks);
    html << "</div>\n";
    return html;
  }

 private:
  static constexpr double kLeft = 4, kRight = 216, kTop = 6, kBottom = 68;

  std::vector<Mark> marks_of(size_t tensor) const {
    std::vector<Mark> marks(columns_.size());
    for (size_t c = 0; c < columns_.size(); ++c) {
      Mark& mark = marks[c];
      bool unknown = false;
      for (const size_t run : lineage_.cells[c]) {
        if (mark.kind == Mark::Kind::kNone) mark.kind = Mark::Kind::kEqual;
        const auto found = history_.drift.find({run, tensor});
        if (found == history_.drift.end()) {
          // where only causes were counted, it may be one of several trace points of a cause
          if (counted_.contains(run)) unknown = true;
          continue;
        }
        const HistoryDrift& drift = found->second;
        const bool within = drift.rounding == drift.differ;
        mark.kind = std::max(mark.kind, within ? Mark::Kind::kWithin : Mark::Kind::kBeyond);
        if (const auto ratio = drift.ratio()) mark.ratio = std::max(mark.ratio.value_or(0), *ratio);
      }
      if (unknown && mark.kind == Mark::Kind::kEqual) mark.kind = Mark::Kind::kNone;
    }
    return marks;
  }

  void scale() {
    double low = 1, high = 1;
    for (const auto& [tensor, marks] : charts_) {
      for (const Mark& mark : marks) {
        if (!mark.ratio || *mark.ratio <= 0) continue;
        low = std::min(low, *mark.ratio);
        high = std::max(high, *mark.ratio);
      }
    }
    low_ = std::max(std::floor(std::log10(low) - 0.3), -6.0);
    high_ = std::min(std::ceil(std::log10(high) + 0.3), 8.0);
    if (low_ == 0) low_ = -1;
    if (high_ == 0) high_ = 1;
  }

  double x(size_t column) const {
    const double n = static_cast<double>(columns_.size());
    return kLeft + (kRight - kLeft) * (static_cast<double>(column) + 0.5) / n;
  }
  double y(const Mark& mark) const {
    if (mark.kind == Mark::Kind::kEqual) return kBottom;
    // not measured: in the middle of where it must be
    const double log = mark.ratio && *mark.ratio > 0      ? std::log10(*mark.ratio)
                       : mark.kind == Mark::Kind::kWithin ? low_ / 2
                                                          : high_ / 2;
    return kBottom - (kBottom - kTop) * std::clamp((log - low_) / (high_ - low_), 0.0, 1.0);
  }

  static void add(std::string& path, double x, double y, std::string_view rest) {
    path += "M" + Html().place(x).str() + " " + Html().place(y).str();
    path += rest;
  }

  void chart(Html& html, size_t tensor, const std::vector<Mark>& marks) const {
    std::string line, equal, within, beyond, unread_within, unread_beyond, turns;
    bool on = false;
    for (size_t c = 0; c < marks.size(); ++c) {
      const Mark& mark = marks[c];
      for (const size_t run : lineage_.cells[c]) {
        if (turned_.contains(run)) {
          add(turns, x(c), kTop - 4, "V" + Html().place(kBottom).str());
          break;
        }
      }
      if (mark.kind == Mark::Kind::kNone) {
        on = false;
        continue;
      }
      if (mark.kind == Mark::Kind::kEqual) {
        add(equal, x(c), y(mark), "h.01");
      } else if (!mark.ratio) {
        add(mark.kind == Mark::Kind::kWithin ? unread_within : unread_beyond, x(c), y(mark) - 3,
            "v6");
        on = false;
        continue;
      } else if (mark.kind == Mark::Kind::kWithin) {
        add(within, x(c), y(mark), "h.01");
      } else {
        add(beyond, x(c) - 2, y(mark) - 2, "h4v4h-4z");
      }
      line += (on ? "L" : "M") + Html().place(x(c)).str() + " " + Html().place(y(mark)).str();
      on = true;
    }
    const double limit = y({Mark::Kind::kWithin, 1.0});
    html << "<figure data-tensor=\"";
    html.text(history_.tensors[tensor]) << "\"><figcaption><code>";
    html.text(history_.tensors[tensor])
        << "</code></figcaption><svg class=chart viewBox=\"0 0 220 74\" role=img aria-label=\"";
    html.text(text_of(tensor, marks))
        << "\"><rect class=band x=" << Html().place(kLeft) << " y=" << Html().place(limit)
        << " width=" << Html().place(kRight - kLeft) << " height=" << Html().place(kBottom - limit)
        << "></rect><path class=limit d=\"M" << Html().place(kLeft) << " " << Html().place(limit)
        << "H" << Html().place(kRight) << "\"></path>";
    const auto path = [&html](Markup name, const std::string& d) {
      if (d.empty()) return;
      html << "<path class=" << name << " d=\"";
      html.text(d) << "\"></path>";
    };
    path("turn", turns);
    path("line", line);
    path("dots-equal", equal);
    path("dots-within", within);
    path("beyond", beyond);
    path("ticks-within", unread_within);
    path("ticks-beyond", unread_beyond);
    html << "</svg></figure>\n";
  }

  std::string text_of(size_t tensor, const std::vector<Mark>& marks) const {
    size_t ran = 0, within = 0, beyond = 0;
    std::optional<size_t> worst, first;
    for (size_t c = 0; c < marks.size(); ++c) {
      ran += marks[c].kind != Mark::Kind::kNone;
      within += marks[c].kind == Mark::Kind::kWithin;
      if (marks[c].kind == Mark::Kind::kBeyond) {
        ++beyond;
        if (!first) first = c;
      }
      if (marks[c].ratio && (!worst || *marks[c].ratio > *marks[*worst].ratio)) worst = c;
    }
    std::string text = words_("history.chart", {history_.tensors[tensor], to_string(ran),
                                                to_string(within), to_string(beyond)});
    if (first) text += " " + words_("history.chart.first", {column_name(columns_[*first], words_)});
    if (worst) {
      text += " " + words_("history.chart.worst", {short_real(*marks[*worst].ratio),
                                                   column_name(columns_[*worst], words_)});
    }
    return text;
  }

  const History& history_;
  const HistoryLineage& lineage_;
  const std::vector<HistoryColumn>& columns_;
  const Wording& words_;
  std::set<size_t> turned_, counted_;
  std::vector<std::pair<size_t, std::vector<Mark>>> charts_;
  double low_ = -1, high_ = 1;
};

}  // namespace

std::string column_name(const HistoryColumn& column, const Wording& words) {
  if (column.is_group()) return words("history.group", {to_string(column.commits.size())});
  const std::string& commit = column.commits.front();
  if (commit.empty()) return words("not_recorded");
  return commit.size() == 40 ? commit.substr(0, 10) : commit;
}

Html drift_charts(const History& history, const HistoryLineage& lineage,
                  const std::vector<HistoryColumn>& columns, const Wording& words) {
  return DriftCharts(history, lineage, columns, words).write();
}

}  // namespace greta
