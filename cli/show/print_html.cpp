#include <algorithm>
#include <cmath>
#include <sstream>

#include "cli/show/block.h"

namespace greta {
namespace {

/// A picture of a chart.
class Svg {
 public:
  explicit Svg(const Chart& chart)
      : chart_(chart),
        width_(chart.small ? 220 : 420),
        height_(chart.small ? 74 : 190),
        left_(chart.small ? 4 : 46),
        right_(width_ - (chart.small ? 4 : 8)),
        top_(chart.small ? 6 : 18),
        bottom_(chart.small ? 68 : 160) {
    if (chart.points.empty()) return;
    first_ = chart.points.front().x - 0.5;
    last_ = std::max(chart.points.back().x, chart.points.front().x + 1) + 0.5;
  }

  void draw(Html& html) {
    html << "<figure";
    if (chart_.small) {
      html << " data-tensor=\"";
      html.text(chart_.title) << "\"";
    }
    html << "><figcaption>";
    html.text(chart_.title) << "</figcaption>\n<svg class=chart viewBox=\"0 0 "
                            << Html().place(width_) << " " << Html().place(height_)
                            << "\" role=img aria-label=\"";
    html.text(chart_.text) << "\">\n<rect class=band x=" << Html().place(left_)
                           << " y=" << Html().place(y(chart_.limit))
                           << " width=" << Html().place(right_ - left_)
                           << " height=" << Html().place(std::max(0.0, bottom_ - y(chart_.limit)))
                           << "></rect>\n";
    if (!chart_.small) grid(html);
    std::string limit = "M" + at(left_, y(chart_.limit)) + "H" + Html().place(right_).str();
    path(html, "limit", limit);
    if (!chart_.small) {
      name(html, chart_.band, right_ - 4, y(chart_.limit) + 13, true);
      name(html, chart_.axis, left_ + 4, 10, false);
    }
    marks(html);
    if (!chart_.small) labels(html);
    html << "</svg></figure>\n";
  }

 private:
  double x(const Chart::Point& point) const {
    return left_ + (right_ - left_) * (point.x - first_) / (last_ - first_);
  }
  double y(double value) const {
    const double at = std::log10(value) - chart_.low;
    return bottom_ - (bottom_ - top_) * std::clamp(at / (chart_.high - chart_.low), 0.0, 1.0);
  }
  /// A point that is not measured lies in the middle of where it must be.
  double y(const Chart::Point& point) const {
    if (point.mark == Chart::Mark::kEqual) return bottom_;
    if (point.value && *point.value > 0) return y(*point.value);
    const double limit = std::log10(chart_.limit);
    return y(std::pow(
        10, (limit + (point.mark == Chart::Mark::kWithin ? chart_.low : chart_.high)) / 2));
  }
  static std::string at(double x, double y) {
    return Html().place(x).str() + " " + Html().place(y).str();
  }
  static void path(Html& html, Markup kind, const std::string& d) {
    if (d.empty()) return;
    html << "<path class=" << kind << " d=\"";
    html.text(d) << "\"></path>\n";
  }
  static void name(Html& html, const std::string& text, double x, double y, bool ends) {
    html << "<text class=name x=" << Html().place(x) << " y=" << Html().place(y);
    if (ends) html << " text-anchor=end";
    html << ">";
    html.text(text) << "</text>\n";
  }

  void grid(Html& html) const {
    const int decades = static_cast<int>(chart_.high - chart_.low),
              step = std::max(1, (decades + 4) / 5);
    std::string lines;
    Html names;
    for (int d = 0; d <= decades; d += step) {
      const int power = static_cast<int>(chart_.low) + d;
      const double height = y(std::pow(10, power));
      lines += "M" + at(left_, height) + "H" + Html().place(right_).str();
      names << "<text x=" << Html().place(left_ - 6) << " y=" << Html().place(height + 4) << ">";
      names.text(power >= -2 && power <= 3 ? short_real(std::pow(10, power))
                                           : "1e" + std::to_string(power));
      names << "</text>\n";
    }
    path(html, "grid", lines);
    html << "<g class=scale>" << names << "</g>\n";
  }

