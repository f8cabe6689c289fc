// A well-formed program of every kind of node, and what the verifier says of it once something is wrong.
#include "program/verify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "errors.h"
#include "ops/table.h"

namespace toroid::program {
namespace {

Node loop_node(const std::string& text, const std::string& origin) {
  loop::Nest nest = loop::parse(text);
  Node n;
  n.domain = nest.domain, n.body = nest.body, n.origins = {origin};
  return n;
}

Node template_node(decltype(Node::problem) problem, const std::string& text, const std::string& origin) {
  Node n = loop_node(text, origin);
  n.problem = std::move(problem);
  return n;
}

// x [8, 16] -> roots -> roots x weight (rows computed by a producer) -> sorted -> relu, beside a convolution, attention, a call and a
// choice.
struct Sample {
  enum Place : size_t { kProduct, kSort, kRelu, kConvolution, kAttention, kCall, kChoice };
  Program p;

  Sample() {
    p.name = "sample";
    p.symbols.push_back({sym::symbol("s0", 2, 100), false});
    const auto buffer = [&](const char* name, Expr numel, loop::BufferKind kind, DType t = DType::F32) {
      return p.new_buffer(name, t, numel, kind);
    };
    using enum loop::BufferKind;
    buffer("x", 8 * 16, Input);
    buffer("roots", 8 * 16, Temporary);
    buffer("weight", 16 * 4, Constant);
    buffer("product", 8 * 4, Temporary);
    buffer("sorted", 8 * 4, Temporary);
    buffer("image", 1 * 3 * 6 * 6, Input);
    buffer("filter", 2 * 3 * 3 * 3, Constant);
    buffer("features", 2 * 4 * 4, Output);
    buffer("attended", 8 * 16, Output);
    buffer("called", 8 * 16, Output);
    buffer("chosen", 8 * 4, Output);
    buffer("tokens", p.symbols[0].expr, Input, DType::I64);
    for (int b : {0, 5, 11}) {
      const auto& from = p.buffers[static_cast<size_t>(b)];
      p.inputs.push_back({b, {from.dtype, {from.numel}, {}}, graph::InputKind::User, {}, from.name});
    }
    for (int b : {2, 6}) {
      const auto& from = p.buffers[static_cast<size_t>(b)];
      p.inputs.push_back({b, {from.dtype, {from.numel}, {}}, graph::InputKind::Constant, {}, from.name});
    }
    for (int b : {7, 8, 9, 10}) p.outputs.push_back({b, {DType::F32, {p.buffers[static_cast<size_t>(b)].numel}, {}}, -1, {}});
    add_product();
    p.nodes.push_back(call_of(Sort{.rows = {8},
                                   .length = 4,
                                   .count = 4,
                                   .keys = {3, DType::F32, 0, {4, 1}},
                                   .values = {4, DType::F32, 0, {4, 1}},
                                   .positions = {}},
                              "sort"));
    p.nodes.push_back(
        loop_node("loop (i0: 32) {\n v0: f32 = load %4 [i0]\n v1: f32 = const 0\n v2: f32 = Max v0 v1\n store %10 [i0] v2\n}", "relu"));
    Convolution c;
    c.n = 1, c.in_channels = 3, c.out_channels = 2, c.in_h = 6, c.in_w = 6, c.out_h = 4, c.out_w = 4, c.kernel_h = 3, c.kernel_w = 3;
    c.input = {5, DType::F32, 0, {108, 36, 6, 1}};
    c.weight = {6, DType::F32, 0, {27, 9, 3, 1}};
    p.nodes.push_back(
        template_node(c, "loop (n: 1, o: 2, y: 4, x: 4) {\n v0: f32 = accumulate\n store %7 [o*16 + y*4 + x] v0\n}", "convolution"));
    Attention a;
    a.batch = 1, a.heads = 1, a.kv_heads = 1, a.queries = 8, a.keys = 8, a.head_dim = 16, a.value_dim = 16;
    a.q = a.k = a.v = {0, DType::F32, 0, {128, 128, 16, 1}};
    p.nodes.push_back(template_node(a, "loop (b: 1, h: 1, i: 8, d: 16) {\n v0: f32 = accumulate\n store %8 [i*16 + d] v0\n}", "attention"));
    Extern e;
    e.op = &ops::get("cumsum");
    e.args = {0, Expr(0), std::monostate{}};
    e.inputs = {{{0, DType::F32, 0, {16, 1}}, {8, 16}}};
    e.outputs = {{{9, DType::F32, 0, {16, 1}}, {8, 16}}};
    p.nodes.push_back(call_of(e, "cumsum"));
    p.nodes.push_back(call_of(choice(), "choice"));
  }

