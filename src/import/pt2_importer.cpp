#include "import/pt2_importer.h"

#include <cstring>
#include <map>
#include <set>

#include "base/check.h"
#include "import/pt2_nodes.h"
#include "ops/autocast.h"

namespace toroid::import {
namespace {

// The tensors of the archive. Records of one storage share it here too.
class Weights {
 public:
  explicit Weights(std::shared_ptr<const Pt2Archive> archive) : archive_(std::move(archive)) {}

  Tensor tensor(const TensorRecord& record) {
    auto& storage = storages_[record.storage_id];
    if (!storage) storage = view(record.storage);
    auto impl = std::make_shared<TensorImpl>();
    impl->dtype = record.dtype;
    impl->sizes = record.sizes;
    impl->strides = record.strides;
    impl->offset = record.offset;
    impl->storage = storage;
    return Tensor(std::move(impl));
  }

 private:
  std::shared_ptr<Storage> view(std::span<const std::byte> bytes) {
    constexpr size_t kAlignment = 16;
    if (reinterpret_cast<uintptr_t>(bytes.data()) % kAlignment == 0) {
      auto storage = std::make_shared<Storage>();
      storage->data = const_cast<std::byte*>(bytes.data());  // never written: see own_written_inputs
      storage->bytes = bytes.size();
      storage->owner = std::const_pointer_cast<Pt2Archive>(archive_);
      return storage;
    }
    auto storage = allocate_storage(bytes.size());
    if (!bytes.empty()) std::memcpy(storage->data, bytes.data(), bytes.size());
    return storage;
  }

  std::shared_ptr<const Pt2Archive> archive_;
  std::map<size_t, std::shared_ptr<Storage>> storages_;
};

TensorType type_of(const Tensor& t) {
  TensorType type{t.dtype(), {t.sizes().begin(), t.sizes().end()}, {}};
  if (!t.is_contiguous()) type.strides.assign(t.strides().begin(), t.strides().end());
  return type;
}

graph::InputKind kind_of(InputKind kind) {
  switch (kind) {
    case InputKind::Parameter:
      return graph::InputKind::Parameter;
    case InputKind::Buffer:
      return graph::InputKind::Buffer;
    case InputKind::TensorConstant:
      return graph::InputKind::Constant;
    default:
      return graph::InputKind::User;
  }
}

// The input of the graph that a tensor was made from by views, if it is one.
const graph::Value* base_of(const graph::Value* v) {
  while (v && v->producer && !v->producer->args.empty()) {
    auto* self = std::get_if<graph::Value*>(&v->producer->args[0]);
    if (!self) return nullptr;
    v = *self;
  }
  return v;
}

// How the caller's tensors lie in memory: programs in files are run on tensors of any strides, which are copied where they are not
// row-major.
enum class UserLayout : uint8_t { RowMajor, AsStated };

class ProgramImporter {
 public:
  ProgramImporter(const ExportedProgram& program, const std::string& source, const HeldTensor& held, UserLayout layout)
      : program_(program),
        source_(source),
        held_(held),
        layout_(layout),
        graph_(std::make_unique<graph::Graph>()),
        symbols_(program_, *graph_),
        nodes_(*graph_, symbols_, findings_) {}

  std::unique_ptr<graph::Graph> run() {
    ops::NoAutocast as_exported;  // but for the program's own regions
    check_operations(program_.graph, source_);
    graph_->name = "main";
    add_inputs();
    nodes_.run(program_.graph);
    add_outputs();
    own_written_inputs();
    if (findings_.count == 0) return std::move(graph_);
    std::string list;
    for (auto& m : findings_.mismatches) list += "\n  " + m;
    fail<InternalError>("{}: {} results have other types than the file states:{}", source_, findings_.count, list);
  }

 private:
  void add_inputs() {
    size_t leaf = 0;
    for (auto& spec : program_.input_specs) {
      bool is_user = spec.kind == InputKind::User || spec.kind == InputKind::ConstantInput;
      std::string argument = is_user && leaf < program_.input_names.size() ? program_.input_names[leaf] : "";
      leaf += is_user;
      if (spec.kind == InputKind::ConstantInput || spec.kind == InputKind::Token) continue;
      auto* t = spec.arg.get<TensorArg>();
      if (spec.kind == InputKind::User && !t) {
        bool is_symbol = spec.arg.is<SymIntArg>() && spec.arg.get<SymIntArg>()->is_name();
        TOROID_USER_CHECK(!is_symbol, "{}: the input \"{}\" is a number that may change from call to call; export it as a tensor", source_,
                          argument);
        continue;  // a literal that the program was exported with
      }
      TOROID_USER_CHECK(t && spec.kind != InputKind::CustomObj,
                        "{}: the input \"{}\" is an object of a custom class, which Toroid cannot run", source_, spec.target);
      graph::Value* v = nullptr;
      if (spec.kind == InputKind::User) {
        auto meta = program_.graph.tensor_values.find(t->name);
        TOROID_USER_CHECK(meta != program_.graph.tensor_values.end(), "{}: the input \"{}\" has no type", source_, t->name);
        TensorType type = symbols_.type(meta->second);
        if (layout_ == UserLayout::AsStated) type.strides = strides_of(meta->second, type);
        v = graph_->add_input(std::move(type), graph::InputKind::User, argument.empty() ? t->name : argument);
      } else {
        Tensor data = held_(spec);
        v = graph_->add_input(type_of(data), kind_of(spec.kind), spec.target, data);
      }
      nodes_.bind(t->name, v);
    }
  }

