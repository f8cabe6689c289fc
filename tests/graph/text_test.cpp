// Text form: what is printed parses back to the same, and bad text is refused with a position.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "graph/graph.h"

namespace toroid::graph {
namespace {

void round_trip(const std::string& text) {
  auto g = parse(text);
  std::string once = to_string(*g);
  EXPECT_EQ(to_string(*parse(once)), once);
  EXPECT_EQ(to_string(*clone(*g)), once);
}

std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const UserError& e) {
    return e.what();
  }
  return "accepted";
}

const char* const kExample =
    R"(graph "main"(%x: f32[2, s0], param %w "fc.weight": f32[3, 4] strides(1, 3)) symbols(s0 in 2..64, u0 unbacked in 0..inf) guards(s0 == 3) {
  %mm: f32[2, 4] = mm(%x, %w)  @ "model.py:12"
  %a: f32[2, 4] = add.Tensor(%mm, 0.1, alpha=2)
  %t: f32[4, 2] = permute(%a, dims=[1, 0])
  %f: f64[s0, 2] = full([s0, 2], fill_value=inf, dtype=f64)
  return %t, (input 0 <- %x), none, 3, [1, 2], "x\n\"", true, -0.0, nan, complex(1.0, -2.5), floats[], bf16, s0 + 1
}
)";

TEST(GraphText, PrintsAsWritten) {
  std::string printed = to_string(*parse(kExample));
  EXPECT_NE(printed.find("%mm: f32[2, 4] = mm(%x, %w)  @ \"model.py:12\""), std::string::npos) << printed;
  EXPECT_NE(printed.find("param %w \"fc.weight\": f32[3, 4] strides(1, 3)"), std::string::npos) << printed;
  EXPECT_NE(printed.find(
                "return %t, (input 0 <- %x), none, 3, [1, 2], \"x\\n\\\"\", true, -0.0, nan, complex(1.0, -2.5), floats[], bf16, s0 + 1"),
            std::string::npos)
      << printed;
}

TEST(GraphText, RoundTrip) {
  round_trip(kExample);
  round_trip("graph \"no results\"() {\n  return\n}\n");
  round_trip(R"(graph "regions"(%p: bool[], %x: f32[2]) {
    %c: f32[2] = cond(%p, [%x]) {
      graph "then"(%a: f32[2]) {
        %r: f32[2] = mul.Tensor(%a, 2)
        return %r
      }
    } {
      graph "else"(%a: f32[2]) {
        return %a
      }
    }  @ "here"
    return %c
  })");
}

// Words of the language are names of sizes in quotes where arguments stand.
TEST(GraphText, SizesMayBeCalledAnything) {
  for (const std::string name :
       {"none", "true", "inf", "nan",  "complex", "f32", "bf16", "tensors", "in",    "unbacked", "symbols", "floordiv", "i0", "batch size",
        "",     "'",    "\\",  "a, b", "x]",      "(",   "f(",   "a\nb",    "größe", "%x",       "1",       "@ \"",     "==", "input"}) {
    Graph g;
    const Expr s = sym::symbol(name, 2, 9);
    g.symbols.push_back({s, false});
    g.guards.push_back({sym::Rel::Ge, 2 * s, sym::floor_div(s, 3)});
    g.add_input({DType::F32, {s, s + 1}, {}}, InputKind::User, "x");
    g.inputs[0].value->type.strides = {s * 3, 1};
    for (const NodeArg& a : {NodeArg(s), NodeArg(-s), NodeArg(2 * s + 1), NodeArg(std::vector<Expr>{s, sym::max(s, 5)}), NodeArg(name),
                             NodeArg(DType::F32), NodeArg(true), NodeArg(std::monostate{})})
      g.outputs.push_back({nullptr, a, -1});
    const std::string text = to_string(g);
    auto again = parse(text);
    EXPECT_EQ(to_string(*again), text);
    EXPECT_EQ(again->symbols[0].expr, s) << text;
    EXPECT_TRUE(again->inputs[0].value->type == g.inputs[0].value->type) << text;
    for (size_t i = 0; i < g.outputs.size(); ++i) EXPECT_TRUE(again->outputs[i].literal == g.outputs[i].literal) << text << i;
  }
  EXPECT_NE(refusal("graph \"g\"() symbols('a in 1..2) { return }").find("expected another '"), std::string::npos);
  EXPECT_NE(refusal("graph \"g\"() symbols('a\\q' in 1..2) { return }").find("after the backslash"), std::string::npos);
}

TEST(GraphText, FloatsAreExact) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    uint64_t bits = random();
    double v;
    static_assert(sizeof v == sizeof bits);
    std::memcpy(&v, &bits, sizeof v);
    if (v != v) continue;
    Graph g;
    g.outputs.push_back({nullptr, v, -1});
    EXPECT_EQ(std::get<double>(parse(to_string(g))->outputs[0].literal), v);
  }
}

TEST(GraphText, SaysWhereTheTextIsWrong) {
  EXPECT_NE(refusal("graph \"t\"(%x: f32[2]) {\n  %y: f32[2] = ad.Tensor(%x, 1)\n  return %y\n}").find("line 2, column 16"),
            std::string::npos);
  EXPECT_NE(refusal("graph \"t\"() {\n  return %y\n}").find("line 2, column 10"), std::string::npos);
  EXPECT_NE(refusal("graph \"t\"(%x: f32[q]) {\n  return %x\n}").find("\"q\" is not declared"), std::string::npos);
  EXPECT_NE(refusal("graph \"t\"(%x: f32[2]) {\n  %y: f32[3] = add.Tensor(%x, 1)\n  return %y\n}").find("should be f32[2]"),
            std::string::npos);
  EXPECT_NE(refusal("graph \"t\"(%x: f32[2], %x: f32[2]) {\n  return %x\n}").find("defined twice"), std::string::npos);
  EXPECT_NE(refusal("graph \"t\"(%x: f32[2]) {\n  %y: f32[2] = add.Tensor(%x, 1, beta=2)\n  return %y\n}").find("no parameter"),
            std::string::npos);
}

// Truncations and single changed characters give a graph or a UserError, nothing else.
TEST(GraphText, DamagedTextIsRefusedPolitely) {
  std::string text = kExample;
  auto attempt = [](const std::string& t) {
    try {
      parse(t);
    } catch (const UserError&) {
    }
  };
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_NO_THROW(attempt(text.substr(0, i)));
    for (char c : {'%', '[', '(', '}', '9', '"', '-'}) {
      std::string changed = text;
      changed[i] = c;
      EXPECT_NO_THROW(attempt(changed)) << changed;
    }
  }
}

}  // namespace
}  // namespace toroid::graph
