// Packages: what is written is what runs, from C too; what is altered is refused.
#include "package/package.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>

#include "base/files.h"
#include "data_models.h"
#include "errors.h"
#include "exec/stored.h"
#include "import/safetensors.h"
#include "package/forge.h"
#include "temp_folder.h"
#include "toroid/model.h"
#include "toroid/package.h"
#include "toroid/save_package.h"
#include "toroid_runtime.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::error_of;
using test::inputs_of;
using test::kModels;
using test::TempFolder;

std::vector<Tensor> run(const std::string& path, const std::vector<Tensor>& inputs) {
  return package::Package::open(path)->load("")->session()->run(inputs);
}

TEST(Package, RunsAsTheModelDoesBitByBit) {
  const TempFolder folder;
  for (const char* name : {"digitsnet", "encoder", "tied", "regions", "numbers_from_data"}) {
    const std::string model = kModels + name + "/core.pt2", path = folder / "m.tpk";
    save_package(model, path);
    const auto inputs = inputs_of(name);
    EXPECT_EQ(test::bit_difference(Model::load(model).run(inputs), run(path, inputs)), "") << name;
  }
}

TEST(Package, OpenSizesHaveTheirRange) {
  const TempFolder folder;
  const std::string path = folder / "f.tpk";
  const Tensor x = Tensor::full(std::vector<int64_t>{4, 3}, 2), w = Tensor::full(std::vector<int64_t>{3}, 5);
  mark_dynamic(x, 0, 2, 50);
  save_package([w](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * w + 1}; }, {x}, path);
  EXPECT_EQ(run(path, {Tensor::full(std::vector<int64_t>{7, 3}, 3)})[0].to_vector(), std::vector<double>(21, 16));
  const std::string error = error_of<UserError>([&] { run(path, {Tensor::full(std::vector<int64_t>{51, 3}, 3)}); });
  EXPECT_TRUE(contains(error, "input 0") && contains(error, "50")) << error;
  const auto& sizes = package::Package::open(path)->manifest().entries[0].sizes;
  ASSERT_EQ(sizes.size(), 1u);
  EXPECT_EQ(std::pair(sizes[0].least, sizes[0].greatest), std::pair(int64_t{2}, int64_t{50}));
}

TEST(Package, FixedSizesAreRecordedAtTheFirstCall) {
  const TempFolder folder;
  const std::string path = folder / "f.tpk";
  for (const bool open : {false, true}) {
    const Tensor x = Tensor::full(std::vector<int64_t>{4, 3}, 2);
    if (open) mark_dynamic(x, 0, 2, 50);
    PackageOptions o;
    o.model.mode = Mode::ReduceOverhead;
    save_package([](const std::vector<Tensor>& in) { return std::vector<Tensor>{exp(softmax(in[0], 1))}; }, {x}, path, o);
    const auto program = package::Package::open(path)->load("");
    const auto recordings = [&] { return program->version()->shared->captures().counters.recordings; };
    program->session()->run(std::vector{x});
    EXPECT_EQ(recordings(), open ? 0 : 1);
    program->session()->run(std::vector{x});
    EXPECT_EQ(recordings(), 1) << "sessions share what keeps nothing";
  }
}

TEST(Package, SeveralEntriesAndTargetsShareWeights) {
  const TempFolder folder;
  const std::string one = folder / "one.tpk", both = folder / "both.tpk", model = kModels + "encoder/core.pt2";
  save_package(model, one, {.targets = {"x86-64"}});
  const PackageEntry entries[] = {{"a", model}, {"b", model}};
  save_package(entries, both, {.targets = {"x86-64-v3", "x86-64"}});
  const auto p = package::Package::open(both);
  ASSERT_EQ(p->manifest().entries.size(), 2u);
  EXPECT_EQ(p->manifest().entries[1].programs.size(), 2u);
  const auto weights = [](const package::Manifest& m) { return m.parts.back().bytes; };
  EXPECT_LT(weights(p->manifest()), 3 * weights(package::Package::open(one)->manifest()))
      << "four programs, two layouts of weights at most";
  const auto inputs = inputs_of("encoder");
  EXPECT_EQ(test::bit_difference(p->load("a")->session()->run(inputs), p->load("b")->session()->run(inputs)), "");
  const std::string error = error_of<UserError>([&] { p->load("c"); });
  EXPECT_TRUE(contains(error, "\"a\", \"b\"")) << error;
}

