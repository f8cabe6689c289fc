// Whatever was measured: text, page and feedback say the same, times stand to each other as ratios do, and nothing is infinite.
#include "tune/report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <regex>

#include "errors.h"
#include "tune/fake_pipeline.h"
#include "tune/report/feedback.h"
#include "tune/search/search.h"

namespace toroid::tune {
namespace {

// Times on a machine that becomes slower and faster by half while it is measured on; some choices fail, and budgets end anywhere.
TuneReport measured_at_random(uint64_t seed) {
  std::mt19937_64 random(seed);
  SearchOptions options;
  options.workers = 1;
  options.whole_ms = 0;
  options.fusion_depth = 1 + static_cast<int>(seed % 3);
  options.all_tried = seed % 2 ? 16 : 0;
  options.region_ms = seed % 5 == 0 ? 0 : seed % 5 == 1 ? 0.05 : 200;
  options.clock = [&](std::span<const std::shared_ptr<ChoiceCaller>> callers) -> Sample {
    std::vector<std::shared_ptr<ChoiceCaller>> all(callers.begin(), callers.end());
    return [all, &random, seed, samples = 0](size_t i) mutable {
      const uint64_t chance = Hasher().add(all[i]->key()).add(seed).finish().lo;
      if (chance % 7 == 0 && samples > static_cast<int>(chance % 50)) fail<EnvironmentError>("planted");
      const double base = all[i]->choice() == Choice{} ? 10 : 5 + static_cast<double>(chance % 32);
      const double drift = 1 + 0.5 * std::sin(0.05 * ++samples);
      return 1e4 * base * drift * std::exp(0.05 * std::normal_distribution<double>()(random));
    };
  };
  auto pipeline = std::make_shared<FakePipeline>();
  for (int64_t x = 1; x < 12; ++x) pipeline->ways.push_back({"tiled", {{"x", x}}});
  TuneReport report;
  try {
    tune(two_programs(reduced_and_scaled(), one_product()), pipeline->get(), options, nullptr, report);
  } catch (const EnvironmentError&) {  // all choices of a region fail
  }
  return report;
}

void expect_finite(const std::string& text) {
  static const std::regex bad("\\b(inf|nan)\\b|\\+- 0\\.000|between 0\\.000|candidate [0-9]", std::regex::icase);
  std::smatch found;
  EXPECT_FALSE(std::regex_search(text, found, bad)) << found.str() << " in " << text;
}

// "row 3" is there.
void expect_rows_named(const TunedPart& part) {
  static const std::regex row("row ([0-9]+)");
  for (auto& c : part.choices)
    for (std::sregex_iterator at(c.status.begin(), c.status.end(), row), end; at != end; ++at) {
      const size_t named = std::stoul((*at)[1]);
      ASSERT_LE(named, part.choices.size()) << c.status;
      EXPECT_GT(part.choices[named - 1].ratio, 0) << c.status;
    }
}

void expect_consistent(const TunedPart& part) {
  for (auto& a : part.choices) {
    EXPECT_EQ(a.microseconds > 0, a.ratio > 0) << a.name << ": " << a.status;
    EXPECT_EQ(a.ratio_low > 0, a.ratio_high > 0);
    if (a.ratio > 0 && a.ratio_low == 0) {
      EXPECT_FALSE(a.status.empty()) << a.name;
    }
    for (auto& b : part.choices)
      if (a.ratio > 0 && b.ratio > 0) {
        EXPECT_NEAR(a.microseconds / b.microseconds, a.ratio / b.ratio, 1e-9 * a.ratio / b.ratio) << a.name << ", " << b.name;
      }
  }
}

// Lines of the table: number, time and ratio, as they are in the feedback, the fastest first.
void expect_table(const std::string& text, const TunedPart& part) {
  static const std::regex line("^  [* ] *([0-9]+) +([0-9.]+) us +([0-9.]+)  ", std::regex::multiline);
  double before = 0, time_before = 0;
  size_t rows = 0;
  for (std::sregex_iterator at(text.begin(), text.end(), line), end; at != end; ++at, ++rows) {
    const TunedChoice& c = part.choices.at(std::stoul((*at)[1]) - 1);
    EXPECT_EQ((*at)[2], fmt::format("{:.2f}", c.microseconds));
    EXPECT_EQ((*at)[3], fmt::format("{:.3f}", c.ratio));
    EXPECT_GE(c.ratio, before);
    EXPECT_GE(c.microseconds, time_before);
    before = c.ratio, time_before = c.microseconds;
  }
  EXPECT_EQ(rows, static_cast<size_t>(std::count_if(part.choices.begin(), part.choices.end(), [](auto& c) { return c.ratio > 0; })))
      << text;
}

void expect_page(const std::string& html, const TunedPart& part) {
  for (size_t i = 0; i < part.choices.size(); ++i) {
    const TunedChoice& c = part.choices[i];
    if (!(c.ratio > 0)) continue;
    const size_t row = html.find(fmt::format("<td class=\"n\">{}</td><td><code>{}</code>", i + 1, c.name));
    ASSERT_NE(row, std::string::npos) << c.name;
    const std::string time = c.microseconds < 10      ? fmt::format("{:.0f} ns", c.microseconds * 1e3)
                             : c.microseconds < 10000 ? fmt::format("{:.2f} us", c.microseconds)
                                                      : fmt::format("{:.3f} ms", c.microseconds / 1e3);
    const std::string cells = fmt::format("<td class=\"n\">{}</td><td class=\"n\">{:.3f}</td>", time, c.ratio);
    EXPECT_NE(html.substr(row, html.find("</tr>", row) - row).find(cells), std::string::npos) << cells;
  }
}

TEST(Reports, SayOneThing) {
  for (uint64_t seed = 1; seed <= 15 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    const TuneReport report = measured_at_random(seed);
    const TuneResult result = result_of(report);
    expect_finite(to_string(report));
    expect_finite(to_html(page_of("a model", report, "cpu")));
    for (size_t i = 0; i < result.parts.size(); ++i) {
      TuneReport one;
      one.regions = {report.regions[i]};
      expect_consistent(result.parts[i]);
      expect_rows_named(result.parts[i]);
      expect_table(to_string(one), result.parts[i]);
      expect_page(to_html(page_of("a model", one, "cpu")), result.parts[i]);
    }
  }
}

// One that is thousands of times slower leaves the others their bars, and its own does not look like theirs.
TEST(Reports, BarsAreAsLongAsRatiosSay) {
  for (double slow : {1.5, 3.0, 7.0, 5000.0}) {
    ReportNode node;
    const std::vector<double> ratios = {1, 0.5, 2, slow};
    for (double ratio : ratios) {
      node.candidates.push_back({fmt::format("c{}", ratio), {}, ""});
      node.candidates.back().measured.ratio = ratio, node.candidates.back().measured.median_ns = 1e4 * ratio;
    }
    const std::string html = to_html({"a model", {node}, {}, {}});
    std::vector<double> per_ratio;
    for (double ratio : ratios) {
      const std::string row = html.substr(html.find(fmt::format("<code>c{}</code>", ratio)));
      static const std::regex bar("<div class=\"(bar|bar cut)\" style=\"width:([0-9.]+)%");
      std::smatch found;
      ASSERT_TRUE(std::regex_search(row, found, bar)) << row;
      EXPECT_EQ(found[1] == "bar cut", ratio > 4) << ratio;
      if (found[1] == "bar") per_ratio.push_back(std::stod(found[2]) / ratio);
    }
    for (double p : per_ratio) EXPECT_NEAR(p, per_ratio.front(), 0.11) << slow;
    EXPECT_GE(per_ratio.front(), 25) << "of the default, percent of the widest";
  }
}

TEST(Reports, APageOfItsOwn) {
  ReportPage r;
  r.title = "model <x> & co";
  r.notes = {"the database is \"locked\""};
  ReportNode n;
  n.label = "mm_3", n.device = "H200", n.winner = 1;
  Measured slow, fast;
  slow.ratio = 1, slow.median_ns = 5e6, slow.rounds = 18;
  fast.ratio = 0.5, fast.median_ns = 2.5e6, fast.rounds = 18;
  n.candidates = {{"default", slow, ""}, {"gemm(m=128)", fast, ""}, {"avg", {}, "not equivalent: result 0 has an error of 3 <at> [1]"}};
  r.nodes = {n};
  r.searches = {
      {"start", 1, "", true, {{"fuse a", 0.9, "", true, {{"fuse b", 0.95, "slower", false, {}}}}, {"fuse c", 0, "bound", false, {}}}}};
  const std::string html = to_html(r);
  EXPECT_TRUE(test::contains(html, "model &lt;x&gt; &amp; co"));
  EXPECT_TRUE(test::contains(html, "the database is &quot;locked&quot;"));
  EXPECT_TRUE(test::contains(html, "an error of 3 &lt;at&gt; [1]"));
  EXPECT_TRUE(test::contains(html, "style=\"width:50.0%\""));
  EXPECT_LT(html.find("gemm(m=128)"), html.find(">default<"));
  EXPECT_LT(html.find(">default<"), html.find(">avg<"));
  EXPECT_TRUE(test::contains(html, "<li class=\"left\"><span><code>fuse b</code> 0.950: slower</span></li>"));
  for (const char* tag : {"ul", "li", "tr", "td", "table", "div", "span", "code"}) {
    size_t opened = 0, closed = 0;
    for (size_t at = 0; (at = html.find(std::string("<") + tag, at)) != std::string::npos; ++at) {
      const char after = html[at + 1 + std::string(tag).size()];
      opened += after == '>' || after == ' ';
    }
    for (size_t at = 0; (at = html.find(std::string("</") + tag + ">", at)) != std::string::npos; ++at) ++closed;
    EXPECT_EQ(opened, closed) << tag;
  }
  for (const char* foreign : {"http", "<script", "src=", "@import"}) EXPECT_FALSE(test::contains(html, foreign)) << foreign;
  ReportStep deep{"x", 0, "", false, {}};
  for (int i = 0; i < 1000; ++i) deep = ReportStep{"x", 0, "", false, {deep}};
  r.searches = {deep};
  EXPECT_EQ(to_html(r), to_html(r));
}

TEST(Reports, PartsOfOneNameHaveTheirSizes) {
  EXPECT_EQ(find_regions(one_product(), sched::fuse(one_product()), 1).at(0).label, "n0 [8x8x8]");
}

}  // namespace
}  // namespace toroid::tune
