// Weights beside packages: shared by contents, found, and refused where they are missing or altered.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "base/sha256.h"
#include "data_models.h"
#include "errors.h"
#include "exec/stored.h"
#include "package/check_up.h"
#include "package/difference.h"
#include "package/forge.h"
#include "package/package.h"
#include "package/weight_files.h"
#include "temp_folder.h"
#include "toroid/package.h"
#include "toroid/save_package.h"
#include "toroid_runtime.h"

namespace toroid {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::TempFolder;
using test::user_error;

const Tensor kX = Tensor::full(std::vector<int64_t>{2, 512}, 0.5);

Tensor large(double value) { return Tensor::full(std::vector<int64_t>{512, 64}, value); }

// x @ w + plus, with a large weight and a small one.
void save(const std::string& path, double value, double plus = 1, PackageOptions o = {.weights_beside = true}) {
  const Tensor w = large(value), b = Tensor::full(std::vector<int64_t>{64}, plus);
  save_package([=](const std::vector<Tensor>& in) { return std::vector<Tensor>{matmul(in[0], w) + b}; }, {kX}, path, o);
}

std::vector<double> run(const std::string& path, const std::string& folder = "") {
  return PackageFile::open(path, folder).session().run({kX})[0].to_vector();
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> out;
  if (fs::exists(folder))
    for (auto& f : fs::directory_iterator(folder)) out.insert(f.path().filename().string());
  return out;
}

// The only file of weights.
fs::path file_in(const TempFolder& folder) {
  const auto names = names_in(folder / "weights");
  EXPECT_EQ(names.size(), 1u);
  return fs::path(folder / "weights") / *names.begin();
}

TEST(WeightsBeside, RunAsThoseInside) {
  const TempFolder folder;
  const std::string model = test::kModels + "digitsnet/core.pt2";
  const auto inputs = test::inputs_of("digitsnet");
  save_package(model, folder / "inside.tpk"), save_package(model, folder / "beside.tpk", {.weights_beside = true});
  EXPECT_EQ(test::bit_difference(PackageFile::open(folder / "inside.tpk").session().run(inputs),
                                 PackageFile::open(folder / "beside.tpk").session().run(inputs)),
            "");
  EXPECT_LT(fs::file_size(folder / "beside.tpk"), fs::file_size(folder / "inside.tpk") / 2);
  for (auto& name : names_in(folder / "weights")) EXPECT_EQ(sha256(read_file(fs::path(folder / "weights") / name)) + ".safetensors", name);
  EXPECT_EQ(package::Package::open(folder / "inside.tpk")->manifest().format, 1) << "runtimes of before take it";
  EXPECT_EQ(package::Package::open(folder / "beside.tpk")->manifest().format, 2);
  const auto d = package::differences(*package::Package::open(folder / "inside.tpk"), *package::Package::open(folder / "beside.tpk"));
  ASSERT_EQ(d.fields.size(), 1u);
  EXPECT_TRUE(d.fields[0].path == "format" && d.weights.empty() && d.kernels.empty() && d.lines.empty());
}

TEST(WeightsBeside, EqualOnesAreOneFileAndOneMapping) {
  const TempFolder folder;
  save(folder / "prefill.tpk", 2, 1), save(folder / "decode.tpk", 2, 5), save(folder / "other.tpk", 3, 1);
  EXPECT_EQ(names_in(folder / "weights").size(), 2u) << "of three packages with two large weights";
  const auto prefill = package::Package::open(folder / "prefill.tpk"), decode = package::Package::open(folder / "decode.tpk");
  ASSERT_EQ(prefill->manifest().files.size(), 1u);
  EXPECT_EQ(prefill->manifest().files[0].sha256, decode->manifest().files[0].sha256);
  const auto address = [](const package::Tensors& constants) {
    for (auto& [name, t] : constants)
      if (t.numel() > 64) return t.raw_data();
    return static_cast<std::byte*>(nullptr);
  };
  const auto ours = prefill->constants(), theirs = decode->constants();
  EXPECT_TRUE(address(ours) && address(ours) == address(theirs));
  EXPECT_EQ(run(folder / "prefill.tpk")[0], 513);
  EXPECT_EQ(run(folder / "decode.tpk")[0], 517);
  EXPECT_EQ(run(folder / "other.tpk")[0], 769);
}

TEST(WeightsBeside, OneFileForSeveralTargetsThatPackAlike) {
  const TempFolder folder;
  save(folder / "one.tpk", 2, 1, {.targets = {"x86-64"}, .weights_beside = true});
  const auto before = names_in(folder / "weights");
  save(folder / "two.tpk", 2, 1, {.targets = {"x86-64-v3", "x86-64"}, .weights_beside = true});
  const auto after = names_in(folder / "weights");
  EXPECT_TRUE(std::includes(after.begin(), after.end(), before.begin(), before.end()));
  EXPECT_LE(after.size(), 2u);
}

TEST(WeightsBeside, MissingOnesAreNamed) {
  const TempFolder folder, elsewhere;
  save(folder / "m.tpk", 2);
  const fs::path file = file_in(folder);
  fs::rename(folder / "weights", elsewhere / "moved");
  const std::string error = user_error([&] { run(folder / "m.tpk"); });
  EXPECT_TRUE(contains(error, file.filename().string()) && contains(error, "are missing in") && contains(error, "copy them there"))
      << error;
  EXPECT_EQ(run(folder / "m.tpk", elsewhere / "moved")[0], 513);
  EXPECT_EQ(PackageFile::open(folder / "m.tpk").entries().size(), 1u) << "only a session needs them";
  EXPECT_FALSE(user_error([&] { PackageFile::open(folder / "m.tpk").verify(); }).empty());
  toroid_package* package = nullptr;
  toroid_session* session = nullptr;
  ASSERT_EQ(toroid_package_open((folder / "m.tpk").c_str(), &package), TOROID_OK);
  EXPECT_EQ(toroid_session_open(package, nullptr, &session), TOROID_USER_ERROR);
  EXPECT_TRUE(contains(toroid_last_error(), "toroid_package_open_with")) << toroid_last_error();
  toroid_package_close(package);
  ASSERT_EQ(toroid_package_open_with((folder / "m.tpk").c_str(), (elsewhere / "moved").c_str(), &package), TOROID_OK);
  EXPECT_EQ(toroid_session_open(package, nullptr, &session), TOROID_OK) << toroid_last_error();
  toroid_session_close(session), toroid_package_close(package);
}

// Another length or header is seen when a session is made, other elements when they are hashed.
TEST(WeightsBeside, AlteredOnesAreRefusedWithBothHashes) {
  const TempFolder folder;
  save(folder / "m.tpk", 2);
  const fs::path file = file_in(folder);
  const std::string whole = read_file(file), hash = file.stem().string();
  const auto refused = [&](const std::string& bytes, const std::string& error) {
    return contains(error, hash) && contains(error, sha256(bytes)) && contains(error, "--weights beside");
  };
  for (const size_t length : {size_t{0}, size_t{7}, size_t{64}, whole.size() - 1, whole.size() + 1}) {
    std::string bytes = whole;
    bytes.resize(length);
    write_file_atomic(file, bytes);
    const std::string error = user_error([&] { run(folder / "m.tpk"); });
    EXPECT_TRUE(refused(bytes, error)) << length << ": " << error;
  }
  std::string header = whole;
  header[20] ^= 1;
  write_file_atomic(file, header);
  EXPECT_TRUE(refused(header, user_error([&] { run(folder / "m.tpk"); })));
  std::string element = whole;
  element[whole.size() - 1] ^= 1;
  write_file_atomic(file, element);
  EXPECT_TRUE(refused(element, user_error([&] { PackageFile::open(folder / "m.tpk").verify(); })));
  const auto checks = package::check_up(folder / "m.tpk");
  EXPECT_TRUE(std::any_of(checks.begin(), checks.end(), [&](auto& c) {
    return c.state == package::Check::State::Failed && c.name == "weights" && refused(element, c.text);
  }));
  save(folder / "m.tpk", 2);
  EXPECT_EQ(read_file(file), whole) << "what is made again is mended";
  PackageFile::open(folder / "m.tpk").verify();
}

TEST(WeightsBeside, WhatIsThereIsNotWrittenAgain) {
  const TempFolder folder;
  save(folder / "a.tpk", 2);
  const auto before = stamp_of(file_in(folder));
  save(folder / "b.tpk", 2);
  EXPECT_EQ(stamp_of(file_in(folder)), before);
  EXPECT_EQ(read_file(folder / "a.tpk"), read_file(folder / "b.tpk"));
}

TEST(WeightsBeside, SmallOnesStayInside) {
  const TempFolder folder;
  const Tensor w = Tensor::full(std::vector<int64_t>{512}, 2);
  save_package([=](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * w}; }, {kX}, folder / "m.tpk",
               {.weights_beside = true});
  EXPECT_TRUE(names_in(folder / "weights").empty());
  EXPECT_EQ(package::Package::open(folder / "m.tpk")->manifest().format, 1);
}