  /// All marks of one kind are one path: a dot is a line with round ends, of next to no length; on
  /// paper one of none would be lost.
  void marks(Html& html) const {
    std::string line, equal, within, beyond, ticks_within, ticks_beyond, turns;
    bool on = false;
    for (const Chart::Point& point : chart_.points) {
      if (point.turns) turns += "M" + at(x(point), 2) + "V" + Html().place(bottom_).str();
      const bool measured = point.mark == Chart::Mark::kEqual ? chart_.small : !!point.value;
      const bool is_within = point.mark == Chart::Mark::kWithin;
      const std::string where = at(x(point), y(point)), dot = "M" + where + "h.01";
      if (point.mark == Chart::Mark::kEqual) {
        equal += dot;
      } else if (point.mark != Chart::Mark::kNone && measured) {
        (is_within ? within : beyond) += dot;
      } else if (point.mark != Chart::Mark::kNone) {
        (is_within ? ticks_within : ticks_beyond) += "M" + at(x(point), y(point) - 3) + "v6";
      }
      if (measured) line += (on ? "L" : "M") + where;
      on = measured;
    }
    path(html, "turn", turns);
    path(html, "line", line);
    path(html, "dots-equal", equal);
    path(html, "dots-within", within);
    path(html, "dots-beyond", beyond);
    path(html, "ticks-within", ticks_within);
    path(html, "ticks-beyond", ticks_beyond);
  }

  void labels(Html& html) const {
    double free = -1e9;
    html << "<g class=axis>";
    for (const Chart::Point& point : chart_.points) {
      const double half = 4.0 * static_cast<double>(point.label.size()) + 5;
      if (x(point) - half < free) continue;
      free = x(point) + half;
      html << "<text x=" << Html().place(x(point)) << " y=" << Html().place(bottom_ + 14) << ">";
      html.text(point.label) << "</text>\n";
    }
    html << "</g>\n";
    name(html, chart_.x_name, right_, height_ - 2, true);
  }

  const Chart& chart_;
  double width_, height_, left_, right_, top_, bottom_, first_ = 0, last_ = 1;
};

Html html_of(const Line& line) {
  Html html;
  for (const Span& span : line.spans()) {
    if (!span.link.empty()) {
      html << "<a href=\"";
      html.text(span.link) << "\">";
    }
    switch (span.kind) {
      case Span::Kind::kPlain:
        html.text(span.text);
        break;
      case Span::Kind::kStrong:
        html << "<strong>";
        html.text(span.text) << "</strong>";
        break;
      case Span::Kind::kCode:
        html << "<code>";
        html.text(span.text) << "</code>";
        break;
      case Span::Kind::kSoft:
        html << "<span class=remark>";
        html.text(span.text) << "</span>";
        break;
      case Span::Kind::kVerdict:
        html << "<strong class=\"verdict ";
        html.text(span.look) << "\">";
        html.text(span.text) << "</strong>";
        break;
      case Span::Kind::kSquare:
        html << "<span class=\"cell ";
        html.text(span.look) << "\">";
        html.text(span.text) << "</span>";
        break;
    }
    if (!span.link.empty()) html << "</a>";
  }
  return html;
}

class HtmlPrinter {
 public:
  explicit HtmlPrinter(Html& html) : html_(html) {}

  void print(const Blocks& blocks) {
    for (const Block& block : blocks) std::visit(*this, static_cast<const Block::variant&>(block));
  }

