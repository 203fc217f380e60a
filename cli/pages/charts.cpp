#include "cli/pages/charts.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "cli/pages/cell_columns.h"
#include "cli/pages/heat_map.h"

namespace greta {
namespace {

using std::to_string;

constexpr double kHeight = 190, kLeft = 46, kRight = 412, kTop = 12, kBottom = 160;

struct ChartPoint {
  double x = 0;  ///< in units of the axis
  std::optional<double> value;
  bool beyond = false;
  std::string label;  ///< under the axis
};

/// A line of values on a logarithmic scale, with a band up to `limit`.
class LogChart {
 public:
  LogChart(std::vector<ChartPoint> points, double limit)
      : points_(std::move(points)), limit_(limit) {
    double low = limit, high = limit;
    for (const ChartPoint& point : points_) {
      if (!point.value) continue;
      low = std::min(low, *point.value);
      high = std::max(high, *point.value);
    }
    low_ = std::floor(std::log10(low) - 0.2);
    high_ = std::ceil(std::log10(high) + 0.2);
    first_ = points_.front().x;
    last_ = std::max(points_.back().x, first_ + 1);
  }

  Html draw(const std::string& title, const std::string& text, const std::string& axis,
            const std::string& band, const std::string& x_name) {
    Html svg;
    svg << "<figure><figcaption>";
    svg.text(title)
        << "</figcaption>\n<svg class=chart viewBox=\"0 0 420 190\" role=img aria-label=\"";
    svg.text(title + ". " + text) << "\">\n<title>";
    svg.text(text) << "</title>\n<rect class=band x=" << Html().place(kLeft)
                   << " y=" << Html().place(y(limit_)) << " width=" << Html().place(kRight - kLeft)
                   << " height=" << Html().place(std::max(0.0, kBottom - y(limit_)))
                   << "></rect>\n";
    grid(svg);
    svg << "<line class=limit x1=" << Html().place(kLeft) << " x2=" << Html().place(kRight)
        << " y1=" << Html().place(y(limit_)) << " y2=" << Html().place(y(limit_))
        << "></line>\n<text class=name x=" << Html().place(kRight - 4)
        << " y=" << Html().place(y(limit_) + 13) << " text-anchor=end>";
    svg.text(band) << "</text>\n<text class=name x=" << Html().place(kLeft + 4) << " y=10>";
    svg.text(axis) << "</text>\n";
    line(svg);
    labels(svg, x_name);
    svg << "</svg></figure>\n";
    return svg;
  }

 private:
  double x(double at) const {
    return kLeft + 8 + (kRight - kLeft - 16) * (at - first_) / (last_ - first_);
  }
  double y(double value) const {
    const double at = std::clamp((std::log10(value) - low_) / (high_ - low_), 0.0, 1.0);
    return kBottom - (kBottom - kTop - 6) * at;
  }

  void grid(Html& svg) const {
    const int decades = static_cast<int>(high_ - low_), step = std::max(1, (decades + 4) / 5);
    std::string lines;
    Html names;
    for (int d = 0; d <= decades; d += step) {
      const double at = y(std::pow(10, low_ + d));
      lines += "M" + Html().place(kLeft).str() + " " + Html().place(at).str() + "H" +
               Html().place(kRight).str();
      names << "<text x=" << Html().place(kLeft - 6) << " y=" << Html().place(at + 4) << ">";
      const int power = static_cast<int>(low_) + d;
      names.text(power >= -2 && power <= 3 ? short_real(std::pow(10, power))
                                           : "1e" + to_string(power));
      names << "</text>\n";
    }
    path(svg, "grid", lines);
    svg << "<g class=scale>" << names << "</g>\n";
  }

  /// All marks of one kind are one path: a dot is a line with round ends, of next to no length; on
  /// paper one of none would be lost.
  void line(Html& svg) const {
    std::string path_of_line, equal, within, beyond;
    bool on = false;
    for (const ChartPoint& point : points_) {
      const double at = point.value ? y(*point.value) : kBottom;
      std::string& marks = !point.value ? equal : point.beyond ? beyond : within;
      marks += "M" + Html().place(x(point.x)).str() + " " + Html().place(at).str() + "h.01";
      if (point.value)
        path_of_line +=
            (on ? "L" : "M") + Html().place(x(point.x)).str() + " " + Html().place(at).str();
      on = point.value.has_value();
    }
    path(svg, "line", path_of_line);
    path(svg, "dots-equal", equal);
    path(svg, "dots-within", within);
    path(svg, "dots-beyond", beyond);
  }

