// Random loop bodies, compiled and interpreted. Values that a small error could flip (what is compared or made an integer) come from
// exact arithmetic only.
#include "kernel_runner.h"

namespace toroid::codegen {
namespace {

class RandomBody {
 public:
  explicit RandomBody(unsigned seed) : random_(seed), builder_(body) { make(); }

  loop::Domain domain;
  loop::Body body;
  std::vector<BufferSpec> buffers;

 private:
  struct Value {
    S s;
    int rounding;  // 0: exact small multiples of 1/8; each addition or product adds; above 4: not exact
    bool varies;
  };

  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int percent) { return pick(100) < percent; }

  void make() {
    int count = 1 + pick(4);
    for (int i = 0; i < count; ++i) {
      constexpr int kExtents[] = {1, 2, 3, 5, 8, 16, 17, 33, 48, 70};
      int64_t n = kExtents[pick(count > 2 ? 7 : 10)];
      bool reduction = chance(35);
      domain.vars.push_back({sym::loop_symbol((reduction ? "r" : "i") + std::to_string(i), n), reduction});
      reduces_ = reduces_ || reduction;
    }
    for (int i = 0; i < 2 + pick(2); ++i) values_.push_back({load(DType::F32), 0, true});
    for (int i = 0, n = 3 + pick(8); i < n; ++i) step();
    for (int i = 0, n = 1 + pick(2); i < n; ++i)
      store(values_[values_.size() - 1 - static_cast<size_t>(pick(std::min<int>(3, static_cast<int>(values_.size()))))]);
  }

  // An injective address over the chosen variables in a random order of dimensions, or a broadcast one.
  Expr address(bool for_store, bool over_reduction, int64_t& numel) {
    std::vector<size_t> order;
    for (size_t i = 0; i < domain.vars.size(); ++i)
      if (over_reduction || !domain.vars[i].reduction) order.push_back(i);
    if (chance(30)) std::shuffle(order.begin(), order.end(), random_);
    Expr at = 0;
    int64_t scale = !for_store && chance(15) ? 2 : 1, extra = for_store ? 0 : pick(3);
    numel = scale;
    for (size_t i = order.size(); i-- > 0;) {
      if (!for_store && chance(15)) continue;
      const loop::Var& v = domain.vars[order[i]];
      int64_t n = v.extent().constant();
      Expr along = chance(8) ? Expr(n - 1) - v.symbol : v.symbol;
      at = at + along * numel;
      numel *= n;
    }
    numel += extra;
    if (for_store && chance(10)) {  // through a division
      int64_t half = (numel + 1) / 2;
      at = sym::floor_div(at, 2) + sym::mod(at, 2) * half;
      numel = 2 * half;
    }
    return at + extra;
  }

  int new_buffer(DType t, int64_t numel, double lo, double hi) {
    buffers.push_back({static_cast<int>(buffers.size()), t, numel, lo, hi});
    return buffers.back().id;
  }

  S load(DType t) {
    int64_t numel = 0;
    Expr at = address(false, true, numel);
    S mask;
    bool masked = chance(20);
    if (masked) {
      const loop::Var& v = domain.vars[static_cast<size_t>(pick(static_cast<int>(domain.vars.size())))];
      S i = builder_.index(v.symbol + pick(3));
      mask = i < lit_as(i, DType::I64, Number::of(int64_t{1 + pick(static_cast<int>(v.extent().constant()) + 2)}));
      builder_.push_mask(mask);
    }
    S value;
    if (chance(12)) {  // indirect
      S i = builder_.load(new_buffer(DType::I64, numel, 0, 40), DType::I64, at);
      value = builder_.load(new_buffer(t, 40 * 3 + 1, -16, 16), t, builder_.as_index(i, 0, 39) * 3 + pick(2));
    } else {
      value = builder_.load(new_buffer(t, numel, -16, 16), t, at);
    }
    if (masked) builder_.pop_mask();
    // Contents are arbitrary: make them multiples of 1/8 in [-2, 2].
    return floor(value) * 0.125;
  }

  Value value() { return values_[static_cast<size_t>(pick(static_cast<int>(values_.size())))]; }