  // None for what is row-major.
  std::vector<Expr> strides_of(const TensorMeta& meta, const TensorType& type) const {
    std::vector<Expr> out;
    for (auto& s : meta.strides) out.push_back(symbols_.expr(s));
    Expr dense = 1;
    bool row_major = true;
    for (size_t d = out.size(); d-- > 0; dense = dense * type.sizes[d])
      row_major = row_major && (type.sizes[d] == Expr(1) || out[d] == dense);
    for (const Expr& size : type.sizes) row_major = row_major || size == Expr(0);  // no elements: they lie any way
    return row_major ? std::vector<Expr>() : out;
  }

  int mutated_input(const OutputSpec& spec) const {
    for (size_t i = 0; i < graph_->inputs.size(); ++i) {
      const graph::Input& in = graph_->inputs[i];
      bool by_name = spec.kind == OutputKind::BufferMutation ? in.kind == graph::InputKind::Buffer : in.kind == graph::InputKind::Parameter;
      if (spec.kind == OutputKind::UserInputMutation ? in.value == nodes_.value_of(spec.target) : by_name && in.name == spec.target)
        return static_cast<int>(i);
    }
    fail<UserError>("{}: an output overwrites \"{}\", which is no input of the program", source_, spec.target);
  }

  void add_outputs() {
    for (auto& spec : program_.output_specs) {
      graph::Output out;
      switch (spec.kind) {
        case OutputKind::Token:
          continue;
        case OutputKind::BufferMutation:
        case OutputKind::ParameterMutation:
        case OutputKind::UserInputMutation:
          out.mutates = mutated_input(spec);
          break;
        case OutputKind::User:
        case OutputKind::Loss:
          break;
        default:
          fail<UserError>("{}: the program returns gradients; export the forward program alone", source_);
      }
      if (auto* t = spec.arg.get<TensorArg>())
        out.value = nodes_.value_of(t->name);
      else
        out.literal = literal(spec.arg);
      graph_->outputs.push_back(std::move(out));
    }
  }

  graph::NodeArg literal(const Argument& arg) const {
    if (auto* v = arg.get<int64_t>()) return Expr(*v);
    if (auto* v = arg.get<double>()) return *v;
    if (auto* v = arg.get<bool>()) return *v;
    if (auto* v = arg.get<std::string>()) return *v;
    if (arg.is<NoneArg>()) return std::monostate{};
    if (auto* v = arg.get<SymIntArg>()) {
      if (!v->is_name()) return Expr(v->value);
      auto it = program_.graph.sym_int_values.find(v->name);
      if (it != program_.graph.sym_int_values.end()) return symbols_.expr(it->second);
    }
    fail<UserError>("{}: the program returns {}; tensors, numbers, texts and None are supported", source_, arg.tag());
  }

  // The mapped file cannot be written: weights that the program overwrites get memory of their own.
  void own_written_inputs() {
    std::set<const graph::Value*> written;
    for (auto& o : graph_->outputs)
      if (o.mutates >= 0) written.insert(graph_->inputs[static_cast<size_t>(o.mutates)].value);
    for (auto& n : graph_->nodes)
      if (graph::is_mutating(*n->op))
        if (auto* self = std::get_if<graph::Value*>(&n->args[0])) written.insert(base_of(*self));
    for (auto& n : graph_->nodes)  // normalisations may update their statistics
      for (std::string_view name : {"running_mean", "running_var"})
        if (int at = n->op->schema.find(name); at >= 0)
          if (auto* statistics = std::get_if<graph::Value*>(&n->args[static_cast<size_t>(at)])) written.insert(base_of(*statistics));
    std::map<const Storage*, std::shared_ptr<Storage>> copies;
    for (auto& in : graph_->inputs)
      if (in.data.defined() && written.count(in.value)) copies.emplace(in.data.impl()->storage.get(), nullptr);
    for (auto& in : graph_->inputs) {
      if (!in.data.defined()) continue;
      auto it = copies.find(in.data.impl()->storage.get());
      if (it == copies.end()) continue;
      if (!it->second) it->second = copy_of(in.data.impl()->storage);
      in.data.impl()->storage = it->second;
    }
  }

  // Other memory of the same device with the same bytes.
  static std::shared_ptr<Storage> copy_of(const std::shared_ptr<Storage>& from) {
    if (from->device.is_cuda()) {
      const std::vector<int64_t> size = {static_cast<int64_t>(from->bytes)};
      return Tensor::from_blob(from->data, size, DType::U8, {}, from, from->device).to(Device::cpu()).to(from->device).impl()->storage;
    }
    std::shared_ptr<Storage> out = allocate_storage(from->bytes);
    if (from->bytes) std::memcpy(out->data, from->data, from->bytes);
    return out;
  }

  const ExportedProgram& program_;
  const std::string& source_;
  const HeldTensor& held_;
  UserLayout layout_;
  std::unique_ptr<graph::Graph> graph_;
  TypeFindings findings_;
  SymValues symbols_;
  NodeImporter nodes_;
};

}  // namespace

std::unique_ptr<graph::Graph> import_pt2(std::shared_ptr<const Pt2Archive> archive) {
  Weights weights(archive);
  const HeldTensor held = [&](const InputSpec& spec) { return weights.tensor(archive->tensor_of(spec)); };
  return ProgramImporter(archive->program(), archive->source(), held, UserLayout::RowMajor).run();
}

std::unique_ptr<graph::Graph> import_program(std::string_view json, const std::string& source, const HeldTensor& held) {
  const JsonDocument document = JsonDocument::parse(json, source);
  return ProgramImporter(parse_exported_program(document.root()), source, held, UserLayout::AsStated).run();
}

}  // namespace toroid::import
