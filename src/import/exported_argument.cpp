#include "import/exported_argument.h"

#include "base/check.h"

namespace toroid::import {
namespace {

struct ScalarTypeRow {
  int64_t number;
  std::string_view name;
  std::optional<DType> dtype;
};
constexpr ScalarTypeRow kScalarTypes[] = {{1, "uint8", DType::U8},
                                          {2, "int8", DType::I8},
                                          {3, "int16", DType::I16},
                                          {4, "int32", DType::I32},
                                          {5, "int64", DType::I64},
                                          {6, "float16", DType::F16},
                                          {7, "float32", DType::F32},
                                          {8, "float64", DType::F64},
                                          {9, "complex32", std::nullopt},
                                          {10, "complex64", DType::C64},
                                          {11, "complex128", DType::C128},
                                          {12, "bool", DType::Bool},
                                          {13, "bfloat16", DType::BF16},
                                          {28, "uint16", DType::U16},
                                          {29, "float8_e4m3fn", std::nullopt},
                                          {30, "float8_e5m2", std::nullopt},
                                          {31, "float8_e4m3fnuz", std::nullopt},
                                          {32, "float8_e5m2fnuz", std::nullopt},
                                          {33, "float8_e8m0fnu", std::nullopt},
                                          {34, "uint32", DType::U32},
                                          {35, "uint64", DType::U64}};
constexpr int64_t kStridedLayout = 7;

std::string text(const Json& value) { return std::string(value.as_str()); }

// A value name; the empty one is kept free to mean "none".
std::string value_name(const Json& value) {
  if (value.as_str().empty()) value.refuse("expected a name, found an empty string");
  return text(value);
}

template <class T, class F>
std::vector<T> list(const Json& value, F read_item) {
  std::vector<T> out;
  out.reserve(value.size());
  for (size_t i = 0; i < value.size(); ++i) out.push_back(read_item(value[i]));
  return out;
}

int64_t as_int(const Json& value) { return value.as_int(); }
double as_double(const Json& value) { return value.as_double(); }
bool as_bool(const Json& value) { return value.as_bool(); }
std::string tensor_name(const Json& value) { return value_name(value.at("name")); }

template <class T, class F>
SymRef<T> sym_ref(const Json& value, std::string_view number_tag, F read_number) {
  const JsonUnion u = read_union(value);
  SymRef<T> out;
  if (u.tag == "as_name")
    out.name = value_name(u.value);
  else if (u.tag == number_tag)
    out.value = read_number(u.value);
  else
    value.refuse(fmt::format("expected as_name or {}, found {}", number_tag, u.tag));
  return out;
}

SymIntArg sym_int_ref(const Json& value) { return sym_ref<int64_t>(value, "as_int", as_int); }
SymFloatArg sym_float_ref(const Json& value) { return sym_ref<double>(value, "as_float", as_double); }
SymBoolArg sym_bool_ref(const Json& value) { return sym_ref<bool>(value, "as_bool", as_bool); }

std::optional<std::string> optional_tensor(const Json& value) {
  const JsonUnion u = read_union(value);
  if (u.tag == "as_none") return std::nullopt;
  if (u.tag != "as_tensor") value.refuse(fmt::format("expected as_tensor or as_none, found {}", u.tag));
  return tensor_name(u.value);
}

MemoryFormat memory_format(const Json& value) {
  const int64_t number = value.as_int();
  if (number < 0 || number > static_cast<int64_t>(MemoryFormat::Preserve)) value.refuse(fmt::format("memory format {} is unknown", number));
  return static_cast<MemoryFormat>(number);
}

DeviceRef device(const Json& value) {
  DeviceRef out;
  out.type = text(value.at("type"));
  if (const auto index = value.find("index"); index && !index->is_null()) out.index = index->as_int();
  return out;
}

}  // namespace

std::optional<DType> dtype_from_scalar_type(int64_t number) {
  for (const ScalarTypeRow& row : kScalarTypes)
    if (row.number == number) return row.dtype;
  return std::nullopt;
}

std::string scalar_type_name(int64_t number) {
  for (const ScalarTypeRow& row : kScalarTypes)
    if (row.number == number) return std::string(row.name);
  return fmt::format("ScalarType {}", number);
}

JsonUnion read_union(const Json& value) {
  if (!value.is_object() || value.size() != 1) value.refuse("expected an object with exactly one member");
  return {value.key(0), value.value(0)};
}

Argument named_tensor(const Json& value) { return {TensorArg{tensor_name(value)}}; }

Argument ArgumentReader::argument(const Json& value) { return {read(read_union(value))}; }

ArgumentValue ArgumentReader::read(const JsonUnion& arg) {
  const auto& [tag, v] = arg;
  if (tag == "as_tensor") return TensorArg{tensor_name(v)};
  if (tag == "as_int") return v.as_int();
  if (tag == "as_ints") return list<int64_t>(v, as_int);
  if (tag == "as_none") return NoneArg{};
  if (tag == "as_tensors") return TensorsArg{list<std::string>(v, tensor_name)};
  if (tag == "as_float") return v.as_double();
  if (tag == "as_floats") return list<double>(v, as_double);
  if (tag == "as_string") return text(v);
  if (tag == "as_strings") return list<std::string>(v, text);
  if (tag == "as_bool") return v.as_bool();
  if (tag == "as_bools") return list<bool>(v, as_bool);
  if (tag == "as_sym_int") return sym_int_ref(v);
  if (tag == "as_sym_ints") return list<SymIntArg>(v, sym_int_ref);
  if (tag == "as_sym_float") return sym_float_ref(v);
  if (tag == "as_sym_floats") return list<SymFloatArg>(v, sym_float_ref);
  if (tag == "as_sym_bool") return sym_bool_ref(v);
  if (tag == "as_sym_bools") return list<SymBoolArg>(v, sym_bool_ref);
  if (tag == "as_scalar_type") return ScalarTypeArg{v.as_int()};
  if (tag == "as_memory_format") return memory_format(v);
  if (tag == "as_layout") return LayoutArg{v.as_int()};
  if (tag == "as_device") return device(v);
  if (tag == "as_optional_tensor") return OptionalTensorArg{optional_tensor(v)};
  if (tag == "as_optional_tensors") return OptionalTensorsArg{list<std::optional<std::string>>(v, optional_tensor)};
  if (tag == "as_graph") return GraphArg{text(v.at("name")), std::make_shared<const ExportedGraph>(read_graph_(v.at("graph")))};
  if (tag == "as_custom_obj") return CustomObjArg{text(v.at("name")), text(v.at("class_fqn"))};
  if (tag == "as_operator") return OperatorArg{text(v)};
  if (tag == "as_complex") return ComplexArg{v.at("real").as_double(), v.at("imag").as_double()};
  if (tag == "as_nested_tensors")
    return NestedTensorsArg{list<std::vector<std::string>>(v, [](const Json& inner) { return list<std::string>(inner, tensor_name); })};
  if (tag == "as_int_lists") return list<std::vector<int64_t>>(v, [](const Json& inner) { return list<int64_t>(inner, as_int); });
  if (tag == "as_float_lists") return list<std::vector<double>>(v, [](const Json& inner) { return list<double>(inner, as_double); });
  if (tag == "as_string_to_argument") {
    DictArg out;
    for (size_t i = 0; i < v.size(); ++i) out.items.emplace_back(std::string(v.key(i)), argument(v.value(i)));
    return out;
  }
  v.refuse(fmt::format("argument tag \"{}\" is unknown; was the file written by a newer PyTorch?", tag));
}

std::string_view Argument::tag() const {
  constexpr std::string_view kTags[] = {"as_none",
                                        "as_tensor",
                                        "as_tensors",
                                        "as_optional_tensor",
                                        "as_optional_tensors",
                                        "as_int",
                                        "as_ints",
                                        "as_float",
                                        "as_floats",
                                        "as_string",
                                        "as_strings",
                                        "as_bool",
                                        "as_bools",
                                        "as_sym_int",
                                        "as_sym_ints",
                                        "as_sym_float",
                                        "as_sym_floats",
                                        "as_sym_bool",
                                        "as_sym_bools",
                                        "as_scalar_type",
                                        "as_memory_format",
                                        "as_layout",
                                        "as_device",
                                        "as_graph",
                                        "as_custom_obj",
                                        "as_operator",
                                        "as_complex",
                                        "as_nested_tensors",
                                        "as_int_lists",
                                        "as_float_lists",
                                        "as_string_to_argument"};
  static_assert(std::size(kTags) == std::variant_size_v<ArgumentValue>);
  return kTags[value.index()];
}

std::shared_ptr<const SymAst> ArgumentReader::expression(const Json& sym_expr, std::string& out_text) {
  const Json source = sym_expr.at("expr_str");
  out_text = text(source);
  auto& tree = expressions_[out_text];
  if (tree) return tree;
  try {
    tree = std::make_shared<const SymAst>(parse_sym_expr(out_text));
  } catch (const UserError& e) {
    source.refuse(e.what());
  }
  return tree;
}

SymInt ArgumentReader::sym_int(const Json& value) {
  const JsonUnion u = read_union(value);
  SymInt out;
  if (u.tag == "as_int") {
    out.value = u.value.as_int();
  } else if (u.tag == "as_expr") {
    out.is_expr = true;
    out.expr = expression(u.value, out.text);
    const auto hint = u.value.find("hint");
    if (hint && hint->is_object() && hint->size() == 1 && hint->key(0) == "as_int") {
      out.has_hint = true;
      out.value = hint->value(0).as_int();
    }
  } else {
    value.refuse(fmt::format("expected as_int or as_expr, found {}", u.tag));
  }
  return out;
}

SymFloat ArgumentReader::sym_float(const Json& value) {
  const JsonUnion u = read_union(value);
  SymFloat out;
  if (u.tag == "as_float")
    out.value = u.value.as_double();
  else if (u.tag == "as_expr")
    out.expr = expression(u.value, out.text);
  else
    value.refuse(fmt::format("expected as_float or as_expr, found {}", u.tag));
  return out;
}

SymBool ArgumentReader::sym_bool(const Json& value) {
  const JsonUnion u = read_union(value);
  SymBool out;
  if (u.tag == "as_bool")
    out.value = u.value.as_bool();
  else if (u.tag == "as_expr")
    out.expr = expression(u.value, out.text);
  else
    value.refuse(fmt::format("expected as_bool or as_expr, found {}", u.tag));
  return out;
}

TensorMeta ArgumentReader::tensor_meta(const Json& value) {
  TensorMeta out;
  const Json dtype = value.at("dtype"), layout = value.at("layout"), sizes = value.at("sizes"), strides = value.at("strides");
  const auto known = dtype_from_scalar_type(dtype.as_int());
  if (!known) dtype.refuse(fmt::format("dtype {} is not supported", scalar_type_name(dtype.as_int())));
  out.dtype = *known;
  if (layout.as_int() != kStridedLayout)
    layout.refuse(fmt::format("layout {} (sparse or opaque) is not supported; expected 7, dense", layout.as_int()));
  out.sizes = list<SymInt>(sizes, [this](const Json& s) { return sym_int(s); });
  out.strides = list<SymInt>(strides, [this](const Json& s) { return sym_int(s); });
  if (out.sizes.size() != out.strides.size()) value.refuse(fmt::format("{} sizes but {} strides", out.sizes.size(), out.strides.size()));
  if (const auto offset = value.find("storage_offset"); offset && !offset->is_null()) out.storage_offset = sym_int(*offset);
  if (const auto d = value.find("device"); d && !d->is_null()) out.device = device(*d);
  if (const auto grad = value.find("requires_grad"); grad && !grad->is_null()) out.requires_grad = grad->as_bool();
  return out;
}

}  // namespace toroid::import