  static void path(Html& svg, Markup kind, const std::string& d) {
    if (d.empty()) return;
    svg << "<path class=" << kind << " d=\"";
    svg.text(d) << "\"></path>\n";
  }

  void labels(Html& svg, const std::string& x_name) const {
    double free = -1e9;
    svg << "<g class=axis>";
    for (const ChartPoint& point : points_) {
      const double at = x(point.x), half = 4.0 * static_cast<double>(point.label.size()) + 5;
      if (at - half < free) continue;
      free = at + half;
      svg << "<text x=" << Html().place(at) << " y=" << Html().place(kBottom + 14) << ">";
      svg.text(point.label) << "</text>\n";
    }
    svg << "</g>\n"
           "<text class=name x="
        << Html().place(kRight) << " y=" << Html().place(kHeight - 2) << " text-anchor=end>";
    svg.text(x_name) << "</text>\n";
  }

  std::vector<ChartPoint> points_;
  double limit_, low_, high_, first_, last_;
};

}  // namespace

Html growth_chart(const PairMap& map, size_t panel, const Wording& words) {
  std::vector<ChartPoint> points;
  std::optional<double> limit;
  size_t measured = 0;
  std::optional<size_t> crosses;
  std::optional<std::pair<size_t, double>> least, most;
  for (size_t l = 0; l < map.layers.size(); ++l) {
    ChartPoint point;
    point.x = static_cast<double>(l);
    point.label = layer_text(map, l, words);
    const MapCell* worst = nullptr;
    bool any = false;
    for (const auto& cell : map.panels[panel].cells[l]) {
      if (!cell) continue;
      any = true;
      if (cell->tolerance) limit = std::max(limit.value_or(0), *cell->tolerance);
      if (!cell->failed() || cell->ratio().value_or(0) <= 0 || !std::isfinite(*cell->rel_l2))
        continue;
      if (!worst || cell->ratio() > worst->ratio()) worst = &*cell;
    }
    if (!any) continue;
    if (worst) {
      point.value = *worst->rel_l2;
      point.beyond = worst->beyond_rounding();
      ++measured;
      if (point.beyond && !crosses) crosses = l;
      if (!least) least = {l, *point.value};
      if (!most || *point.value > most->second) most = {l, *point.value};
    }
    points.push_back(point);
  }
  if (measured < 2 || !limit || *limit <= 0) return {};
  const std::string verdict = crosses
                                  ? words("page.growth.crosses", {layer_text(map, *crosses, words)})
                                  : words("page.growth.within");
  const std::string text = words(
      "page.growth.text", {short_real(least->second), layer_text(map, least->first, words),
                           short_real(most->second), layer_text(map, most->first, words), verdict});
  return LogChart(points, *limit)
      .draw(words("page.growth"), text, words("page.growth.axis"), words("page.growth.band"),
            words("layer"));
}

Html positions_chart(const PairMap& map, size_t panel, const Wording& words) {
  std::vector<ChartPoint> points;
  size_t beyond = 0, measured = 0;
  std::optional<int64_t> first;
  for (const MapPosition& position : map.panels[panel].positions) {
    ChartPoint point;
    point.x = static_cast<double>(position.pos_id);
    point.beyond = position.beyond;
    point.label = to_string(position.pos_id);
    if (position.ratio > 0 && std::isfinite(position.ratio)) {
      point.value = position.ratio;
      ++measured;
    }
    if (position.beyond) {
      ++beyond;
      if (!first) first = position.pos_id;
    }
    points.push_back(point);
  }
  if (points.size() < 2 || measured == 0) return {};
  const std::string text = words("page.positions.text",
                                 {to_string(points.size()), to_string(beyond),
                                  first ? words("page.positions.from", {to_string(*first)}) : ""});
  return LogChart(points, 1).draw(words("page.positions"), text, words("page.positions.axis"),
                                  words("page.growth.band"), words("position"));
}

}  // namespace greta