TEST(Package, EqualProgramsGiveEqualBytes) {
  const TempFolder folder;
  const std::string model = kModels + "digitsnet/core.pt2";
  save_package(model, folder / "a.tpk"), save_package(model, folder / "b.tpk");
  EXPECT_EQ(read_file(folder / "a.tpk"), read_file(folder / "b.tpk"));
}

// Wherever they are made: no option's file or folder is in a package.
TEST(Package, PlacesWhereItWasMadeAreNotInIt) {
  const TempFolder folder;
  std::vector<std::string> packages;
  for (const char* place : {"here", "at another place"}) {
    const std::string root = folder / place, copy = root + "/model.pt2";
    std::filesystem::create_directories(root);
    std::filesystem::copy_file(kModels + "digitsnet/core.pt2", copy);
    PackageOptions options;
    options.model.options = {{"compile_debug", "1"},
                             {"debug_dir", root + "/debug"},
                             {"tune_lock", root + "/lock.json"},
                             {"kernel_dir", root + "/kernels"},
                             {"tune_database", root + "/tuned.sqlite"}};
    save_package(copy, root + "/x.tpk", options);
    packages.push_back(read_file(root + "/x.tpk"));
    EXPECT_EQ(packages.back().find(root), std::string::npos);
  }
  EXPECT_EQ(packages[0], packages[1]);
}

TEST(Package, SessionsKeepTheirStateApart) {
  const TempFolder folder;
  const std::string path = folder / "counter.tpk";
  const Tensor count = Tensor::full(std::vector<int64_t>{1}, 1), x = Tensor::full(std::vector<int64_t>{1}, 10);
  save_package(
      [count](const std::vector<Tensor>& in) {
        Tensor c = count;
        add_(c, in[0]);
        return std::vector<Tensor>{c * 2};
      },
      {x}, path);
  const PackageFile file = PackageFile::open(path);
  PackageSession a = file.session(), b = file.session("main"), c = file.session();
  const auto call = [&](PackageSession& s) { return s.run({x})[0].to_vector()[0]; };
  EXPECT_EQ((std::vector{call(a), call(a), call(b)}), (std::vector<double>{22, 42, 22}));
  EXPECT_EQ(call(c), 22) << "a session begins with what was stored";
  EXPECT_EQ(a.input_names().size(), 1u);
}

// Handles that hold nothing, from the beginning or since they were moved from.
TEST(Package, WhatHoldsNothingSaysSo) {
  const TempFolder folder;
  save_package([](const std::vector<Tensor>& in) { return in; }, {Tensor::full(std::vector<int64_t>{2}, 1)}, folder / "f.tpk");
  PackageFile opened = PackageFile::open(folder / "f.tpk");
  PackageSession begun = opened.session();
  const PackageFile file = std::move(opened);
  const PackageSession session = std::move(begun);
  for (const PackageFile& none : {PackageFile(), opened}) {  // NOLINT: moved from
    const std::vector<std::function<void()>> calls = {[&] { none.entries(); },
                                                      [&] { none.session(); },
                                                      [&] { none.weights(); },
                                                      [&] { none.swap_weights(std::string("w.safetensors")); },
                                                      [&] { none.swap_weights(std::map<std::string, Tensor>()); },
                                                      [&] { none.verify(); }};
    for (auto& call : calls) EXPECT_TRUE(contains(test::user_error(call), "PackageFile::open() gives one"));
  }
  for (PackageSession none : {PackageSession(), begun}) {  // NOLINT: moved from
    EXPECT_TRUE(contains(test::user_error([&] { none.run({}); }), "PackageFile::session()"));
    EXPECT_TRUE(contains(test::user_error([&] { none.input_names(); }), "PackageFile::session()"));
  }
  EXPECT_EQ(file.entries().size(), 1u);
  EXPECT_EQ(session.input_names().size(), 1u);
}

