// The page of a training run: plots as SVG.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.h"
#include "train/errors.h"
#include "train/training_log.h"

namespace toroid::train {
namespace {

constexpr double kWidth = 640, kHeight = 240, kLeft = 64, kRight = 12, kTop = 10, kBottom = 28;
constexpr size_t kMostPoints = 600;
constexpr const char* kColors[] = {"#1f6feb", "#d1242f"};

// What the axes span.
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -std::numeric_limits<double>::infinity();
  void take(double v) {
    if (std::isfinite(v)) low = std::min(low, v), high = std::max(high, v);
  }
  void finish() {
    if (!(low <= high)) low = 0, high = 1;
    if (low == high) low -= std::max(std::abs(low) * 0.05, 1e-12), high += std::max(std::abs(high) * 0.05, 1e-12);
  }
};

// 1, 2 or 5 times a power of ten, so that about `count` of them fill the range.
std::vector<double> ticks(const Range& r, int count) {
  const double rough = (r.high - r.low) / count, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double s : {1.0, 2.0, 5.0})
    if (rough <= s * power) {
      step = s * power;
      break;
    }
  std::vector<double> out;
  for (double v = std::ceil(r.low / step); v <= std::floor(r.high / step) && out.size() < 100; ++v) out.push_back(v * step);
  return out;
}

// Means of neighbours, where there are more points than a plot can show; gaps stay gaps.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points) {
  if (points.size() <= kMostPoints) return points;
  std::vector<std::pair<double, double>> out;
  for (size_t k = 0; k < kMostPoints; ++k) {
    const size_t from = points.size() * k / kMostPoints, to = points.size() * (k + 1) / kMostPoints;
    double step = 0, value = 0;
    for (size_t i = from; i < to; ++i) step += points[i].first, value += points[i].second;
    const auto n = static_cast<double>(to - from);
    out.emplace_back(step / n, value / n);
  }
  return out;
}

class Drawing {
 public:
  explicit Drawing(const Plot& plot) {
    for (auto& s : plot.series)
      for (auto& [step, value] : s.points) x_.take(step), y_.take(value);
    x_.finish(), y_.finish();
    text_ = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, kHeight, html_escaped(plot.title));
    axes();
    for (size_t i = 0; i < plot.series.size(); ++i) add(plot.series[i], kColors[i % std::size(kColors)]);
    text_ += "</svg>\n";
  }
  const std::string& text() const { return text_; }

 private:
  double at_x(double v) const { return kLeft + (v - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight); }
  double at_y(double v) const { return kHeight - kBottom - (v - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom); }

  void axes() {
    for (const double v : ticks(y_, 5))
      text_ += fmt::format(
          "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text class=\"left\" x=\"{}\" y=\"{:.1f}\">{:.4g}</text>\n",
          kLeft, kWidth - kRight, at_y(v), at_y(v), kLeft - 6, at_y(v) + 4, v);
    for (const double v : ticks(x_, 8))
      if (v == std::floor(v)) text_ += fmt::format("<text class=\"below\" x=\"{:.1f}\" y=\"{}\">{:.0f}</text>\n", at_x(v), kHeight - 8, v);
  }

  void add(const Series& s, const char* color) {
    const auto points = thinned(s.points);
    std::string line;
    for (auto& [step, value] : points) {
      if (std::isfinite(value)) {
        line += fmt::format("{:.1f},{:.1f} ", at_x(step), at_y(value));
        if (s.dotted || points.size() == 1)
          text_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{:.0f}: {:.6g}</title></circle>\n",
                               at_x(step), at_y(value), color, step, value);
      } else {
        flush(line, color);
      }
    }
    flush(line, color);
  }
  void flush(std::string& line, const char* color) {
    if (!line.empty()) text_ += fmt::format("<polyline points=\"{}\" stroke=\"{}\"/>\n", line, color);
    line.clear();
  }

  Range x_, y_;
  std::string text_;
};

std::string legend(const Plot& plot) {
  std::string out;
  for (size_t i = 0; i < plot.series.size(); ++i) {
    const auto& s = plot.series[i];
    if (s.points.empty()) continue;
    out += fmt::format("<span style=\"color:{}\">{}: {:.5g} at step {:.0f}</span> ", kColors[i % std::size(kColors)], html_escaped(s.name),
                       s.points.back().second, s.points.back().first);
  }
  return out;
}

constexpr const char* kStyle =
    "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:1340px;padding:0 1em;color:#1f2328;background:#fff}"
    "pre{background:#f6f8fa;padding:.8em;overflow-x:auto}main{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1.5em}"
    "h2{font-size:1em;margin:.2em 0}svg{width:100%;height:auto}polyline{fill:none;stroke-width:1.5}.grid{stroke:#d8dee4}"
    "text{font-size:11px;fill:#59636e}.left{text-anchor:end}.below{text-anchor:middle}";

}  // namespace

std::string html_page(const std::string& title, const std::vector<std::string>& lines, const std::vector<Plot>& plots) {
  std::string out = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{}</title><style>{}</style></head>\n<body><h1>{}</h1>\n",
      html_escaped(title), kStyle, html_escaped(title));
  if (!lines.empty()) {
    out += "<pre>";
    for (auto& l : lines) out += html_escaped(l) + "\n";
    out += "</pre>\n";
  }
  out += "<main>\n";
  for (auto& plot : plots)
    out += fmt::format("<section><h2>{}</h2>\n{}{}</section>\n", html_escaped(plot.title), Drawing(plot).text(), legend(plot));
  return out + "</main></body></html>\n";
}

}  // namespace toroid::train
