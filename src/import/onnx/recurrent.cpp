// RNN, GRU and LSTM: one product for the inputs of all steps, then a scan over the steps.
#include <functional>

#include "base/check.h"
#include "graph/control_flow.h"
#include "import/onnx/builder.h"

namespace toroid::import::onnx {
namespace {

using Activation = std::function<Tensor(const Tensor&)>;

Activation affine(double alpha, double beta) {
  return [alpha, beta](const Tensor& x) { return op("add.Tensor", op("mul.Tensor", x, alpha), beta); };
}

// Takes the numbers that the function needs off the lists of all functions.
Activation activation(const std::string& name, std::vector<double>& alphas, std::vector<double>& betas) {
  auto take = [](std::vector<double>& list, double otherwise) {
    if (list.empty()) return otherwise;
    double v = list.front();
    list.erase(list.begin());
    return v;
  };
  if (name == "Sigmoid") return [](const Tensor& x) { return op("sigmoid", x); };
  if (name == "Tanh") return [](const Tensor& x) { return op("tanh", x); };
  if (name == "Relu") return [](const Tensor& x) { return op("relu", x); };
  if (name == "Softsign") return [](const Tensor& x) { return op("div.Tensor", x, op("add.Tensor", op("abs", x), 1.0)); };
  if (name == "Softplus") return [](const Tensor& x) { return op("softplus", x); };
  if (name == "Affine") {
    double alpha = take(alphas, 1), beta = take(betas, 0);
    return affine(alpha, beta);
  }
  if (name == "HardSigmoid") {
    double alpha = take(alphas, 0.2), beta = take(betas, 0.5);
    return [inner = affine(alpha, beta)](const Tensor& x) { return op("clamp", inner(x), 0.0, 1.0); };
  }
  if (name == "LeakyRelu") return [alpha = take(alphas, 0.01)](const Tensor& x) { return op("leaky_relu", x, alpha); };
  if (name == "ThresholdedRelu") return [alpha = take(alphas, 1)](const Tensor& x) { return op("threshold", x, alpha, 0.0); };
  if (name == "Elu") return [alpha = take(alphas, 1)](const Tensor& x) { return op("elu", x, alpha); };
  if (name == "ScaledTanh") {
    double alpha = take(alphas, 1), beta = take(betas, 1);
    return [alpha, beta](const Tensor& x) { return op("mul.Tensor", op("tanh", op("mul.Tensor", x, beta)), alpha); };
  }
  fail<UserError>("the activation \"{}\" is unknown", name);
}

// What a step computes with, inside of the scan.
struct Step {
  std::vector<Activation> f;
  Activation clip;  // limits what goes into the activations
  bool linear_before_reset = false, input_forget = false;
  int64_t hidden = 0;
};
// Weights of one direction, by the names of the scan's inputs. Undefined where absent.
struct Weights {
  Tensor recurrent, recurrent_bias, peepholes;
};
struct State {
  Tensor h, c;
};
using Cell = State (*)(const Step&, const Tensor& gates, const State&, const Weights&);

Tensor part(const Tensor& t, int64_t i, const Step& s) { return op("slice.Tensor", t, -1, i * s.hidden, (i + 1) * s.hidden); }
Tensor add(const Tensor& a, const Tensor& b) { return op("add.Tensor", a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return op("mul.Tensor", a, b); }

State rnn_step(const Step& s, const Tensor& gates, const State& at, const Weights& w) {
  return {s.f[0](s.clip(add(gates, op("linear", at.h, w.recurrent)))), {}};
}

State gru_step(const Step& s, const Tensor& gates, const State& at, const Weights& w) {
  auto rows = [&](int64_t from, int64_t to) { return op("slice.Tensor", w.recurrent, 0, from * s.hidden, to * s.hidden); };
  Tensor both = op("linear", at.h, rows(0, 2));
  Tensor update = s.f[0](s.clip(add(part(gates, 0, s), part(both, 0, s))));
  Tensor reset = s.f[0](s.clip(add(part(gates, 1, s), part(both, 1, s))));
  Arg<Tensor> bias = w.recurrent_bias.defined() ? Arg<Tensor>(w.recurrent_bias) : kNone;
  Tensor hidden =
      s.linear_before_reset ? mul(reset, op("linear", at.h, rows(2, 3), bias)) : op("linear", mul(reset, at.h), rows(2, 3), bias);
  Tensor fresh = s.f[1](s.clip(add(part(gates, 2, s), hidden)));
  return {add(fresh, mul(update, op("sub.Tensor", at.h, fresh))), {}};
}

// Gates in the order input, output, forget, cell.
State lstm_step(const Step& s, const Tensor& gates, const State& at, const Weights& w) {
  Tensor all = add(gates, op("linear", at.h, w.recurrent));
  auto gate = [&](int64_t i, const Tensor& cell) {
    Tensor x = part(all, i, s);
    if (w.peepholes.defined()) x = add(x, mul(part(w.peepholes, i, s), cell));
    return s.f[0](s.clip(x));
  };
  Tensor input = gate(0, at.c);
  Tensor forget = s.input_forget ? op("rsub.Scalar", input, 1) : gate(2, at.c);
  Tensor c = add(mul(forget, at.c), mul(input, s.f[1](s.clip(part(all, 3, s)))));
  Tensor output = gate(1, c);
  return {mul(output, s.f[2](c)), c};
}

struct Kind {
  int64_t gates;
  size_t functions;
  const char* defaults[3];
  bool has_cell;
  Cell cell;
};
constexpr Kind kRnn{1, 1, {"Tanh", "", ""}, false, rnn_step};
constexpr Kind kGru{3, 2, {"Sigmoid", "Tanh", ""}, false, gru_step};
constexpr Kind kLstm{4, 3, {"Sigmoid", "Tanh", "Tanh"}, true, lstm_step};

// The inputs of the scan's region, in order: states, slices, then what stays the same.
class ScanRegion {
 public:
  explicit ScanRegion(OpCall& c) : c_(c), graph_(std::make_shared<graph::Graph>()), recorder_(*graph_) {
    graph_->name = "combine";
    graph_->symbols = c.builder().graph().symbols;
    graph_->guards = c.builder().graph().guards;
  }

  Tensor state(const Tensor& t) { return add(t, init_, false); }
  Tensor slice(const Tensor& t) { return add(t, xs_, true); }
  Tensor extra(const Tensor& t) { return t.defined() ? add(t, extra_, false) : t; }
  graph::Recorder& recorder() { return recorder_; }
  void output(const Tensor& t) { graph_->outputs.push_back({recorder_.value_of(t), {}, -1}); }

  std::vector<Tensor> finish() {
    graph::Graph& around = c_.builder().graph();
    around.guards = std::move(graph_->guards);
    graph_->guards.clear();
    std::erase_if(graph_->symbols, [&](const graph::Symbol& s) { return around.find_symbol(s.expr.node()->name) != nullptr; });
    auto* n = graph::add_region_node(around, graph::scan_op(), {{}, init_, xs_, extra_}, {graph_},
                                     c_.node().name.empty() ? c_.node().op_type : c_.node().name);
    std::vector<Tensor> out;
    for (auto* r : n->results) out.push_back(c_.builder().recorder().proxy(r));
    return out;
  }

 private:
  Tensor add(const Tensor& t, std::vector<graph::Value*>& list, bool sliced) {
    list.push_back(c_.builder().recorder().value_of(t));
    TensorType type = list.back()->type;
    type.strides.clear();
    if (sliced) type.sizes.erase(type.sizes.begin());
    return recorder_.proxy(graph_->add_input(std::move(type), graph::InputKind::User, "x"));
  }

  OpCall& c_;
  std::shared_ptr<graph::Graph> graph_;
  graph::Recorder recorder_;
  std::vector<graph::Value*> init_, xs_, extra_;
};

class Network {
 public:
  Network(OpCall& c, const Kind& kind) : c_(c), kind_(kind) {
    std::string direction = c.text("direction", "forward");
    both_ = direction == "bidirectional";
    reverse_ = direction == "reverse";
    batch_first_ = c.integer("layout", 0) != 0;
    x_ = batch_first_ ? permuted(c.in(0), {1, 0, 2}) : c.in(0);
    hidden_ = known_size(sizes_of(c.in(2))[2], "the number of hidden units");
    TOROID_USER_CHECK(c.integer("hidden_size", hidden_) == hidden_, "the attribute \"hidden_size\" is {}, the weights are for {}",
                      c.integer("hidden_size", 0), hidden_);
    if (c.has(4)) lengths_ = cast(c.in(4), DType::I64);
  }

  void run() {
    std::vector<Tensor> outputs, last_h, last_c;
    for (int64_t d = 0; d < (both_ ? 2 : 1); ++d) {
      auto out = direction(d, d == 1 || reverse_);
      outputs.push_back(out[0]);
      last_h.push_back(out[1]);
      if (kind_.has_cell) last_c.push_back(out[2]);
    }
    // y [time, directions, batch, hidden], states [directions, batch, hidden]; or the batch first.
    Tensor y = op("stack", outputs, batch_first_ ? 2 : 1);
    c_.set(0, batch_first_ ? permuted(y, {1, 0, 2, 3}) : y);
    c_.set(1, op("stack", last_h, batch_first_ ? 1 : 0));
    if (kind_.has_cell) c_.set(2, op("stack", last_c, batch_first_ ? 1 : 0));
  }

 private:
  Step step(int64_t d) const {
    Step s;
    s.hidden = hidden_;
    s.linear_before_reset = c_.integer("linear_before_reset", 0) != 0;
    s.input_forget = c_.integer("input_forget", 0) != 0;
    auto names = c_.texts("activations");
    auto alphas = c_.reals("activation_alpha"), betas = c_.reals("activation_beta");
    size_t all = kind_.functions * (both_ ? 2 : 1);
    TOROID_USER_CHECK(names.empty() || names.size() == all, "{} activations are named; expected are {}", names.size(), all);
    if (names.empty())
      for (size_t i = 0; i < all; ++i) names.push_back(kind_.defaults[i % kind_.functions]);
    std::vector<Activation> functions;
    for (auto& n : names) functions.push_back(activation(n, alphas, betas));
    auto first = functions.begin() + static_cast<int64_t>(kind_.functions) * d;
    s.f.assign(first, first + static_cast<int64_t>(kind_.functions));
    s.clip = [](const Tensor& x) { return x; };
    if (c_.has_attribute("clip")) s.clip = [limit = c_.real("clip", 0)](const Tensor& x) { return op("clamp", x, -limit, limit); };
    return s;
  }

  Tensor initial(size_t input, int64_t d) const {
    if (c_.has(input)) return op("select.int", c_.in(input), batch_first_ ? 1 : 0, d);
    return op("full", Sizes{sizes_of(x_)[1], hidden_}, 0.0, x_.dtype());
  }

  Tensor reversed(const Tensor& t) const {
    return lengths_.defined() ? reversed_sequences(t, lengths_, 0, 1) : op("flip", t, std::vector<int64_t>{0});
  }

  // Outputs of all steps, the last h, and the last c.
  std::vector<Tensor> direction(int64_t d, bool reverse) {
    Weights w{op("select.int", c_.in(2), 0, d), {}, {}};
    int64_t width = kind_.gates * hidden_;
    Arg<Tensor> bias = kNone;
    if (c_.has(3)) {
      Tensor all = op("select.int", c_.in(3), 0, d);
      Tensor input = op("slice.Tensor", all, 0, 0, width), recurrent = op("slice.Tensor", all, 0, width, 2 * width);
      if (kind_.gates == 3) {  // the last gate's recurrent part may be reset with its bias
        w.recurrent_bias = op("slice.Tensor", recurrent, 0, 2 * hidden_, 3 * hidden_);
        recurrent = op("constant_pad_nd", op("slice.Tensor", recurrent, 0, 0, 2 * hidden_), Sizes{0, hidden_}, 0);
      }
      bias = op("add.Tensor", input, recurrent);
    }
    if (kind_.has_cell && c_.has(7)) w.peepholes = op("select.int", c_.in(7), 0, d);
    Tensor gates = op("linear", x_, op("select.int", c_.in(1), 0, d), bias);
    if (reverse) gates = reversed(gates);
    ScanRegion region(c_);
    State start{initial(5, d), kind_.has_cell ? initial(6, d) : Tensor()};
    State at{region.state(start.h), kind_.has_cell ? region.state(start.c) : Tensor()};
    Tensor slice = region.slice(gates), counts = lengths_.defined() ? region.slice(in_sequence()) : Tensor();
    Weights inside{region.extra(w.recurrent), region.extra(w.recurrent_bias), region.extra(w.peepholes)};
    {
      DispatchScope dispatch(region.recorder());
      State next = kind_.cell(step(d), slice, at, inside);
      Tensor shown = next.h;
      if (counts.defined()) {  // after a sequence's end its state stays, and its outputs are zero
        shown = op("where.self", counts, next.h, op("zeros_like", next.h));
        next.h = op("where.self", counts, next.h, at.h);
        if (kind_.has_cell) next.c = op("where.self", counts, next.c, at.c);
      }
      region.output(next.h);
      if (kind_.has_cell) region.output(next.c);
      region.output(shown);
    }
    auto out = region.finish();
    Tensor shown = reverse ? reversed(out.back()) : out.back();
    return {shown, out[0], kind_.has_cell ? out[1] : Tensor()};
  }

  // [time, batch, 1]: whether the step belongs to the sequence.
  Tensor in_sequence() const {
    Sizes s = sizes_of(x_);
    return op("lt.Tensor", reshape(op("arange", s[0], DType::I64), {s[0], 1, 1}), reshape(lengths_, {1, s[1], 1}));
  }

  OpCall& c_;
  const Kind& kind_;
  bool both_ = false, reverse_ = false, batch_first_ = false;
  Tensor x_, lengths_;
  int64_t hidden_ = 0;
};

}  // namespace

void add_recurrent_operators(Operators& t) {
  t.add("RNN", 7, [](OpCall& c) { Network(c, kRnn).run(); });
  t.add("GRU", 7, [](OpCall& c) { Network(c, kGru).run(); });
  t.add("LSTM", 7, [](OpCall& c) { Network(c, kLstm).run(); });
}

}  // namespace toroid::import::onnx
