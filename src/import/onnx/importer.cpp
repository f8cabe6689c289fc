#include "import/onnx/importer.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "base/log.h"
#include "graph/bind.h"
#include "import/onnx/builder.h"
#include "import/onnx/tensors.h"
#include "tensor/tensor_impl.h"

namespace toroid::import::onnx {
namespace {

std::string_view kind_name(TypeKind kind) {
  switch (kind) {
    case TypeKind::Map:
      return "a map";
    case TypeKind::SparseTensor:
      return "a sparse tensor";
    default:
      return "of no type, or of sequences within sequences";
  }
}

// UserError for a tensor that no memory holds: its bytes are more than numbers count.
void check_sizes(const graph::Graph& g, const std::string& source) {
  constexpr int64_t kMostElements = int64_t{1} << 48;
  auto check = [&](const graph::Value* v, const std::string& where) {
    int64_t n = 1;
    for (auto& s : v->type.sizes) {
      int64_t size = s.maybe_constant().value_or(1);
      TOROID_USER_CHECK(size <= 0 || n <= kMostElements / size, "{}: {} is {}, which has more elements than any memory", source, where,
                        to_string(v->type));
      n *= size;
    }
  };
  for (auto& in : g.inputs) check(in.value, fmt::format("the input \"{}\"", in.name));
  for (auto& n : g.nodes) {
    for (auto* v : n->results) check(v, fmt::format("a result of \"{}\"", n->where));
    for (auto& r : n->regions) check_sizes(*r, source);
  }
}

std::string declared_text(const ValueInfo& v) {
  std::string sizes;
  for (auto& d : v.dims.value_or(std::vector<Dim>()))
    sizes += (sizes.empty() ? "" : ", ") + (d.value ? std::to_string(*d.value) : d.name.empty() ? "?" : d.name);
  return element_name(v.element) + (v.dims ? "[" + sizes + "]" : "");
}

class ModelImporter {
 public:
  // fixed_sizes: sizes that may change are those of the given inputs.
  ModelImporter(std::shared_ptr<const ModelFile> file, std::span<const Item> inputs, bool fixed_sizes)
      : file_(std::move(file)),
        given_(inputs),
        fixed_sizes_(fixed_sizes),
        for_these_(fixed_sizes),
        graph_(std::make_unique<graph::Graph>()),
        builder_(*graph_, file_) {}

  std::unique_ptr<graph::Graph> run() {
    const ModelProto& model = file_->model();
    check_values(*file_);
    check_operators(*file_);
    graph_->name = "main";
    scope_.opsets = &model.opsets;
    add_inputs(model.graph);
    builder_.run(model.graph, scope_);
    for (auto& o : model.graph.outputs) add_output(o);
    check_pinned();
    check_sizes(*graph_, file_->source());
    return std::move(graph_);
  }
  bool for_these() const { return for_these_ || !builder_.known().pinned().empty(); }

 private:
  // Inputs that have an initializer are weights (older files list all of them).
  void add_inputs(const GraphProto& graph) {
    std::set<std::string> weights;
    for (auto& t : graph.initializers) {
      TOROID_USER_CHECK(weights.insert(t.name).second, "{}: there are two initializers \"{}\"", file_->source(), t.name);
      scope_.values[t.name] = weight(t.name, builder_.constant(t));
    }
    size_t place = 0;
    for (auto* in : user_inputs(graph)) {
      const Item* given = place < given_.size() ? &given_[place] : nullptr;
      ++place;
      scope_.values[in->name] =
          in->kind == TypeKind::Tensor ? Item(add_input(*in, given ? tensor_of(*given, named(*in)) : Tensor())) : add_item(*in, given);
    }
  }

  Tensor add_input(const ValueInfo& in, const Tensor& given) {
    graph::Value* v = graph_->add_input(type_of(in, given), graph::InputKind::User, in.name);
    if (given.defined()) builder_.known().offer(v, given);
    return builder_.recorder().proxy(v);
  }

  std::string named(const ValueInfo& v) const { return file_->source() + ": " + v.name; }