TEST(WeightsBeside, CanBeSwapped) {
  const TempFolder folder;
  const std::string model = test::kModels + "digitsnet/core.pt2";
  const auto inputs = test::inputs_of("digitsnet");
  save_package(model, folder / "inside.tpk", {.swappable = true});
  save_package(model, folder / "beside.tpk", {.swappable = true, .weights_beside = true});
  ASSERT_FALSE(names_in(folder / "weights").empty());
  std::vector<std::vector<Tensor>> results;
  for (const char* name : {"inside.tpk", "beside.tpk"}) {
    const PackageFile file = PackageFile::open(folder / name);
    PackageSession session = file.session();
    const auto before = session.run(inputs);
    std::map<std::string, Tensor> others;
    for (const auto p = package::Package::open(folder / name); auto& w : p->manifest().weights)
      if (w.sha256.empty()) others[w.names[0]] = Tensor::full(w.layout.sizes, 0.125, w.layout.dtype);
    file.swap_weights(others);
    results.push_back(session.run(inputs));
    EXPECT_NE(test::bit_difference(before, results.back()), "");
  }
  EXPECT_EQ(test::bit_difference(results[0], results[1]), "");
}

// A name that leads out of the folder, a file that there is not, and layouts that do not fit.
TEST(WeightsBeside, ForgedManifestsAreRefused) {
  const TempFolder folder;
  const std::string path = folder / "m.tpk", forged = folder / "forged.tpk", zeros = "\"" + std::string(64, '0') + "\"";
  save(path, 2);
  const std::array<std::string, 3> cases[] = {
      {"files", R"([{"sha256": "../../../../etc/passwd", "bytes": 1, "head": "x"}])", "expected a SHA-256"},
      {"files", "[]", "expected a number below 0"},
      {"files", R"([{"sha256": )" + zeros + R"(, "bytes": -1, "head": )" + zeros + "}]", "expected a number of bytes"},
      {"files", R"([{"sha256": )" + zeros + R"(, "bytes": 1, "head": )" + zeros + "}]", "are missing in"},
      {"file", "1", "expected a number below 1"},
      {"head", zeros, "the manifest says"},
  };
  for (auto& [field, value, expected] : cases) {
    test::forge(path, forged, field, value);
    const std::string error = user_error([&] { run(forged); });
    EXPECT_TRUE(contains(error, expected)) << field << ": " << error;
  }
}

}  // namespace
}  // namespace toroid