// The file's pages cannot be written to.
TEST(Package, ResultsAreMemoryOfTheirOwn) {
  const TempFolder folder;
  const Tensor x = Tensor::full(std::vector<int64_t>{64}, 1), w = Tensor::full(std::vector<int64_t>{64}, 5);
  save_package([w](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0], w, view(w, {8, 8})}; }, {x}, folder / "f.tpk");
  PackageSession session = PackageFile::open(folder / "f.tpk").session();
  for (int call = 0; call < 2; ++call) {
    const auto out = session.run({x});
    ASSERT_EQ(out.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(out[i].to_vector()[0], i == 0 ? 1 : 5) << "call " << call << ", output " << i;
      out[i].data<float>()[0] = 7;
    }
    EXPECT_EQ(x.to_vector()[0], 1);
  }
}

TEST(Package, WeightsAreAlignedSafetensors) {
  const TempFolder folder;
  save_package(kModels + "encoder/core.pt2", folder / "m.tpk");
  const auto file = FileBytes(folder / "m.tpk");
  const auto zip = import::ZipArchive::open(file.span(), "m.tpk");
  const auto data = zip.at(package::kWeights).data;
  EXPECT_EQ((data.data() - file.span().data()) % 64, 0);
  size_t tensors = 0;
  for (auto& r : import::parse_safetensors(data, "weights")) {
    if (r.name.starts_with("pad.")) continue;
    ++tensors;
    EXPECT_EQ((r.bytes().data() - file.span().data()) % 64, 0) << r.name;
  }
  EXPECT_EQ(tensors, package::Package::open(folder / "m.tpk")->manifest().constants.size());
}

TEST(Package, ForgedFieldsAreRefusedEachByItsText) {
  const TempFolder folder;
  const std::string path = folder / "m.tpk", forged = folder / "forged.tpk";
  save_package(kModels + "digitsnet/core.pt2", path);
  const std::string zeros = "\"" + std::string(64, '0') + "\"";
  const std::array<std::string, 3> cases[] = {
      {"format_name", "\"another\"", "the field \"format_name\" is another, this runtime takes toroid-package"},
      {"format", "7", "the field \"format\" is 7, this runtime takes 1 to 3; use a newer runtime"},
      {"format", "0", "the field \"format\" is 0, this runtime takes 1 to 3; make the package again: toroid compile"},
      {"plan_version", "2", "the field \"plan_version\" is 2, this runtime takes"},
      {"kernel_abi", "9", "the field \"kernel_abi\" is 9, this runtime takes 1"},
      {"system", "\"plan9\"", "the field \"system\" is plan9, this runtime takes linux"},
      {"machine", "\"vax\"", "the field \"machine\" is vax, this runtime takes x86-64"},
      {"code_for", "\"avx512 +amx\"", "the field \"code_for\" of the programs of \"main\" is \"avx512 +amx\", this machine has"},
      {"device", "\"cuda\"", "make a package that fits: toroid compile MODEL -o FILE --target native"},
      {"plan", "\"plans/other\"", "the manifest names the part \"plans/other\", but has no hash of it"},
      {"weights_head", zeros, "the header of weights.safetensors has the SHA-256"},
      {"sha256", zeros, "the manifest says 0000"},
      {"bytes", "3", "bytes, the manifest says 3"},
      {"bytes", "-3", "expected a number of bytes"},
      {"tensor", "\"nothing\"", "the weights hold no tensor \"nothing\""},
      {"dtype", "\"f99\"", "f99"},
      {"dtype", "\"f64\"", "dtype, sizes and strides of"},
      {"strides", "[-1]", "negative sizes or strides of"},
      {"entries", "{}", "expected the name of an entry, found"},
      {"constants", "[]", "the store has no constant"},
  };
  std::set<std::string> texts;
  for (auto& [field, value, expected] : cases) {
    test::forge(path, forged, field, value);
    const std::string error = error_of<Error>([&] { run(forged, inputs_of("digitsnet")); });
    EXPECT_TRUE(contains(error, expected)) << field << ": " << error;
    EXPECT_NE(error, "no error") << field;
    EXPECT_TRUE(texts.insert(error).second) << "the same text for two fields: " << error;
  }
}