  // A sequence, as long as it is given, or an optional value, there or not as it is given.
  Item add_item(const ValueInfo& in, const Item* given) {
    bool fits = given && (in.kind == TypeKind::Optional || std::holds_alternative<std::vector<Tensor>>(*given));
    TOROID_USER_CHECK(fits, "{}: the input \"{}\" is {}; Toroid's programs take tensors", file_->source(), in.name,
                      in.kind == TypeKind::Optional ? "an optional value" : "a sequence");
    for_these_ = true;
    ValueInfo element = in;
    element.dims.reset();  // those that are given
    return with_tensors(*given, [&](const Tensor& t) { return add_input(element, t); });
  }

  void add_output(const ValueInfo& o) {
    const Item* found = scope_.find(o.name);
    TOROID_USER_CHECK(found, "{}: no node computes the output \"{}\"", file_->source(), o.name);
    if (o.kind == TypeKind::Tensor) tensor_of(*found, named(o));
    with_tensors(*found, [&](const Tensor& t) {
      check_declared(o, t);
      graph_->outputs.push_back({builder_.recorder().value_of(t), {}, -1});
      return t;
    });
  }

  // Against what the file says of an output. Exporters are known to state wrong sizes, which only the log tells.
  void check_declared(const ValueInfo& o, const Tensor& t) {
    const auto contradiction = [&] {
      return fmt::format("{}: the output \"{}\" is declared as {}, its nodes compute {}", file_->source(), o.name, declared_text(o),
                         to_string(builder_.recorder().value_of(t)->type));
    };
    if (t.dtype() != dtype_of(o.element)) fail<UserError>("{}", contradiction());
    if (o.kind == TypeKind::Tensor && o.dims && !may_be(*o.dims, sizes_of(t))) log(Artifact::Dynamic, contradiction());
  }

  // Whether sizes can be those that are declared: two that are numbers must be the same.
  static bool may_be(const std::vector<Dim>& declared, const Sizes& sizes) {
    bool same = declared.size() == sizes.size();
    for (size_t d = 0; same && d < sizes.size(); ++d) {
      const auto& stated = declared[d].value;
      const auto found = sizes[d].maybe_constant();
      same = !stated || *stated < 0 || !found || *found == *stated;
    }
    return same;
  }

  // Numbers that sizes, axes and scales are made of stay constants, which nothing but their readers keeps.
  Tensor weight(const std::string& name, const Tensor& data) {
    if (!is_float(data.dtype()) || data.numel() <= 1) return data;
    TensorType type{data.dtype(), {data.sizes().begin(), data.sizes().end()}, {}};
    return builder_.recorder().proxy(graph_->add_input(std::move(type), graph::InputKind::Parameter, name, data));
  }

  TensorType type_of(const ValueInfo& in, const Tensor& given) {
    TensorType type{*dtype_of(in.element), {}, {}};
    if (!in.dims) {
      TOROID_USER_CHECK(given.defined(),
                        "{}: the input \"{}\" has no sizes, not even their number; give the inputs when the model is loaded",
                        file_->source(), in.name);
      for (int64_t s : given.sizes()) type.sizes.push_back(s);
      for_these_ = true;
      return type;
    }
    for (size_t d = 0; d < in.dims->size(); ++d) {
      const Dim& dim = (*in.dims)[d];
      bool is_number = dim.value && *dim.value >= 0;  // some writers have -1 for a size that may change
      if (fixed_sizes_ && given.defined() && !is_number) {
        TOROID_USER_CHECK(given.dim() == static_cast<int64_t>(in.dims->size()), "{}: the input \"{}\" has {} dimensions; {} are expected",
                          file_->source(), in.name, given.dim(), in.dims->size());
        type.sizes.push_back(given.sizes()[d]);
        continue;
      }
      if (is_number) {
        type.sizes.push_back(*dim.value);
        continue;
      }
      const bool is_named = !dim.name.empty() && dim.name != "?";
      type.sizes.push_back(is_named ? symbol(dim.name) : new_symbol(fmt::format("{}_{}", in.name, d)));
    }
    return type;
  }