  void step() {
    Value a = value(), b = value();
    int rounding = a.rounding + b.rounding + 1;
    switch (pick(reduces_ ? 16 : 10)) {
      case 0:
        values_.push_back({a.s + b.s, rounding, true});
        break;
      case 1:
        values_.push_back({(a.s - b.s) * 0.5, 9, true});
        break;
      case 2:
        values_.push_back({tanh(a.s) * b.s, 9, true});
        break;
      case 3:
        values_.push_back({sigmoid(a.s), 9, true});
        break;
      case 4:
        values_.push_back({exp(tanh(a.s)), 9, true});
        break;
      case 5:
        values_.push_back({maximum(a.s, b.s), std::max(a.rounding, b.rounding), true});
        break;
      case 6:
        if (rounding <= 5) values_.push_back({select(a.s < b.s, b.s, a.s * 0.5), 9, true});
        break;
      case 7:
        values_.push_back({cast(cast(tanh(a.s), DType::F64) * 0.75, DType::F32), 9, true});
        break;
      case 8:
        if (a.rounding <= 4)
          values_.push_back(
              {cast(cast(a.s * 8.0, DType::I32) & lit_as(a.s, DType::I32, Number::of(int64_t{15})), DType::F32) * 0.125, 9, true});
        break;
      case 9:
        values_.push_back({load(DType::F32), 0, true});
        break;
      case 10: {
        int64_t n = loop::reduction_size(domain).constant();
        values_.push_back({builder_.reduce(loop::Reduction::Sum, a.s) * (1.0 / static_cast<double>(n)), 9, false});
        break;
      }
      case 11:
        values_.push_back({builder_.reduce(chance(50) ? loop::Reduction::Max : loop::Reduction::Min, a.s), a.rounding, false});
        break;
      case 12:
        if (a.rounding <= 4)
          values_.push_back(
              {cast(builder_.reduce(chance(50) ? loop::Reduction::ArgMax : loop::Reduction::ArgMin, a.s), DType::F32), 9, false});
        break;
      case 13: {
        int64_t n = loop::reduction_size(domain).constant();
        values_.push_back({builder_.scan(loop::Reduction::Sum, a.s) * (1.0 / static_cast<double>(n)), 9, true});
        break;
      }
      case 14: {
        using loop::Reduction;
        bool exact = a.rounding <= 4;
        constexpr Reduction kFolds[] = {Reduction::Max, Reduction::Min, Reduction::LogSumExp, Reduction::ArgMax, Reduction::ArgMin};
        int kind = pick(exact ? 5 : 3);
        S scan = builder_.scan(kFolds[kind], a.s);
        values_.push_back({cast(scan, DType::F32) * 0.125, 9, true});
        break;
      }
      default:
        if (rounding <= 5) {
          S any = builder_.reduce(chance(50) ? loop::Reduction::Any : loop::Reduction::All, a.s < b.s);
          values_.push_back({select(any, a.s, b.s), 9, true});
        }
    }
  }

  void store(const Value& v) {
    std::vector<bool> varies = loop::varies_over_reduction(domain, body);
    bool over = varies[static_cast<size_t>(v.s.id)];
    int64_t numel = 0;
    Expr at = address(true, over, numel);
    DType t = chance(15) ? DType::BF16 : DType::F32;
    if (chance(10)) {
      S i = builder_.load(new_buffer(DType::I64, numel, 0, 20), DType::I64, at);
      S x = v.rounding <= 4 ? v.s : floor(tanh(v.s) * 0.0);
      if (x.id != v.s.id || t == DType::BF16) return store_plain(v, at, numel, t);
      builder_.store(new_buffer(t, 20, -1, 1), t, builder_.as_index(i, 0, 19), x, loop::StoreMode::Max);
      return;
    }
    store_plain(v, at, numel, t);
  }
  void store_plain(const Value& v, const Expr& at, int64_t numel, DType t) { builder_.store(new_buffer(t, numel, 0, 1), t, at, v.s); }

  std::mt19937 random_;
  loop::BodyBuilder builder_;
  std::vector<Value> values_;
  bool reduces_ = false;
};

class RandomLoop : public testing::TestWithParam<int> {};

TEST_P(RandomLoop, CompiledIsInterpreted) {
  for (unsigned i = 0; i < 50; ++i) {
    unsigned seed = static_cast<unsigned>(GetParam()) * 50 + i;
    RandomBody random(seed);
    loop::eliminate_dead(random.body);
    loop::verify(random.domain, random.body, "random");
    KernelRunner r;
    r.seed = seed;
    r.tolerance = 2e-4;
    device::Isa isa = static_cast<device::Isa>(2 - static_cast<int>(seed % 3));
    if (isa > device::host().isa) isa = device::host().isa;
    if (r.has_cpu()) r.check_on(isa, random.domain, random.body, random.buffers);
    const unsigned every = r.has_gpu() ? 1 : 20;  // compiling alone finds less
    if (r.has_cuda() && seed % every == 0) r.check_on_gpu(random.domain, random.body, random.buffers);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    // The text form gives the same loop back.
    std::string text = loop::to_string(random.domain, random.body);
    loop::Nest again = loop::parse(text);
    ASSERT_EQ(loop::to_string(again.domain, again.body), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomLoop, testing::Range(0, 10));

}  // namespace
}  // namespace toroid::codegen