  void operator()(const Heading& heading) {
    const Markup names[] = {"h1", "h1", "h2", "h3"};
    const Markup name = names[std::clamp(heading.level, 1, 3)];
    if (!heading.text.empty()) {
      html_ << "<" << name;
      if (heading.level == 2 && !heading.headline.empty()) html_ << " class=run";
      html_ << ">" << html_of(heading.text) << "</" << name << ">\n";
    }
    if (heading.headline.empty()) return;
    html_ << "<p class=headline>" << html_of(heading.headline) << "</p>\n";
  }
  void operator()(const FactList& facts) {
    html_ << "<dl class=facts>\n";
    for (const auto& [label, value] : facts.items)
      html_ << "<dt>" << html_of(label) << "</dt><dd>" << html_of(value) << "</dd>\n";
    html_ << "</dl>\n";
  }
  void operator()(const Note& note) {
    const Markup tags[] = {"<p>", "<p class=lead>", "<p class=note>"};
    html_ << tags[static_cast<size_t>(note.kind)] << html_of(note.text) << "</p>\n";
  }
  void operator()(const List& list) {
    html_ << (list.numbered ? Markup("<ol>\n") : Markup("<ul>\n"));
    for (const Line& item : list.items) html_ << "<li>" << html_of(item) << "</li>\n";
    html_ << (list.numbered ? Markup("</ol>\n") : Markup("</ul>\n"));
  }
  void operator()(const ShownTable& table) {
    html_ << "<div class=wide><table";
    if (table.sortable) html_ << " class=sortable";
    html_ << "><thead><tr>";
    for (const ShownColumn& column : table.columns) {
      html_ << "<th scope=col>";
      html_.text(column.name) << "</th>";
    }
    html_ << "</tr></thead>\n<tbody>\n";
    for (const ShownRow& one : table.rows) row(table, one);
    for (ShownRow next; table.more && table.more(next);) row(table, next);
    html_ << "</tbody></table></div>\n";
  }
  void operator()(const Code& code) {
    html_ << "<pre><code>";
    std::istringstream lines(code.text);
    for (std::string line; std::getline(lines, line);) html_.text(line) << "\n";
    html_ << "</code></pre>\n";
  }
  void operator()(const Rule&) {}
  void operator()(const Map& map) {
    html_ << "<div class=wide><table class=\"" << map.kind << "\"";
    number(" data-map=", map.index);
    number(" data-panel=", map.panel);
    html_ << ">\n";
    if (!map.caption.empty()) {
      html_ << "<caption>";
      html_.text(map.caption) << "</caption>\n";
    }
    html_ << "<thead><tr><th scope=col>";
    html_.text(map.corner) << "</th>";
    for (const std::string& name : map.columns) {
      html_ << "<th><span>";  // the scope of what only heads a column goes without saying
      html_.text(name) << "</span>";
    }
    html_ << "</tr></thead>\n<tbody>\n";
    auto fold = map.folds.begin();
    for (size_t r = 0; r < map.rows.size(); ++r) {
      if (fold != map.folds.end() && fold->last < r) ++fold;
      const bool folded = fold != map.folds.end() && fold->first <= r;
      if (folded && fold->first == r) map_row("<tr class=fold>", fold->name, fold->squares);
      map_row(folded ? Markup("<tr hidden>") : Markup("<tr>"), map.rows[r], map.squares[r]);
    }
    html_ << "</tbody></table></div>\n";
  }
  void operator()(const Legend& legend) {
    html_ << "<ul class=legend aria-label=\"";
    html_.text(legend.name) << "\">\n";
    for (const auto& [squares, text] : legend.items) {
      html_ << "<li>";
      for (const Square& one : squares)
        html_ << html_of(Span{Span::Kind::kSquare, one.letter, one.look});
      html_.text(text) << "</li>\n";
    }
    html_ << "</ul>\n";
  }
  void operator()(const Chart& chart) { Svg(chart).draw(html_); }
  void operator()(const Controls& controls) {
    html_ << "<div class=\"script controls\" hidden><p><label>";
    html_.text(controls.label)
        << " <input type=search class=filter autocomplete=off spellcheck=false placeholder=\"";
    html_.text(controls.hint) << "\"></label></p>\n";
    if (!controls.choices.empty()) html_ << "<p class=choices>";
    for (const Controls::Choice& one : controls.choices) choice(one);
    if (!controls.choices.empty()) html_ << "</p>";
    html_ << "<p class=note>";
    html_.text(controls.keys) << "</p><p class=fits role=status></p></div>\n";
  }
  void operator()(const Group& group) {
    const std::string_view kind = group.kind.text();
    const bool folds = !group.summary.empty();
    const Markup tag = kind == "header"              ? Markup("header")
                       : folds                       ? Markup("details")
                       : kind.starts_with("section") ? Markup("section")
                                                     : Markup("div");
    html_ << "<" << tag;
    if (kind != "header" && kind != "section") html_ << " class=\"" << group.kind << "\"";
    if (!group.id.empty()) {
      html_ << " id=\"";
      html_.text(group.id) << "\"";
    }
    number(" data-number=", group.number);
    if (folds && group.open) html_ << " open";
    html_ << ">\n";
    if (folds) html_ << "<summary>" << html_of(group.summary) << "</summary>\n";
    print(group.blocks);
    html_ << "</" << tag << ">\n";
  }

