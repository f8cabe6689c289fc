#include "import/pt2_archive.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "import/exported_argument.h"
#include "import/torch_save.h"
#include "import/zip.h"

namespace toroid::import {
namespace {

constexpr std::string_view kFlatProgram = "serialized_exported_program.json";

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.remove_suffix(1);
  return text;
}

const TensorRecord* find_record(std::span<const TensorRecord> sorted, std::string_view name) {
  const auto at =
      std::lower_bound(sorted.begin(), sorted.end(), name, [](const TensorRecord& r, std::string_view n) { return r.name < n; });
  return at != sorted.end() && at->name == name ? &*at : nullptr;
}

// Static numbers of a stored tensor's meta.
std::vector<int64_t> numbers(const std::vector<SymInt>& values, const Json& where) {
  std::vector<int64_t> out;
  for (const SymInt& v : values) {
    if (!v.is_int()) where.refuse("a stored tensor must have static sizes and strides");
    out.push_back(v.value);
  }
  return out;
}

}  // namespace

class Pt2Reader {
 public:
  Pt2Reader(Pt2Archive& out, std::span<const std::byte> bytes) : out_(out), zip_(ZipArchive::open(bytes, out.source_)) {}

  void run(std::string_view wanted) {
    if (const ZipEntry* flat = zip_.find(kFlatProgram))
      read_flat(*flat);
    else
      read_folders(wanted);
    check_inputs();
  }

 private:
  void read_flat(const ZipEntry& program) {
    out_.layout_ = Pt2Layout::Flat;
    out_.models_ = {"model"};
    parse_program(program);
    // Versions up to 2.3 gave the same bytes another extension.
    pickled_table(first_of({"serialized_state_dict.pt", "serialized_state_dict.json"}), out_.weights_);
    pickled_table(first_of({"serialized_constants.pt", "serialized_constants.json"}), out_.constants_);
    if (const ZipEntry* samples = zip_.find("serialized_example_inputs.pt")) out_.sample_inputs_ = samples->data;
  }

  void read_folders(std::string_view wanted) {
    find_root();
    const std::string model = pick_model(wanted);
    if (const ZipEntry* order = zip_.find(root_ + "byteorder"))
      TOROID_USER_CHECK(trimmed(order->text()) == "little", "{}: byte order \"{}\" is not supported; expected little", out_.source_,
                        order->text().substr(0, 40));
    parse_program(zip_.at(fmt::format("{}models/{}.json", root_, model)));
    read_table("data/weights/", model, "_weights_config.json", out_.weights_);
    read_table("data/constants/", model, "_constants_config.json", out_.constants_);
    if (const ZipEntry* samples = zip_.find(fmt::format("{}data/sample_inputs/{}.pt", root_, model))) out_.sample_inputs_ = samples->data;
  }

  void find_root() {
    constexpr std::string_view kFormat = "archive_format";
    bool compiled = false;
    for (const ZipEntry& e : zip_.entries()) {
      compiled |= e.name.find("data/aotinductor/") != e.name.npos;
      if ((e.name == kFormat || e.name.ends_with("/archive_format")) && trimmed(e.text()) == "pt2") {
        root_ = e.name.substr(0, e.name.size() - kFormat.size());
        find_models();
        if (!out_.models_.empty()) return;
      }
    }
    TOROID_USER_CHECK(!compiled,
                      "{}: this is an AOTInductor package: compiled code with no graph inside; export the model with "
                      "torch.export.save instead",
                      out_.source_);
    fail<UserError>(
        "{}: not a PyTorch export archive: expected {} or models/<name>.json beside archive_format; write it with "
        "torch.export.save",
        out_.source_, kFlatProgram);
  }

  void find_models() {
    const std::string folder = root_ + "models/";
    for (const ZipEntry& e : zip_.entries()) {
      if (!e.name.starts_with(folder) || !e.name.ends_with(".json")) continue;
      const std::string_view name = e.name.substr(folder.size(), e.name.size() - folder.size() - 5);
      if (!name.empty() && name.find('/') == name.npos) out_.models_.emplace_back(name);
    }
  }

  std::string pick_model(std::string_view wanted) const {
    const auto has = [&](std::string_view name) { return std::find(out_.models_.begin(), out_.models_.end(), name) != out_.models_.end(); };
    if (wanted.empty() && out_.models_.size() == 1) return out_.models_[0];
    if (wanted.empty()) wanted = "model";
    TOROID_USER_CHECK(has(wanted), "{}: no model \"{}\" in this archive; it holds: {}", out_.source_, wanted,
                      fmt::join(out_.models_, ", "));
    return std::string(wanted);
  }

  void parse_program(const ZipEntry& entry) {
    const auto doc = JsonDocument::parse(entry.text(), fmt::format("{}: {}", out_.source_, entry.name));
    out_.program_ = parse_exported_program(doc.root());
  }

  const ZipEntry* first_of(std::initializer_list<std::string_view> names) const {
    for (const std::string_view name : names)
      if (const ZipEntry* entry = zip_.find(name)) return entry;
    return nullptr;
  }

  // A torch.save member replaces configuration and raw files where it exists.
  void read_table(std::string_view folder, const std::string& model, std::string_view config_suffix, std::vector<TensorRecord>& out) {
    const std::string path = root_ + std::string(folder);
    if (const ZipEntry* pickled = zip_.find(path + model + ".pt")) {
      out_.layout_ = Pt2Layout::Pickled;
      pickled_table(pickled, out);
    } else if (const ZipEntry* config = zip_.find(path + model + std::string(config_suffix))) {
      raw_table(*config, path, out);
    }
  }

