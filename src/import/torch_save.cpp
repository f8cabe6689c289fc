#include "import/torch_save.h"

#include <unordered_map>

#include "base/check.h"
#include "import/pickle.h"
#include "import/zip.h"

namespace toroid::import {
namespace {

constexpr int kMaxDepth = 64;
// Shared objects let a short file describe a huge tree: what is visited is charged against this many bytes.
constexpr size_t kMaxBytes = size_t{1} << 29;

struct DTypeRow {
  std::string_view storage_class;  // empty: there is none, only the dtype name exists
  std::string_view dtype_name;
  DType dtype;
};
constexpr DTypeRow kDTypes[] = {{"FloatStorage", "float32", DType::F32},
                                {"DoubleStorage", "float64", DType::F64},
                                {"HalfStorage", "float16", DType::F16},
                                {"BFloat16Storage", "bfloat16", DType::BF16},
                                {"LongStorage", "int64", DType::I64},
                                {"IntStorage", "int32", DType::I32},
                                {"ShortStorage", "int16", DType::I16},
                                {"CharStorage", "int8", DType::I8},
                                {"ByteStorage", "uint8", DType::U8},
                                {"BoolStorage", "bool", DType::Bool},
                                {"ComplexFloatStorage", "complex64", DType::C64},
                                {"ComplexDoubleStorage", "complex128", DType::C128},
                                {"", "uint16", DType::U16},
                                {"", "uint32", DType::U32},
                                {"", "uint64", DType::U64}};

class TorchSaveReader {
 public:
  TorchSaveReader(std::span<const std::byte> bytes, std::string_view source) : zip_(ZipArchive::open(bytes, std::string(source))) {
    for (const ZipEntry& e : zip_.entries())
      if (e.name == "data.pkl" || e.name.ends_with("/data.pkl")) root_ = e.name.substr(0, e.name.size() - 8);
    const ZipEntry* order = zip_.find(root_ + "byteorder");
    TOROID_USER_CHECK(!order || order->text() == "little", "{}: byte order \"{}\" is not supported; expected little", source,
                      order->text());
  }

  std::vector<TensorRecord> run() {
    const Pickle pickle = Pickle::parse(zip_.at(root_ + "data.pkl").data, zip_.source());
    walk(pickle.root(), "", 0);
    return std::move(out_);
  }

 private:
  template <class... A>
  [[noreturn]] void refuse(std::string_view name, fmt::format_string<A...> f, A&&... a) const {
    fail<UserError>("{}: object \"{}\": {}", zip_.source(), name, fmt::format(f, std::forward<A>(a)...));
  }

  static std::string join(const std::string& name, const PickleValue* key) {
    const std::string part = key->kind == PickleKind::Int ? std::to_string(key->integer) : std::string(key->text);
    return name.empty() ? part : name + "." + part;
  }

  void walk(const PickleValue& v, const std::string& name, int depth) {
    if (depth > kMaxDepth) refuse(name, "more than {} levels of nesting", kMaxDepth);
    charged_ += name.size() + 256;
    if (charged_ > kMaxBytes) refuse(name.substr(0, 200), "too many values, or names too long");
    switch (v.kind) {
      case PickleKind::Tuple:
      case PickleKind::List:
        for (size_t i = 0; i < v.items.size(); ++i)
          walk(*v.items[i], name.empty() ? std::to_string(i) : fmt::format("{}.{}", name, i), depth + 1);
        return;
      case PickleKind::Dict:
        return walk_pairs(v, name, depth);
      case PickleKind::Call:
        if (v.is_call_of("collections", "OrderedDict")) return walk_pairs(v, name, depth);
        return tensor(v, name);
      case PickleKind::Persistent:
        refuse(name, "a bare storage, expected a tensor");
      default:
        return;
    }
  }

  void walk_pairs(const PickleValue& v, const std::string& name, int depth) {
    for (const auto& [key, value] : v.pairs) {
      if (key->kind != PickleKind::String && key->kind != PickleKind::Int) refuse(name, "expected keys that are strings or integers");
      walk(*value, join(name, key), depth + 1);
    }
  }

  const PickleValue& argument(const PickleValue& call, size_t i, PickleKind kind, const std::string& name) const {
    const PickleValue& arguments = *call.items[1];
    if (i >= arguments.items.size() || arguments.items[i]->kind != kind)
      refuse(name, "argument {} of {} is not as expected", i, call.items[0]->name);
    return *arguments.items[i];
  }

  void tensor(const PickleValue& v, const std::string& name) {
    const PickleValue* call = &v;
    if (v.is_call_of("torch._utils", "_rebuild_parameter")) call = &argument(v, 0, PickleKind::Call, name);
    const bool v3 = call->is_call_of("torch._utils", "_rebuild_tensor_v3");
    if (!v3 && !call->is_call_of("torch._utils", "_rebuild_tensor_v2")) {
      const PickleValue& callee = *call->items[0];
      refuse(name, "{}.{} is not supported; expected a plain tensor or parameter", callee.text, callee.name);
    }
    TensorRecord record;
    record.name = name;
    storage(argument(*call, 0, PickleKind::Persistent, name), record);
    if (v3) record.dtype = dtype_by_name(argument(*call, 6, PickleKind::Global, name), name);
    record.offset = argument(*call, 1, PickleKind::Int, name).integer;
    record.sizes = integers(argument(*call, 2, PickleKind::Tuple, name), name);
    record.strides = integers(argument(*call, 3, PickleKind::Tuple, name), name);
    check_record(record, zip_.source());
    out_.push_back(std::move(record));
  }

  std::vector<int64_t> integers(const PickleValue& tuple, const std::string& name) const {
    std::vector<int64_t> out;
    for (const PickleValue* item : tuple.items) {
      if (item->kind != PickleKind::Int) refuse(name, "expected integer sizes and strides");
      out.push_back(item->integer);
    }
    return out;
  }

  DType dtype_by_name(const PickleValue& global, const std::string& name) const {
    for (const DTypeRow& row : kDTypes)
      if (global.is_global("torch", row.dtype_name)) return row.dtype;
    refuse(name, "dtype {}.{} is not supported", global.text, global.name);
  }

  // The persistent id is ('storage', class, key, device, element count).
  void storage(const PickleValue& persistent, TensorRecord& record) {
    const PickleValue& id = *persistent.items[0];
    if (id.kind != PickleKind::Tuple || id.items.size() != 5 || id.items[0]->text != "storage" || id.items[1]->kind != PickleKind::Global ||
        id.items[2]->kind != PickleKind::String)
      refuse(record.name, "expected a storage of five fields");
    const PickleValue& type = *id.items[1];
    const bool untyped = type.is_global("torch.storage", "UntypedStorage");
    bool known = untyped;
    for (const DTypeRow& row : kDTypes) {
      if (row.storage_class.empty() || !type.is_global("torch", row.storage_class)) continue;
      record.dtype = row.dtype;
      known = true;
    }
    if (!known) refuse(record.name, "storage class {}.{} is not supported", type.text, type.name);
    const std::string_view key = id.items[2]->text;
    record.storage = zip_.at(fmt::format("{}data/{}", root_, key)).data;
    record.storage_id = storage_ids_.emplace(key, storage_ids_.size()).first->second;
  }

  ZipArchive zip_;
  std::string root_;
  std::vector<TensorRecord> out_;
  std::unordered_map<std::string_view, size_t> storage_ids_;
  size_t charged_ = 0;
};

}  // namespace

std::vector<TensorRecord> read_torch_save(std::span<const std::byte> bytes, std::string_view source) {
  return TorchSaveReader(bytes, source).run();
}

}  // namespace toroid::import