  static Node call_of(decltype(Node::problem) problem, const std::string& origin) {
    Node n;
    n.problem = std::move(problem);
    n.origins = {origin};
    return n;
  }

  void add_product() {
    Gemm g;
    g.m = 8, g.n = 4, g.k = 16;
    g.a = {1, DType::F32, 0, {16, 1}};
    g.b = {2, DType::F32, 0, {4, 1}};
    Node n = template_node(g, "loop (m: 8, n: 4) {\n v0: f32 = accumulate\n store %3 [m*4 + n] v0\n}", "product");
    n.producer = loop::parse("loop (i0: 8, i1: 16) {\n v0: f32 = load %0 [i0*16 + i1]\n v1: f32 = Sqrt v0\n store %1 [i1] v1\n}");
    p.nodes.push_back(n);
  }

  // An operation with one implementation, which doubles 32 numbers.
  static Open choice() {
    auto inner = std::make_shared<Program>();
    inner->new_buffer("in", DType::F32, 32, loop::BufferKind::Input);
    inner->new_buffer("out", DType::F32, 32, loop::BufferKind::Output);
    inner->inputs.push_back({0, {DType::F32, {32}, {}}, graph::InputKind::User, {}, "in"});
    inner->outputs.push_back({1, {DType::F32, {32}, {}}, -1, {}});
    inner->nodes.push_back(loop_node("loop (i0: 32) {\n v0: f32 = load %0 [i0]\n v1: f32 = Add v0 v0\n store %1 [i0] v1\n}", "double"));
    Open o;
    o.name = "demo::double";
    o.inputs = {{{3, DType::F32, 0, {1}}, {32}}};
    o.outputs = {{{10, DType::F32, 0, {1}}, {32}}};
    o.alternatives.push_back({"own", inner, nullptr, {}, "key"});
    return o;
  }