  void pickled_table(const ZipEntry* entry, std::vector<TensorRecord>& out) {
    if (!entry || entry->data.empty()) return;
    out = read_torch_save(entry->data, fmt::format("{}: {}", out_.source_, entry->name));
    size_t used = 0;
    for (TensorRecord& record : out) {
      used = std::max(used, record.storage_id + 1);
      record.storage_id += storages_;
    }
    storages_ += used;
    sort(out, entry->name);
  }

  void raw_table(const ZipEntry& entry, const std::string& folder, std::vector<TensorRecord>& out) {
    const std::string source = fmt::format("{}: {}", out_.source_, entry.name);
    const auto doc = JsonDocument::parse(entry.text(), source);
    const Json config = doc.root().at("config");
    ArgumentReader values([](const Json& graph) -> ExportedGraph { graph.refuse("no graph is expected here"); });
    std::unordered_map<std::string_view, size_t> ids;
    for (size_t i = 0; i < config.size(); ++i) {
      const Json payload = config.value(i), meta_json = payload.at("tensor_meta");
      const std::string_view file = payload.at("path_name").as_str();
      if (file.find('/') != file.npos || file.find("..") != file.npos) payload.at("path_name").refuse("expected a plain file name");
      if (payload.at("use_pickle").as_bool()) payload.refuse("a pickled tensor subclass is not supported; save a plain tensor");
      if (meta_json.is_null()) payload.refuse(fmt::format("object \"{}\" is not a tensor; custom objects are not supported", file));
      const TensorMeta meta = values.tensor_meta(meta_json);
      TensorRecord record;
      record.name = config.key(i);
      record.dtype = meta.dtype;
      record.sizes = numbers(meta.sizes, meta_json);
      record.strides = numbers(meta.strides, meta_json);
      record.offset = numbers({meta.storage_offset}, meta_json)[0];
      record.storage = zip_.at(folder + std::string(file)).data;
      record.storage_id = ids.emplace(file, storages_ + ids.size()).first->second;
      check_record(record, source);
      out.push_back(std::move(record));
    }
    storages_ += ids.size();
    sort(out, entry.name);
  }

  void sort(std::vector<TensorRecord>& records, std::string_view where) const {
    std::sort(records.begin(), records.end(), [](const TensorRecord& a, const TensorRecord& b) { return a.name < b.name; });
    for (size_t i = 1; i < records.size(); ++i)
      TOROID_USER_CHECK(records[i - 1].name != records[i].name, "{}: {}: tensor \"{}\" is given twice", out_.source_, where,
                        records[i].name);
  }

  // Every stored tensor that the signature names is there and of the type that the graph states for it.
  void check_inputs() const {
    for (const InputSpec& spec : out_.program_.input_specs) {
      if (spec.kind != InputKind::Parameter && spec.kind != InputKind::Buffer && spec.kind != InputKind::TensorConstant) continue;
      const TensorRecord& record = out_.tensor_of(spec);
      const std::string& value = spec.arg.get<TensorArg>()->name;
      const auto found = out_.program_.graph.tensor_values.find(value);
      TOROID_USER_CHECK(found != out_.program_.graph.tensor_values.end(), "{}: graph input \"{}\" has no type", out_.source_, value);
      const TensorMeta& meta = found->second;
      bool same = meta.dtype == record.dtype && meta.sizes.size() == record.sizes.size();
      for (size_t d = 0; same && d < meta.sizes.size(); ++d) same = meta.sizes[d].is_int() && meta.sizes[d].value == record.sizes[d];
      TOROID_USER_CHECK(same, "{}: stored tensor \"{}\" ({}, sizes [{}]) is not of the type of graph input \"{}\" ({}, {} dimensions)",
                        out_.source_, record.name, name_of(record.dtype), fmt::join(record.sizes, ", "), value, name_of(meta.dtype),
                        meta.sizes.size());
    }
  }

  Pt2Archive& out_;
  ZipArchive zip_;
  std::string root_;
  size_t storages_ = 0;
};

Pt2Archive Pt2Archive::open(const std::filesystem::path& path, std::string_view model) {
  FileBytes file(path);
  Pt2Archive out = from_bytes(file.span(), path.string(), model);
  out.file_ = std::move(file);
  return out;
}

Pt2Archive Pt2Archive::from_bytes(std::span<const std::byte> bytes, std::string source, std::string_view model) {
  Pt2Archive out;
  out.source_ = std::move(source);
  Pt2Reader(out, bytes).run(model);
  return out;
}

const TensorRecord& Pt2Archive::tensor_of(const InputSpec& spec) const {
  const bool constant = spec.kind == InputKind::TensorConstant || (spec.kind == InputKind::Buffer && !spec.persistent);
  const TensorRecord* record = find_record(constant ? constants_ : weights_, spec.target);
  TOROID_USER_CHECK(record, "{}: the archive holds no {} named \"{}\"", source_, constant ? "constant" : "weight", spec.target);
  return *record;
}

std::vector<TensorRecord> Pt2Archive::sample_inputs() const {
  if (sample_inputs_.empty()) return {};
  return read_torch_save(sample_inputs_, source_ + ": sample inputs");
}

}  // namespace toroid::import
