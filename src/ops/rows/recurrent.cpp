// Rows of recurrent networks, unrolled over a sequence of known length.
#include <functional>

#include "base/check.h"
#include "ops/rows/dense_compose.h"

namespace toroid::ops {
namespace {

using namespace compose;

struct Weights {
  Tensor w_ih, w_hh, b_ih, b_hh, w_hr;  // undefined where absent
};

struct State {
  Tensor h, c;  // c only for LSTM
};

// One step: the gates' input part is given, `x` times w_ih plus bias.
using Cell = std::function<State(const Tensor& input_gates, const State& state, const Weights& w)>;

Tensor sigmoid(const Tensor& t) { return call1("sigmoid", {t}); }
Tensor tanh(const Tensor& t) { return call1("tanh", {t}); }

std::vector<Tensor> gates(const Tensor& t, int64_t n) {
  std::vector<Tensor> out;
  Expr each = sym::floor_div(extent(t, -1), n);
  for (int64_t i = 0; i < n; ++i) out.push_back(slice(t, -1, each * Expr(i), each * Expr(i + 1)));
  return out;
}

State gru_step(const Tensor& input_gates, const State& s, const Weights& w) {
  auto x = gates(input_gates, 3), h = gates(linear(s.h, w.w_hh, w.b_hh), 3);
  Tensor reset = sigmoid(add(x[0], h[0])), update = sigmoid(add(x[1], h[1]));
  Tensor fresh = tanh(add(x[2], mul(reset, h[2])));
  return {add(mul(sub(s.h, fresh), update), fresh), {}};
}

State lstm_step(const Tensor& input_gates, const State& s, const Weights& w) {
  auto g = gates(add(input_gates, linear(s.h, w.w_hh, w.b_hh)), 4);
  const Tensor fresh = tanh(g[2]), added = mul(sigmoid(g[0]), fresh), c = add(mul(sigmoid(g[1]), s.c), added), shown = tanh(c);
  Tensor h = mul(sigmoid(g[3]), shown);
  if (w.w_hr.defined()) h = linear(h, w.w_hr, {});
  return {h, c};
}

template <bool kRelu>
State simple_step(const Tensor& input_gates, const State& s, const Weights& w) {
  return {call1(kRelu ? "relu" : "tanh", {add(input_gates, linear(s.h, w.w_hh, w.b_hh))}), {}};
}

// One layer in one direction over x [time, batch, features]; appends the last state to `last`.
Tensor run_direction(const Tensor& x, State state, const Weights& w, const Cell& cell, bool reverse, std::vector<State>& last) {
  int64_t steps = fixed_extent(x, 0);
  Tensor all_gates = linear(x, w.w_ih, w.b_ih);  // one product for all steps
  std::vector<Tensor> outputs(static_cast<size_t>(steps));
  for (int64_t i = 0; i < steps; ++i) {
    int64_t t = reverse ? steps - 1 - i : i;
    state = cell(select(all_gates, 0, t), state, w);
    outputs[static_cast<size_t>(t)] = state.h;
  }
  last.push_back(state);
  return stack(std::move(outputs), 0);
}

constexpr int64_t kMaxSteps = 4096;

struct Network {
  Tensor output;
  Tensor h, c;  // last states of all layers and directions
};

Network run(const CallReader& c, const Tensor& h0, const Tensor& c0, const Cell& cell) {
  const std::string& name = c.op().name;
  auto params = c.tensors("params");
  bool biases = c.flag("has_biases"), both = c.flag("bidirectional"), batch_first = c.flag("batch_first");
  int64_t layers = c.integer("num_layers"), directions = both ? 2 : 1;
  size_t each = biases ? 4 : 2, count = 0;
  TOROID_USER_CHECK(layers >= 1 && layers < 10000, "{}: num_layers must be positive, got {}", name, layers);
  count = static_cast<size_t>(layers * directions);
  bool projected = c0.defined() && params.size() == count * (each + 1);
  if (projected) ++each;
  TOROID_USER_CHECK(params.size() == count * each, "{}: expected {} parameter tensors, got {}", name, count * each, params.size());
  TOROID_USER_CHECK(c.real("dropout") == 0 || !c.flag("train"), "{}: dropout between layers is not supported when training", name);
  Tensor x = c.tensor("input"), h = h0, cells = c0;
  TOROID_USER_CHECK(x.dim() == 2 || x.dim() == 3, "{}: the input must have 2 or 3 dimensions, it has {}", name, x.dim());
  bool alone = x.dim() == 2;
  if (alone) {
    x = unsqueeze(x, 1);
    h = unsqueeze(h, 1);
    if (cells.defined()) cells = unsqueeze(cells, 1);
  } else if (batch_first) {
    x = transpose(x, 0, 1);
  }
  TOROID_USER_CHECK(h.dim() == 3, "{}: the initial state must have {} dimensions", name, alone ? 2 : 3);
  int64_t steps = fixed_extent(x, 0);
  TOROID_USER_CHECK(steps >= 1 && steps <= kMaxSteps, "{}: the sequence length must be between 1 and {}, got {}", name, kMaxSteps, steps);
  std::vector<State> last;
  for (int64_t layer = 0; layer < layers; ++layer) {
    std::vector<Tensor> outputs;
    for (int64_t d = 0; d < directions; ++d) {
      int64_t at = layer * directions + d;
      auto p = params.begin() + static_cast<int64_t>(each) * at;
      Weights w{p[0], p[1], biases ? p[2] : Tensor(), biases ? p[3] : Tensor(), projected ? p[static_cast<int64_t>(each) - 1] : Tensor()};
      State start{select(h, 0, at), cells.defined() ? select(cells, 0, at) : Tensor()};
      outputs.push_back(run_direction(x, start, w, cell, d == 1, last));
    }
    x = both ? cat(outputs, -1) : outputs[0];
  }
  std::vector<Tensor> hs, cs;
  for (auto& s : last) {
    hs.push_back(s.h);
    cs.push_back(s.c);
  }
  Network n{x, stack(hs, 0), cells.defined() ? stack(cs, 0) : Tensor()};
  if (alone) {
    n.output = squeeze(n.output, 1);
    n.h = squeeze(n.h, 1);
    if (n.c.defined()) n.c = squeeze(n.c, 1);
  } else if (batch_first) {
    n.output = transpose(n.output, 0, 1);
  }
  return n;
}

template <State (*kStep)(const Tensor&, const State&, const Weights&)>
std::vector<Tensor> network(const CallReader& c) {
  Network n = run(c, c.tensor("hx"), {}, kStep);
  return {n.output, n.h};
}

std::vector<Tensor> lstm(const CallReader& c) {
  auto hx = c.tensors("hx");
  TOROID_USER_CHECK(hx.size() == 2, "lstm: hx must be the two tensors h and c, got {}", hx.size());
  Network n = run(c, hx[0], hx[1], lstm_step);
  return {n.output, n.h, n.c};
}

Weights cell_weights(const CallReader& c) { return {c.tensor("w_ih"), c.tensor("w_hh"), c.opt_tensor("b_ih"), c.opt_tensor("b_hh"), {}}; }

template <State (*kStep)(const Tensor&, const State&, const Weights&)>
std::vector<Tensor> one_step(const CallReader& c) {
  Weights w = cell_weights(c);
  return {kStep(linear(c.tensor("input"), w.w_ih, w.b_ih), {c.tensor("hx"), {}}, w).h};
}

std::vector<Tensor> lstm_cell(const CallReader& c) {
  auto hx = c.tensors("hx");
  TOROID_USER_CHECK(hx.size() == 2, "lstm_cell: hx must be the two tensors h and c, got {}", hx.size());
  Weights w = cell_weights(c);
  State s = lstm_step(linear(c.tensor("input"), w.w_ih, w.b_ih), {hx[0], hx[1]}, w);
  return {s.h, s.c};
}

}  // namespace

void add_recurrent_rows(Table& t) {
  std::string head =
      ".input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, ";
  std::string tail = "bool batch_first) -> (Tensor, Tensor)";
  t.composite("gru" + head + tail, network<gru_step>);
  t.composite("rnn_tanh" + head + tail, network<simple_step<false>>);
  t.composite("rnn_relu" + head + tail, network<simple_step<true>>);
  t.composite(
      "lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool "
      "bidirectional, "
      "bool batch_first) -> (Tensor, Tensor, Tensor)",
      lstm);
  std::string cell = "_cell(Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> Tensor";
  t.composite("gru" + cell, one_step<gru_step>);
  t.composite("rnn_tanh" + cell, one_step<simple_step<false>>);
  t.composite("rnn_relu" + cell, one_step<simple_step<true>>);
  t.composite("lstm_cell(Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None) -> (Tensor, Tensor)",
              lstm_cell);
}

}  // namespace toroid::ops