  template <class P>
  P& problem(Place at) {
    return std::get<P>(p.nodes[at].problem);
  }
  loop::Statement& step(Place at, size_t k) { return p.nodes[at].body.steps[k]; }
};

struct Fault {
  const char* rule;
  const char* says;
  void (*plant)(Sample&);
  Stage stage = Stage::Lowered;
};

using S = Sample;

// relu of elements at indices that are checked: into %10 of 32 elements, the failures to `record`.
Node checking(Sample& s, int record, int site) {
  s.p.sites.push_back({"gather", "", 0, false});
  return loop_node(fmt::format("loop (i0: 32) {{\n v0: i64 = index [i0]\n v1: i64 = check %{} v0 below [32] site {}\n"
                               " v2: f32 = load %4 [v1]\n store %10 [i0] v2\n}}",
                               record, site),
                   "relu");
}

const Fault kFaults[] = {
    {"buffers are numbered by their place", "the buffer at place 1 has the number 2", [](S& s) { s.p.buffers[1].id = 2; }},
    {"buffers are numbered by their place", "depends on a loop",
     [](S& s) { s.p.buffers[1].numel = s.p.nodes[S::kRelu].domain.vars[0].symbol; }},
    {"inputs have buffers of their own", "of which there are 12", [](S& s) { s.p.inputs[0].buffer = 99; }},
    {"inputs have buffers of their own", "two inputs are buffer %0", [](S& s) { s.p.inputs[1].buffer = 0; }},
    {"inputs have buffers of their own", "is f64, its buffer %0 f32", [](S& s) { s.p.inputs[0].type.dtype = DType::F64; }},
    {"inputs have buffers of their own", "neither input nor constant", [](S& s) { s.p.buffers[0].kind = loop::BufferKind::Temporary; }},
    {"inputs have buffers of their own", "is made of %0, which is none",
     [](S& s) {
       s.p.rearranged.push_back({s.p.new_buffer("r", DType::F32, 4, loop::BufferKind::Constant), {{{0, DType::F32, 0, {1}}, 0, {1}, {4}}}});
     }},
    {"outputs have buffers", "must be of kind output", [](S& s) { s.p.buffers[7].kind = loop::BufferKind::Temporary; }},
    {"outputs have buffers", "replaces input 9", [](S& s) { s.p.outputs[0].mutates = 9; }},
    {"symbols are declared", "the symbol s0 is not declared", [](S& s) { s.p.symbols.clear(); }},
    {"operands are views within their buffers", "the left operand is buffer %50",
     [](S& s) { s.p.nodes[S::kProduct].producer.reset(), s.problem<Gemm>(S::kProduct).a.buffer = 50; }},
    {"operands are views within their buffers", "the right operand has 1 strides",
     [](S& s) { s.problem<Gemm>(S::kProduct).b.strides = {4}; }},
    {"windows and groups of convolutions fit", "channels cannot be split into 0 groups",
     [](S& s) { s.problem<Convolution>(S::kConvolution).groups = 0; }},
    {"windows and groups of convolutions fit", "moves by 0 and", [](S& s) { s.problem<Convolution>(S::kConvolution).stride_h = 0; }},
    {"operands are views within their buffers", "the input is bf16",
     [](S& s) { s.problem<Convolution>(S::kConvolution).input.dtype = DType::BF16; }},
    {"operands are views within their buffers", "the key reaches element 143 of %0, which has 128",
     [](S& s) { s.problem<Attention>(S::kAttention).k.offset = 16; }},
    {"operands are views within their buffers", "a result reaches element",
     [](S& s) { s.problem<Extern>(S::kCall).outputs[0].sizes[0] = 9; }},
    {"loops are well formed, and stay within their buffers", "argument 0 is not an earlier value",
     [](S& s) { s.step(S::kRelu, 2).args[0] = 7; }},
    {"loops are well formed, and stay within their buffers", "as f32, which is i64", [](S& s) { s.step(S::kRelu, 0).buffer = 11; }},
    {"loops are well formed, and stay within their buffers", "elements 1 to 32 of %4",
     [](S& s) { s.step(S::kRelu, 0).index = s.step(S::kRelu, 0).index + 1; }},
    {"loops are well formed, and stay within their buffers", "which is no variable of the domain",
     [](S& s) { s.step(S::kRelu, 0).index = s.p.nodes[S::kConvolution].domain.vars[1].symbol; }},
    {"loops are well formed, and stay within their buffers", "which is no record", [](S& s) { s.p.nodes[S::kRelu] = checking(s, 4, 0); }},
    {"loops are well formed, and stay within their buffers", "a check is at site 7, of which there are 1",
     [](S& s) { s.p.nodes[S::kRelu] = checking(s, s.p.faults(), 7); }},
    {"loops are well formed, and stay within their buffers", "the record of checks",
     [](S& s) {
       s.p.nodes[S::kRelu] = loop_node(
           fmt::format("loop (i0: 8) {{\n v0: i64 = load %{} [i0]\n v1: f32 = Cast v0\n store %10 [i0] v1\n}}", s.p.faults()), "relu");
     }},
    {"operands are views within their buffers", "the key reaches element -16 of %0",
     [](S& s) { s.problem<Attention>(S::kAttention).k.offset = -16; }},
    {"bodies run over the points of their problems", "a producer reads the result of a template",
     [](S& s) { s.p.nodes[S::kProduct].producer->body.steps.at(0).step = loop::Step::Accumulate; }},
    {"symbols are declared", "the symbol s7 is not declared",
     [](S& s) {
       auto block = std::make_shared<graph::Graph>();
       block->symbols.push_back({sym::symbol("s7", 2, 100), false});
       s.problem<Extern>(S::kCall).blocks.push_back(std::move(block));
       s.problem<Extern>(S::kCall).inputs[0].sizes[0] = sym::symbol("s7", 2, 100);
     }},
    {"memory is written before it is read", "it reads %1, which nothing has written",
     [](S& s) {
       s.p.nodes[S::kProduct].producer.reset();
       s.step(S::kProduct, s.p.nodes[S::kProduct].body.steps.size() - 1).buffer = 1;
     }},
    {"bodies run over the points of their problems", "runs over 2 dimensions, its problem has 4",
     [](S& s) { s.p.nodes[S::kConvolution].domain.vars.resize(2), s.step(S::kConvolution, 1).index = 0; }},
    {"bodies run over the points of their problems", "has the extent 4, that of its problem 6",
     [](S& s) {
       s.problem<Gemm>(S::kProduct).n = 6, s.problem<Gemm>(S::kProduct).b.strides = {0, 1};
     }},
    {"bodies run over the points of their problems", "a loop reads the result of a template",
     [](S& s) { s.p.nodes[S::kConvolution].problem = std::monostate{}; }},
    {"bodies run over the points of their problems", "reads a second sum",
     [](S& s) { s.step(S::kProduct, 0).value = Number::of(int64_t{1}); }},
    {"bodies run over the points of their problems", "onednn computes neither product nor convolution",
     [](S& s) { s.p.nodes[S::kAttention].by = Implementation::OneDnn; }},
    {"bodies run over the points of their problems", "only loops have others beside them",
     [](S& s) {
       s.p.nodes[S::kProduct].beside.push_back({s.p.nodes[S::kRelu].domain, s.p.nodes[S::kRelu].body});
     }},
    {"bodies run over the points of their problems", "a call or a sort has no loop of its own",
     [](S& s) { s.p.nodes[S::kSort].body = s.p.nodes[S::kRelu].body, s.p.nodes[S::kSort].domain = s.p.nodes[S::kRelu].domain; }},
    {"bodies run over the points of their problems", "it stores nothing", [](S& s) { s.p.nodes[S::kRelu].body.steps.pop_back(); }},
    {"producers compute the rows of their product", "does not say which row",
     [](S& s) { s.p.nodes[S::kProduct].producer = loop::parse("loop (i0: 4, i1: 16) {\n v0: f32 = const 1\n store %1 [i1] v0\n}"); }},
    {"producers compute the rows of their product", "stores to %3, not to its left operand %1",
     [](S& s) { s.p.nodes[S::kProduct].producer->body.steps.back().buffer = 3; }},
    {"producers compute the rows of their product", "only products of a template",
     [](S& s) { s.p.nodes[S::kConvolution].producer = s.p.nodes[S::kProduct].producer; }},
    {"memory is written before it is read", "it reads %3, which nothing has written", [](S& s) { s.p.nodes.erase(s.p.nodes.begin()); }},
    {"memory is written before it is read", "it writes the constant %2", [](S& s) { s.step(S::kRelu, 3).buffer = 2; }},
    {"memory is written before it is read", "the output %9 is written by nothing",
     [](S& s) { s.p.nodes.erase(s.p.nodes.begin() + S::kCall); }},
    {"calls have their arguments", "an argument is input 3, of which there are 1", [](S& s) { s.problem<Extern>(S::kCall).args[0] = 3; }},
    {"calls have their arguments", "1 conditions choose between 0 blocks",
     [](S& s) {
       s.problem<Extern>(S::kCall).conditions.push_back({sym::Rel::Lt, s.p.symbols[0].expr, 4});
     }},
    {"choices have implementations, and are decided when scheduled", "has no implementation",
     [](S& s) { s.problem<Open>(S::kChoice).alternatives.clear(); }},
    {"choices have implementations, and are decided when scheduled", "has 1 inputs and 1 outputs, the call 0 and 1",
     [](S& s) { s.problem<Open>(S::kChoice).inputs.clear(); }},
    {"choices have implementations, and are decided when scheduled", "is still undecided", [](S&) {}, Stage::Scheduled},
};

// Of each kind: an operand that it cannot do without has no buffer.
const Fault kAbsent[] = {
    {"", "the right operand is buffer %-1", [](S& s) { s.problem<Gemm>(S::kProduct).b.buffer = -1; }},
    {"", "the second right operand is buffer %-1", [](S& s) { s.problem<Gemm>(S::kProduct).b2.emplace(); }},
    {"", "the weight is buffer %-1", [](S& s) { s.problem<Convolution>(S::kConvolution).weight.buffer = -1; }},
    {"", "the value is buffer %-1", [](S& s) { s.problem<Attention>(S::kAttention).v.buffer = -1; }},
    {"", "the keys is buffer %-1", [](S& s) { s.problem<Sort>(S::kSort).keys.buffer = -1; }},
    {"", "an argument is buffer %-1", [](S& s) { s.problem<Extern>(S::kCall).inputs[0].memory.buffer = -1; }},
    {"", "a result is buffer %-1", [](S& s) { s.problem<Open>(S::kChoice).outputs[0].memory.buffer = -1; }},
};

TEST(ProgramVerifier, RefusesProblemsThatLackAnOperand) {
  for (auto& fault : kAbsent) {
    Sample s;
    fault.plant(s);
    const std::string error = test::error_of<InternalError>([&] { verify(s.p, Stage::Lowered, "a pass"); });
    EXPECT_TRUE(test::contains(error, fault.says)) << fault.says << ": " << error;
  }
}

// Positions of a sort and the mask of attention may be absent, and are what is read and written where they are not.
TEST(ProgramVerifier, OperandsThatMayBeAbsentAreReadAndWritten) {
  Sample s;
  const Node &sort = s.p.nodes[S::kSort], &attention = s.p.nodes[S::kAttention];
  EXPECT_EQ(reads(sort), (std::vector<int>{3}));
  EXPECT_EQ(writes(sort), (std::vector<int>{4}));
  EXPECT_EQ(reads(attention), (std::vector<int>{0}));
  s.problem<Sort>(S::kSort).positions = {11, DType::I64, 0, {4, 1}};
  s.problem<Attention>(S::kAttention).mask = {5, DType::F32, 0, {0, 0, 0, 1}};
  EXPECT_EQ(writes(sort), (std::vector<int>{4, 11}));
  EXPECT_EQ(reads(attention), (std::vector<int>{0, 5}));
  EXPECT_EQ(reads(s.p.nodes[S::kProduct]), (std::vector<int>{0, 2})) << "its left operand is what its producer makes of %0";
}

TEST(ProgramVerifier, TakesEveryKindOfNode) {
  Sample s;
  verify(s.p, Stage::Lowered, "the test");
}

TEST(ProgramVerifier, RefusesPlantedFaultsByTheNameOfTheirRule) {
  for (auto& fault : kFaults) {
    Sample s;
    fault.plant(s);
    const std::string error = test::error_of<InternalError>([&] { verify(s.p, fault.stage, "a pass"); });
    EXPECT_TRUE(test::contains(error, std::string("after a pass: rule \"") + fault.rule + "\"") && test::contains(error, fault.says))
        << fault.rule << ": " << fault.says << "\n"
        << error;
  }
}

}  // namespace
}  // namespace toroid::program
