// Packages that are damaged, cut, mixed up and forged: an error or the right results, never a crash or a hang.
// scripts/fuzz_packages.sh runs it for as long as one wants; a failing trial is told by its number.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include "base/files.h"
#include "base/sha256.h"
#include "data_models.h"
#include "exec/stored.h"
#include "import/zip.h"
#include "package/check_up.h"
#include "package/difference.h"
#include "package/package.h"
#include "package/zip_writer.h"
#include "temp_folder.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  size_t below(size_t n) { return n == 0 ? 0 : engine_() % n; }
  bool one_in(size_t n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& items) {
    return items[below(items.size())];
  }

 private:
  std::mt19937_64 engine_;
};

struct Subject {
  std::string name, bytes;
  std::vector<std::vector<Tensor>> inputs, expected;  // by entry
};

// As a package is: names and contents, in their order.
using Files = std::vector<std::pair<std::string, std::string>>;

Files files_of(const std::string& bytes) {
  Files out;
  const auto zip = import::ZipArchive::open(std::as_bytes(std::span(bytes)), "subject");
  for (auto& e : zip.entries()) out.emplace_back(e.name, e.text());
  // The manifest comes first, by which packages are known.
  std::stable_partition(out.begin(), out.end(), [](auto& f) { return f.first.starts_with(package::kManifest); });
  return out;
}

void write_files(const fs::path& path, const Files& files) {
  std::vector<package::ZipPart> parts;
  for (auto& [name, text] : files) parts.push_back({name, {text}});
  package::write_zip(path, parts);
}

std::string* find(Files& files, const std::string& name) {
  for (auto& f : files)
    if (f.first == name) return &f.second;
  return nullptr;
}

// One value, key or item of a JSON text is another one.
void forge(std::string& json, Random& random) {
  struct Token {
    size_t begin, end;
  };
  std::vector<Token> scalars, lists;
  std::vector<size_t> open;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') {
      size_t end = i + 1;
      while (end < json.size() && json[end] != '"') end += json[end] == '\\' ? 2 : 1;
      scalars.push_back({i, std::min(end + 1, json.size())});
      i = end;
    } else if (c == '[' || c == '{') {
      open.push_back(i);
    } else if ((c == ']' || c == '}') && !open.empty()) {
      lists.push_back({open.back(), i + 1});
      open.pop_back();
    } else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-') {
      size_t end = i;
      while (end < json.size() && (std::isalnum(static_cast<unsigned char>(json[end])) || json[end] == '-' || json[end] == '.')) ++end;
      scalars.push_back({i, end});
      i = end - 1;
    }
  }
  static const std::vector<std::string> kValues = {"-1",
                                                   "0",
                                                   "1",
                                                   "2",
                                                   "3",
                                                   "64",
                                                   "4294967296",
                                                   "9223372036854775807",
                                                   "-9223372036854775808",
                                                   "1e308",
                                                   "0.5",
                                                   "null",
                                                   "false",
                                                   "[]",
                                                   "{}",
                                                   "\"\"",
                                                   "true",
                                                   "\"f64\"",
                                                   "\"i8\"",
                                                   "\"bool\"",
                                                   "\"cuda\"",
                                                   "\"../../x\"",
                                                   "\"s0\"",
                                                   "[0]",
                                                   "[-1]",
                                                   "[1, 1]",
                                                   "[9223372036854775807]"};
  const auto& from = random.one_in(4) && !lists.empty() ? lists : scalars;
  if (from.empty()) return;
  const Token at = from[random.below(from.size())];
  std::string with = random.one_in(2) ? random.of(kValues) : "";
  if (with.empty()) {  // what stands elsewhere
    const Token other = from[random.below(from.size())];
    with = json.substr(other.begin, other.end - other.begin);
  }
  json.replace(at.begin, at.end - at.begin, with);
}

void hash_anew(Files& files) {
  std::string* sum = find(files, package::kManifestHash);
  const std::string* json = find(files, package::kManifest);
  if (sum && json) *sum = sha256(*json) + "  manifest.json\n";
}

// What makes one package of another. Of what has right hashes the results may be others: hashes find damage, not malice.
struct Mutant {
  std::string what;
  bool forged = false;
};