  // Dimensions of one name have one size.
  Expr symbol(const std::string& name) {
    auto it = symbols_.find(name);
    return it != symbols_.end() ? it->second : symbols_[name] = new_symbol(name);
  }
  Expr new_symbol(std::string name) {
    while (graph_->find_symbol(name)) name += "_";
    Expr e = sym::symbol(std::move(name), 1, sym::kInf - 1);
    graph_->symbols.push_back({e, false});
    return e;
  }

  // The program is right for these contents alone.
  void check_pinned() {
    DispatchScope dispatch(builder_.recorder());
    for (auto* v : builder_.known().pinned()) {
      Tensor same = op("eq.Tensor", builder_.recorder().proxy(const_cast<graph::Value*>(v)), builder_.known().offered(v));
      auto input = std::find_if(graph_->inputs.begin(), graph_->inputs.end(), [&](auto& in) { return in.value == v; });
      std::string message = fmt::format(
          "{}: the input \"{}\" has other contents than those that the model was compiled for, from which sizes follow; load the model "
          "again for these",
          file_->source(), input->name);
      op_all("_assert_async.msg", op("all", same), message);
    }
  }

  std::shared_ptr<const ModelFile> file_;
  std::span<const Item> given_;
  bool fixed_sizes_, for_these_;
  std::unique_ptr<graph::Graph> graph_;
  GraphBuilder builder_;
  Scope scope_;
  std::map<std::string, Expr> symbols_;
};

}  // namespace

std::vector<const ValueInfo*> user_inputs(const GraphProto& graph) {
  std::set<std::string_view> weights;
  for (auto& t : graph.initializers) weights.insert(t.name);
  std::vector<const ValueInfo*> out;
  for (auto& in : graph.inputs)
    if (!weights.count(in.name)) out.push_back(&in);
  return out;
}

namespace {

bool has_open_sizes(const GraphProto& graph) {
  return std::any_of(graph.inputs.begin(), graph.inputs.end(), [](const ValueInfo& in) {
    return in.dims && std::any_of(in.dims->begin(), in.dims->end(), [](const Dim& d) { return !d.value || *d.value < 0; });
  });
}

// What the program assumes of open sizes, as that two of them are equal where they meet, must be so for the given inputs.
void check_assumed(const graph::Graph& g, std::span<const Item> inputs) {
  std::vector<const TensorType*> types;
  for (auto& in : g.inputs)
    if (in.kind == graph::InputKind::User) types.push_back(&in.value->type);
  graph::BoundSymbols sizes;
  size_t next = 0;
  for (auto& item : inputs)
    with_tensors(item, [&](const Tensor& t) {
      const TensorType* type = next < types.size() ? types[next++] : nullptr;
      if (type && type->dim() == t.dim()) graph::bind_sizes(sizes, *type, t.sizes());
      return t;
    });
  graph::check_sizes(g, sizes);
}

}  // namespace

void check_values(const ModelFile& file) {
  const GraphProto& graph = file.model().graph;
  for (auto* list : {&graph.inputs, &graph.outputs})
    for (auto& v : *list) {
      std::string what = fmt::format("{}: the {} \"{}\"", file.source(), list == &graph.inputs ? "input" : "output", v.name);
      bool has = v.kind == TypeKind::Tensor || v.kind == TypeKind::Sequence || v.kind == TypeKind::Optional;
      TOROID_USER_CHECK(has, "{} is {}; Toroid's programs take and return tensors", what, kind_name(v.kind));
      need_dtype(v.element, what);
    }
}

std::unique_ptr<graph::Graph> import_model(std::shared_ptr<const ModelFile> file, std::span<const Item> inputs, bool* for_these) {
  auto import = [&](bool fixed_sizes) {
    ModelImporter importer(file, inputs, fixed_sizes);
    auto graph = importer.run();
    if (!fixed_sizes) check_assumed(*graph, inputs);
    if (for_these) *for_these = importer.for_these();
    return graph;
  };
  try {
    return import(false);
  } catch (const UserError& e) {
    if (inputs.empty() || !has_open_sizes(file->model().graph)) throw;
    log(Artifact::Dynamic, fmt::format("the sizes of this model cannot stay open, and are those of the given inputs: {}", e.what()));
  }
  return import(true);
}

}  // namespace toroid::import::onnx