TEST(Package, AModelIsNamedAsNoPackage) {
  EXPECT_TRUE(contains(test::user_error([] { PackageFile::open(kModels + "encoder/core.pt2"); }), "core.pt2: this archive is no package"));
}

// Whatever is cut off or flipped is refused, or is not part of the program: then the result is the same.
TEST(Package, DamagedFilesNeverRunAnotherProgram) {
  const TempFolder folder;
  const std::string path = folder / "m.tpk", damaged = folder / "damaged.tpk";
  const Tensor x = Tensor::full(std::vector<int64_t>{4}, 2), w = Tensor::full(std::vector<int64_t>{4}, 5);
  save_package([w](const std::vector<Tensor>& in) { return std::vector<Tensor>{exp(in[0]) * w}; }, {x}, path);
  const std::string whole = read_file(path);
  const auto expected = run(path, {x});
  const auto weights = import::ZipArchive::open(std::as_bytes(std::span(whole)), path).at(package::kWeights).text();
  const auto first = static_cast<size_t>(weights.data() - whole.data()), last = first + weights.size();
  std::mt19937_64 random(7);
  int refused = 0;
  constexpr int kTrials = 3000;
  for (int i = 0; i < kTrials; ++i) {
    std::string bytes = whole;
    const bool cut = i % 4 == 0;
    bool in_weights = false;  // their elements are hashed by verify() alone
    if (cut) bytes.resize(random() % whole.size());
    for (uint64_t n = cut ? 0 : 1 + random() % 3; n-- > 0;) {
      const size_t at = random() % bytes.size();
      bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
      in_weights = in_weights || (at >= first && at < last);
    }
    write_file_atomic(damaged, bytes);
    try {
      const auto p = package::Package::open(damaged);
      if (in_weights) p->verify();
      EXPECT_EQ(test::bit_difference(p->load("")->session()->run(std::vector<Tensor>{x}), expected), "") << "trial " << i;
      EXPECT_FALSE(cut) << "a file of " << bytes.size() << " bytes of " << whole.size();
    } catch (const Error& e) {
      EXPECT_EQ(dynamic_cast<const InternalError*>(&e), nullptr) << e.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, kTrials / 2);
}

TEST(Package, TheInterfaceInCRunsIt) {
  const TempFolder folder;
  save_package(kModels + "digitsnet/core.pt2", folder / "m.tpk");
  const auto inputs = inputs_of("digitsnet");
  const auto expected = run(folder / "m.tpk", inputs);
  toroid_package* package = nullptr;
  toroid_session* session = nullptr;
  EXPECT_EQ(toroid_package_open((folder / "none.tpk").c_str(), &package), TOROID_USER_ERROR);
  EXPECT_TRUE(contains(toroid_last_error(), "none.tpk")) << toroid_last_error();
  ASSERT_EQ(toroid_package_open((folder / "m.tpk").c_str(), &package), TOROID_OK) << toroid_last_error();
  EXPECT_EQ(toroid_package_verify(package), TOROID_OK) << toroid_last_error();
  EXPECT_STREQ(toroid_package_entry_name(package, 0), "main");
  ASSERT_EQ(toroid_session_open(package, nullptr, &session), TOROID_OK) << toroid_last_error();
  toroid_package_close(package);
  ASSERT_EQ(toroid_session_input_count(session), inputs.size());
  std::vector<toroid_tensor> in(inputs.size()), out(toroid_session_output_count(session));
  for (size_t i = 0; i < in.size(); ++i) {
    toroid_value v;
    ASSERT_EQ(toroid_session_input(session, i, &v), TOROID_OK);
    ASSERT_EQ(v.rank, inputs[i].dim());
    in[i] = {inputs[i].raw_data(), static_cast<size_t>(inputs[i].numel()) * size_of(inputs[i].dtype()), v.dtype, v.rank, {}, nullptr};
    std::copy(inputs[i].sizes().begin(), inputs[i].sizes().end(), in[i].sizes);
  }
  ASSERT_EQ(toroid_session_run(session, in.data(), in.size(), out.data(), out.size()), TOROID_OK) << toroid_last_error();
  ASSERT_EQ(out.size(), expected.size());
  EXPECT_EQ(std::memcmp(out[0].data, expected[0].raw_data(), out[0].bytes), 0);
  toroid_tensor own = out[0];
  own.bytes = 1;
  EXPECT_EQ(toroid_session_run(session, in.data(), in.size(), &own, 1), TOROID_USER_ERROR) << "memory of the caller that is too small";
  toroid_tensor_release(&out[0]);
  in[0].bytes = 1;
  EXPECT_EQ(toroid_session_run(session, in.data(), in.size(), out.data(), out.size()), TOROID_USER_ERROR);
  EXPECT_TRUE(contains(toroid_last_error(), "input 0 (\"x\") needs")) << toroid_last_error();
  in[0].dtype = TOROID_F64;
  EXPECT_EQ(toroid_session_run(session, in.data(), in.size(), out.data(), out.size()), TOROID_USER_ERROR);
  EXPECT_TRUE(contains(toroid_last_error(), "input 0 (\"x\") must have dtype f32, it has f64")) << toroid_last_error();
  EXPECT_EQ(toroid_session_run(session, in.data(), 0, out.data(), out.size()), TOROID_USER_ERROR);
  EXPECT_TRUE(contains(toroid_last_error(), "1 tensors (x), 0 were given")) << toroid_last_error();
  toroid_session_close(session);
}

// Every pointer of every function, one at a time.
TEST(Package, TheInterfaceInCTakesNullPointersForErrors) {
  const TempFolder folder;
  const std::string path = folder / "m.tpk";
  save_package(kModels + "digitsnet/core.pt2", path);
  toroid_package* package = nullptr;
  toroid_session* session = nullptr;
  ASSERT_EQ(toroid_package_open(path.c_str(), &package), TOROID_OK);
  ASSERT_EQ(toroid_session_open(package, nullptr, &session), TOROID_OK);
  toroid_package* other = nullptr;
  toroid_session* another = nullptr;
  toroid_value value;
  toroid_tensor tensor{};
  const char* name = nullptr;
  const std::pair<const char*, std::function<toroid_status()>> calls[] = {
      {"path", [&] { return toroid_package_open(nullptr, &other); }},
      {"out", [&] { return toroid_package_open(path.c_str(), nullptr); }},
      {"package", [&] { return toroid_package_verify(nullptr); }},
      {"package", [&] { return toroid_package_swap_weights(nullptr, &name, &tensor, 1); }},
      {"names", [&] { return toroid_package_swap_weights(package, nullptr, &tensor, 1); }},
      {"tensors", [&] { return toroid_package_swap_weights(package, &name, nullptr, 1); }},
      {"a name", [&] { return toroid_package_swap_weights(package, &name, &tensor, 1); }},
      {"package", [&] { return toroid_package_swap_weights_file(nullptr, path.c_str()); }},
      {"path", [&] { return toroid_package_swap_weights_file(package, nullptr); }},
      {"package", [&] { return toroid_session_open(nullptr, nullptr, &another); }},
      {"out", [&] { return toroid_session_open(package, nullptr, nullptr); }},
      {"session", [&] { return toroid_session_open_entry(nullptr, nullptr, &another); }},
      {"out", [&] { return toroid_session_open_entry(session, nullptr, nullptr); }},
      {"out", [&] { return toroid_session_open_on(package, nullptr, nullptr, nullptr); }},
      {"session", [&] { return toroid_session_input(nullptr, 0, &value); }},
      {"out", [&] { return toroid_session_input(session, 0, nullptr); }},
      {"session", [&] { return toroid_session_output(nullptr, 0, &value); }},
      {"out", [&] { return toroid_session_output(session, 0, nullptr); }},
      {"session", [&] { return toroid_session_run(nullptr, &tensor, 1, &tensor, 1); }},
      {"inputs", [&] { return toroid_session_run(session, nullptr, 1, &tensor, 1); }},
      {"outputs", [&] { return toroid_session_run(session, &tensor, 1, nullptr, 1); }},
      {"session", [&] { return toroid_session_run_on(nullptr, nullptr, &tensor, 1, &tensor, 1); }},
  };
  for (auto& [what, call] : calls) {
    EXPECT_EQ(call(), TOROID_USER_ERROR) << what;
    EXPECT_EQ(std::string(toroid_last_error()), std::string(what) + " is null");
  }
  EXPECT_EQ(toroid_package_entry_count(nullptr) + toroid_package_weight_count(nullptr) + toroid_session_input_count(nullptr) +
                toroid_session_output_count(nullptr),
            0u);
  EXPECT_EQ(toroid_package_entry_name(nullptr, 0), nullptr);
  EXPECT_EQ(toroid_package_weight_name(nullptr, 0), nullptr);
  toroid_package_formats(nullptr, nullptr);
  toroid_tensor_release(nullptr);
  toroid_session_close(nullptr), toroid_package_close(nullptr);
  toroid_session_close(session), toroid_package_close(package);
}

// In a process of its own, that has no compiler.
TEST(Package, WhatIsSampledIsRepeatedBySeedInC) {
  const TempFolder folder;
  save_package([](const std::vector<Tensor>& in) { return std::vector<Tensor>{multinomial(in[0], 8, true)}; },
               {Tensor::full(std::vector<int64_t>{100}, 1)}, folder / "m.tpk");
  toroid_package* package = nullptr;
  ASSERT_EQ(toroid_package_open((folder / "m.tpk").c_str(), &package), TOROID_OK) << toroid_last_error();
  std::vector<float> weights(100, 1);
  const auto draw = [&] {
    toroid_session* session = nullptr;
    EXPECT_EQ(toroid_session_open(package, nullptr, &session), TOROID_OK) << toroid_last_error();
    toroid_tensor in{weights.data(), 400, TOROID_F32, 1, {100}, nullptr}, out{};
    EXPECT_EQ(toroid_session_run(session, &in, 1, &out, 1), TOROID_OK) << toroid_last_error();
    const auto* drawn = static_cast<const int64_t*>(out.data);
    std::vector<int64_t> list(drawn, drawn + 8);
    toroid_tensor_release(&out), toroid_session_close(session);
    return list;
  };
  const auto seeded = [&](int64_t seed) {
    EXPECT_EQ(toroid_manual_seed(seed), TOROID_OK);
    return draw();
  };
  const auto first = seeded(7), second = draw();
  EXPECT_NE(first, second) << "the stream goes on, in another session too";
  EXPECT_EQ(seeded(7), first);
  EXPECT_EQ(draw(), second);
  EXPECT_NE(seeded(-8), first);
  toroid_package_close(package);
}

TEST(Package, AProgramInCRunsIt) {
  const TempFolder folder;
  save_package(kModels + "digitsnet/core.pt2", folder / "m.tpk");
  const std::string program = fs::read_symlink("/proc/self/exe").parent_path() / "example_package_classify";
  EXPECT_EQ(std::system((program + " " + (folder / "m.tpk") + " > " + (folder / "out")).c_str()), 0);
  EXPECT_TRUE(contains(read_file(folder / "out"), "is the largest")) << read_file(folder / "out");
  EXPECT_NE(std::system((program + " " + (folder / "none.tpk") + " 2> " + (folder / "out")).c_str()), 0);
  EXPECT_TRUE(contains(read_file(folder / "out"), "none.tpk")) << read_file(folder / "out");
}

}  // namespace
}  // namespace toroid