Mutant mutate(const fs::path& path, const Subject& subject, const std::vector<Subject>& all, Random& random) {
  std::string bytes = subject.bytes;
  const auto flip = [&](size_t from, size_t to) {
    for (size_t n = 1 + random.below(3); n-- > 0 && to > from;)
      bytes[from + random.below(to - from)] ^= static_cast<char>(1 << random.below(8));
  };
  const auto plain = [&](const char* what) {
    write_file_atomic(path, bytes);
    return Mutant{what};
  };
  Files files = files_of(bytes);
  const size_t some = random.below(files.size()), other = random.below(files.size());
  const auto mixed = [&](const char* what, bool is_forged = false) {
    write_files(path, files);
    return Mutant{what, is_forged};
  };
  switch (random.below(14)) {
    case 0:
      flip(0, bytes.size());
      return plain("bits flipped");
    case 1:
      flip(0, std::min<size_t>(bytes.size(), 8192));
      return plain("bits of the manifest flipped");
    case 2:
      flip(bytes.size() - std::min<size_t>(bytes.size(), 2048), bytes.size());
      return plain("bits of the directory flipped");
    case 3:
      bytes.resize(random.below(bytes.size()));
      return plain("cut");
    case 4: {  // a field of the archive
      static const std::vector<uint64_t> kNumbers = {0, 1, 0xffff, 0xffffffff, 0x7fffffff, 0x80000000, 0xfffffffe, 46, 30, 22};
      const size_t width = random.one_in(2) ? 2 : 4, window = std::min<size_t>(bytes.size(), 2048);
      const size_t at = bytes.size() - window + random.below(window - width);
      const uint64_t n = random.of(kNumbers);
      for (size_t k = 0; k < width; ++k) bytes[at + k] = static_cast<char>(n >> (8 * k));
      return plain("a field of the directory is another number");
    }
    case 5: {
      const size_t from = random.below(bytes.size()), to = random.below(bytes.size());
      const size_t n = std::min<size_t>(1 + random.below(4096), bytes.size() - std::max(from, to));
      std::copy_n(std::string(bytes).begin() + static_cast<std::ptrdiff_t>(from), n, bytes.begin() + static_cast<std::ptrdiff_t>(to));
      return plain("a piece stands elsewhere, too");
    }
    case 6:
      std::swap(files[some].second, files[other].second);
      return mixed("two parts have each other's contents");
    case 7:
      files.erase(files.begin() + static_cast<std::ptrdiff_t>(some));
      return mixed("a part is gone");
    case 8:
      files.emplace_back(random.one_in(2) ? files[some].first + "x" : files[some].first, files[other].second);
      return mixed("a part too many");
    case 9: {
      const Files theirs = files_of(random.of(all).bytes);
      files[some].second = theirs[random.below(theirs.size())].second;
      return mixed("a part of another package");
    }
    case 10: {  // with right hashes: rules of plans and of weights have to see it
      static const std::vector<std::string> kEndings = {".plan", ".safetensors"};
      const std::string& ending = random.of(kEndings);
      for (auto& [name, text] : files) {
        if (!name.ends_with(ending) || text.empty()) continue;
        const std::string before = sha256(text);
        for (size_t n = 1 + random.below(3); n-- > 0;)
          text[random.below(std::min<size_t>(text.size(), 4096))] ^= static_cast<char>(1 << random.below(8));
        std::string& json = *find(files, package::kManifest);
        if (const size_t at = json.find(before); at != json.npos) json.replace(at, before.size(), sha256(text));
        break;
      }
      hash_anew(files);
      return mixed("a part is damaged, and its hash is right", true);
    }
    default:
      for (size_t n = 1 + random.below(2); n-- > 0;) forge(*find(files, package::kManifest), random);
      hash_anew(files);
      return mixed("the manifest is forged", true);
  }
}

Subject subject(const std::string& path, std::vector<std::vector<Tensor>> inputs) {
  Subject out{fs::path(path).stem().string(), read_file(path), std::move(inputs), {}};
  const auto p = package::Package::open(path);
  for (size_t i = 0; i < p->manifest().entries.size(); ++i)
    out.expected.push_back(p->load(p->manifest().entries[i].name)->session()->run(out.inputs.at(i)));
  return out;
}

