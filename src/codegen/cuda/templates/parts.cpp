#include "codegen/cuda/templates/parts.h"

#include <algorithm>

#include "base/check.h"
#include "codegen/cuda/around.cu.h"
#include "codegen/simplify.h"

namespace toroid::codegen {
namespace {

using loop::Step;

// Declares a domain's first variables as what `at` says.
std::string named(std::span<const std::string> at) {
  std::string out;
  for (size_t v = 0; v < at.size(); ++v) out += fmt::format("const idx {} = {};\n", cuda_variable(v), at[v]);
  return out;
}

// Names what stands for the sums of a vector.
std::string named_sums(const loop::Body& body, const std::string& accumulators) {
  std::string out = fmt::format("const auto& accumulators = {};\n", accumulators);
  if (std::any_of(body.steps.begin(), body.steps.end(), [](auto& s) { return s.step == Step::Accumulate && s.value.i == 1; }))
    out += fmt::format("const auto& accumulators2 = {}2;\n", accumulators);
  return out;
}

// Terms of sums go to the rows of an array, in the order of their stores.
void name_terms(CudaWriter& writer, const loop::Body& body) {
  int count = 0;
  for (auto& s : body.steps)
    if (loop::stores_sum(s)) writer.use_pointer(s.buffer, fmt::format("terms[{}]", count++));
}

// Parts of whole vectors, each in a scope with its variables.
CudaPoints whole_vectors(const std::string& sums, std::span<const std::string> at, const std::string& points, bool wide, CudaEarly near,
                         CudaEarly far) {
  for (std::string* text : {&near.loads, &far.loads, &near.prefetches, &far.prefetches})
    if (!text->empty()) *text = "{\n" + named(at) + *text + "}\n";
  return {"{\n" + sums + named(at) + points + "}\n", wide, std::move(near), std::move(far)};
}

}  // namespace

CudaPoints cuda_epilogue(CudaArguments& arguments, loop::Nest nest, std::span<const std::string> places, const std::string& accumulators,
                         int width, bool early) {
  TOROID_CHECK(places.size() == nest.domain.vars.size(), "an epilogue over {} variables, of which {} are given", nest.domain.vars.size(),
               places.size());
  std::vector<std::string> at(places.begin(), places.end());
  if (width > 1 && split_in_runs(nest.domain, nest.body, width)) {
    at.push_back(fmt::format("{} % {}", at.back(), width));
    at[at.size() - 2] = fmt::format("{} / {}", at[at.size() - 2], width);
  }
  const CudaPlan plan = make_points_plan(nest, width);
  const std::string extent = cuda_size(arguments, plan.extent(plan.vector_var));
  CudaEarly near, far;
  CudaWriter writer(plan, arguments, "e");
  name_terms(writer, nest.body);
  const std::string points = early && plan.vector == width ? writer.points(near, far) : writer.points();
  const std::string values = named_sums(nest.body, accumulators) + (width == 1 ? "constexpr int l = 0;\n" : "");
  if (plan.vector == width) return whole_vectors(values, at, points, plan.wide, std::move(near), std::move(far));
  // One by one: their number may be no multiple of the width.
  std::vector<std::string> one = at;
  one.back() += " + l";
  return {fmt::format("{{\n{}#pragma unroll\nfor (int l = 0; l < {}; ++l) {{\nif ({} >= {}) break;\n{}{}}}\n}}\n", values, width,
                      one.back(), extent, named(one), points),
          plan.wide};
}

CudaPoints cuda_epilogue_around(CudaArguments& arguments, const loop::Nest& nest, std::span<const std::string> places,
                                const std::string& accumulators, int width, const CudaSideBySide& how, bool early) {
  const CudaPlan plan = make_points_plan(nest, width, how);
  CudaEarly near, far;
  CudaWriter writer(plan, arguments, "e");
  const std::string points = early ? writer.points(near, far) : writer.points();
  arguments.define(std::string(around_cu::kAround));
  TOROID_CHECK(std::none_of(nest.body.steps.begin(), nest.body.steps.end(), loop::stores_sum), "sums of columns whose rows begin anywhere");
  CudaPoints out = whole_vectors(named_sums(nest.body, accumulators), places, points, plan.wide, std::move(near), std::move(far));
  out.carried = writer.carried();
  return out;
}

std::string cuda_row_refusal(const loop::Nest& producer, size_t outer) {
  bool reduces = false, loops = false;
  for (size_t v = outer; v < producer.domain.vars.size(); ++v) (producer.domain.vars[v].reduction ? reduces : loops) = true;
  if (reduces && loops) return "it folds parts of a row";
  for (auto& s : producer.body.steps) {
    if (s.step == Step::Scan) return "a scan goes through its rows in order";
    if (s.step == Step::Store && s.mode != loop::StoreMode::Set) return "it adds to memory";
  }
  return "";
}

CudaPoints cuda_row(CudaArguments& arguments, const loop::Nest& producer, std::span<const std::string> at, int buffer,
                    const std::string& row, int threads) {
  const CudaPlan plan = make_row_plan(producer, at.size(), threads);
  return {"{\n" + named(at) + CudaWriter(plan, arguments, "p").row(buffer, row) + "}\n", plan.wide};
}

void run_in_clusters(KernelText& kernel, int blocks) {
  const size_t place = kernel.source.rfind("__launch_bounds__");
  TOROID_CHECK(place != std::string::npos);
  kernel.source.insert(place, fmt::format("__cluster_dims__({}, 1, 1) ", blocks));
}

std::string cuda_template_name(std::string name, const loop::Body& body) {
  const std::string ops = name_kernel(body);
  return ops.starts_with("fused_")                      ? name + ops.substr(5)
         : ops == "kernel_cast" || ops == "kernel_fill" ? name
                                                        : name + "_" + ops.substr(7);
}

std::string cuda_size(CudaArguments& arguments, const Expr& e) {
  const loop::Body none;
  StepEmitter emitter(none, Expr(0), {}, 1,
                      {.pointer = {},
                       .symbol = [&](const sym::Node& n) { return arguments.size(n); },
                       .vector_accumulator = {},
                       .scalar_accumulator = {},
                       .f16_is_bits = true});
  std::string text = emitter.index(e);
  arguments.need(emitter);
  return text;
}

std::string cuda_load(CudaArguments& arguments, DType t, const std::string& pointer) {
  if (t == DType::F32) return fmt::format("*({})", pointer);
  const std::string convert = fmt::format("s_cvt_{}_f32", name_of(t));
  arguments.need(convert);
  return fmt::format("{}(*({}))", convert, pointer);
}

std::vector<std::string> cuda_unflatten(CudaArguments& arguments, const std::string& flat, std::span<const Expr> sizes) {
  std::vector<std::string> out(sizes.size());
  Expr inner = 1;
  for (size_t d = sizes.size(); d-- > 0; inner = inner * sizes[d]) {
    out[d] = inner == Expr(1) ? flat : fmt::format("({} / {})", flat, cuda_size(arguments, inner));
    if (d > 0) out[d] = fmt::format("({} % {})", out[d], cuda_size(arguments, sizes[d]));
  }
  return out;
}

std::string cuda_address(CudaArguments& arguments, const Expr& offset, std::span<const Expr> strides, std::span<const std::string> at) {
  std::string out = offset == Expr(0) ? "" : cuda_size(arguments, offset);
  for (size_t d = 0; d < strides.size(); ++d) {
    if (strides[d] == Expr(0)) continue;
    out += out.empty() ? "" : " + ";
    out += strides[d] == Expr(1) ? fmt::format("(idx)({})", at[d]) : fmt::format("(idx)({}) * {}", at[d], cuda_size(arguments, strides[d]));
  }
  return out.empty() ? "0" : out;
}

}  // namespace toroid::codegen