 private:
  void number(Markup attribute, const std::optional<size_t>& value) {
    if (value) html_ << attribute << Html().number(static_cast<int64_t>(*value));
  }

  void row(const ShownTable& table, const ShownRow& row) {
    html_ << "<tr";
    if (row.marked) html_ << " class=differs";
    number(" data-run=", row.number);
    html_ << ">";
    for (size_t i = 0; i < row.cells.size(); ++i) {
      const bool names = i == 0 && table.keyed;
      if (names) {
        html_ << "<th scope=row>";
      } else {
        const Markup tags[] = {"<td>", "<td class=number>", "<td class=date>"};
        html_ << tags[static_cast<size_t>(table.columns[i].kind)];
      }
      html_ << html_of(row.cells[i]) << (names ? Markup("</th>") : Markup("</td>"));
    }
    html_ << "</tr>\n";
  }

  void map_row(Markup start, const std::string& name,
               const std::vector<std::optional<Square>>& squares) {
    html_ << start << "<th scope=row>";
    html_.text(name) << "</th>";
    for (const auto& one : squares) square(one);
    html_ << "\n";
  }

  void square(const std::optional<Square>& square) {
    html_ << "<td";
    if (square) {  // a map has thousands: no quotes where none are needed
      const bool quoted = square->look.find(' ') != std::string::npos;
      html_ << (quoted ? Markup(" class=\"") : Markup(" class="));
      html_.text(square->look);
      if (quoted) html_ << "\"";
    }
    const bool links = square && !square->link.empty();
    if (links) {
      html_ << "><a href=\"";
      html_.text(square->link) << "\"";
    }
    if (square && !square->label.empty()) {
      html_ << " aria-label=\"";
      html_.text(square->label) << "\"";
    }
    html_ << ">";
    if (square) html_.text(square->letter);
    if (links) html_ << "</a>";
  }

  void choice(const Controls::Choice& one) {
    html_ << "<label>";
    html_.text(one.label);
    if (one.values.empty()) {
      html_ << " <input data-key=" << one.key
            << " size=10 maxlength=10 autocomplete=off placeholder=\"2026-01-31\"></label> ";
      return;
    }
    html_ << " <select data-key=" << one.key << ">";
    for (const std::string& value : one.values) {
      html_ << (&value == &one.values.front() ? Markup("<option value=\"\">") : Markup("<option>"));
      html_.text(value) << "</option>";
    }
    html_ << "</select></label> ";
  }

  Html& html_;
};

}  // namespace

void print_html(const Blocks& blocks, Html& html) { HtmlPrinter(html).print(blocks); }

}  // namespace greta