std::vector<Subject> subjects(const test::TempFolder& folder) {
  const Tensor x = Tensor::full(std::vector<int64_t>{4, 3}, 2), w = Tensor::full(std::vector<int64_t>{3}, 5),
               count = Tensor::full(std::vector<int64_t>{3}, 1);
  mark_dynamic(x, 0, 2, 50);
  save_package(
      [=](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{exp(in[0]) * w, sum(in[0], {0})};
      },
      {x}, folder / "open.tpk");
  PackageOptions recorded;
  recorded.model.mode = Mode::ReduceOverhead;
  save_package(
      [=](const std::vector<Tensor>& in) {
        Tensor c = count;
        add_(c, sum(in[0], {0}));
        return std::vector<Tensor>{c * 2.0};
      },
      {Tensor::full(std::vector<int64_t>{4, 3}, 2)}, folder / "state.tpk", recorded);
  const auto adds = [=](const std::vector<Tensor>& in) {
    Tensor c = count;
    add_(c, sum(in[0], {0}));
    return std::vector<Tensor>{c * 2.0};
  };
  const auto reads = [=](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] + count}; };
  save_package({{.name = "adds", .function = adds, .examples = {x}}, {.name = "reads", .function = reads, .examples = {x}}},
               folder / "shared.tpk");
  const std::string digits = test::kModels + "digitsnet/core.pt2";
  save_package(digits, folder / "swappable.tpk", {.swappable = true});
  const PackageEntry entries[] = {{"a", digits}, {"b", test::kModels + "encoder/core.pt2"}};
  save_package(entries, folder / "beside.tpk", {.targets = {"x86-64-v3", "x86-64"}, .weights_beside = true});
  const auto of_digits = test::inputs_of("digitsnet"), of_encoder = test::inputs_of("encoder");
  return {subject(folder / "open.tpk", {{x}}), subject(folder / "state.tpk", {{x}}), subject(folder / "swappable.tpk", {of_digits}),
          subject(folder / "beside.tpk", {of_digits, of_encoder}), subject(folder / "shared.tpk", {{x}, {x}})};
}

// Everything that one can do with a package.
void use(const fs::path& path, const Subject& s, const Mutant& m, const package::Package& whole, Random& random) {
  const auto p = package::Package::open(path);
  if (!m.forged || random.one_in(2)) p->verify();
  for (size_t i = 0; i < p->manifest().entries.size(); ++i) {
    const auto session = p->load(p->manifest().entries[i].name)->session();
    if (i >= s.inputs.size()) continue;
    const auto out = session->run(s.inputs[i]);
    if (m.forged) continue;
    EXPECT_EQ(test::bit_difference(out, s.expected[i]), "") << s.name << ": " << m.what;
  }
  if (!p->manifest().weights.empty()) {
    const package::Weight& w = random.of(p->manifest().weights);
    if (!w.names.empty()) p->swap_weights({{w.names[0], Tensor::full(w.layout.sizes, 0.5, w.layout.dtype)}});
    p->load(p->manifest().entries.at(0).name)->session()->run(s.inputs[0]);
  }
  package::differences(whole, *p);
}

// The trial is written down before it begins, for whoever finds the process dead.
void note_trial(uint64_t trial) {
  if (const char* file = std::getenv("TOROID_FUZZ_TRIAL_FILE")) std::ofstream(file) << trial << std::flush;
}

TEST(PackageFuzz, AnErrorOrTheRightResults) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(setting("TOROID_FUZZ_SECONDS", 2));
  const auto seed = static_cast<uint64_t>(setting("TOROID_FUZZ_SEED", 1));
  auto trial = static_cast<uint64_t>(setting("TOROID_FUZZ_FIRST", 0));
  const uint64_t last = static_cast<uint64_t>(setting("TOROID_FUZZ_LAST", INT64_MAX));
  const test::TempFolder folder;
  const auto all = subjects(folder);
  std::vector<std::shared_ptr<package::Package>> whole;
  for (auto& s : all) whole.push_back(package::Package::open(folder.path / (s.name + ".tpk")));
  const fs::path path = folder.path / "mutant.tpk";
  std::map<std::string, int> refused, taken;
  std::string worst;
  double most = 0;
  for (; std::chrono::steady_clock::now() < until && trial <= last && !HasFailure(); ++trial) {
    note_trial(trial);
    ::alarm(60);  // a hang ends the process
    Random random(seed * 1'000'003 + trial);
    const size_t which = random.below(all.size());
    const Mutant m = mutate(path, all[which], all, random);
    const auto began = std::chrono::steady_clock::now();
    try {
      use(path, all[which], m, *whole[which], random);
      ++taken[m.what];
    } catch (const InternalError& e) {
      ADD_FAILURE() << "seed " << seed << ", trial " << trial << ", " << all[which].name << ": " << m.what << ": " << e.what();
    } catch (const std::exception&) {
      ++refused[m.what];
    }
    try {
      package::check_up(path);
    } catch (const std::bad_alloc&) {
    } catch (const std::exception& e) {
      ADD_FAILURE() << "seed " << seed << ", trial " << trial << ": the doctor: " << m.what << ": " << e.what();
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (seconds > most) most = seconds, worst = fmt::format("trial {}, {}", trial, m.what);
  }
  ::alarm(0);
  int refusals = 0;
  for (auto& [what, n] : refused) refusals += n;
  EXPECT_GT(refusals, 0);
  if (std::getenv("TOROID_FUZZ_SECONDS")) {
    for (auto& [what, n] : refused) fmt::print("{}: {} refused, {} taken\n", what, n, taken[what]);
    fmt::print("up to trial {} of seed {}; the longest took {:.2f} s ({})\n", trial, seed, most, worst);
  }
}

}  // namespace
}  // namespace toroid
