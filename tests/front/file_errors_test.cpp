// What the file system refuses is an error of Toroid's with the path, at every door that takes one.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>

#include "base/options.h"
#include "errors.h"
#include "temp_folder.h"
#include "toroid/model.h"
#include "toroid/nn/layers.h"
#include "toroid/ops.h"
#include "toroid/package.h"
#include "toroid/save_package.h"
#include "toroid/weights.h"

namespace toroid {
namespace {

using test::contains;
using test::TempFolder;
using test::user_error;

TEST(FileErrors, AreToroidsWithThePath) {
  const TempFolder folder;
  std::filesystem::create_symlink("loop", folder.path / "loop");
  std::filesystem::create_directory(folder.path / "folder");
  write_file_atomic(folder / "file", "text");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const std::vector<std::string> paths = {"",
                                          folder / "none",
                                          folder / "loop",
                                          folder / "folder",
                                          folder / "loop/m",
                                          folder / "file/m",
                                          folder / "none/m",
                                          folder / std::string(300, 'x').c_str(),
                                          "/" + std::string(5000, 'y'),
                                          "/proc/self/none",
                                          folder / "pipe",
                                          std::string("a\0b", 3)};
  const std::vector<Tensor> examples{ones({2})};
  const auto twice = [](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * 2}; };
  nn::Linear linear(2, 2);
  const std::pair<const char*, std::function<void(const std::string&)>> readers[] = {
      {"Model::load", [](auto& p) { Model::load(p); }},
      {"load_model, by the cache of programs",
       [](auto& p) {
         const ScopedOption on("cache_programs", "1");
         Model::load(p);
       }},
      {"save_package of a model", [&](auto& p) { save_package(p, folder / "out.tpk"); }},
      {"PackageFile::open", [](auto& p) { PackageFile::open(p); }},
      {"load_tensors", [](auto& p) { load_tensors(p); }},
      {"Module::load", [&](auto& p) { linear.load(p); }}};
  const std::pair<const char*, std::function<void(const std::string&)>> writers[] = {
      {"save_package", [&](auto& p) { save_package(twice, examples, p); }},
      {"save_tensors",
       [&](auto& p) {
         save_tensors(p, {{"x", examples[0]}});
       }},
      {"Module::save", [&](auto& p) { linear.save(p); }}};
  // Whether it fails with an error of Toroid's that has the path.
  const auto refuses = [](const char* name, const std::function<void(const std::string&)>& door, const std::string& path) {
    try {
      door(path);
      ADD_FAILURE() << name << " takes \"" << path << "\"";
    } catch (const InternalError& e) {
      ADD_FAILURE() << name << ": " << e.what();
    } catch (const Error& e) {
      EXPECT_TRUE(contains(e.what(), path.c_str())) << name << ": " << e.what();
    } catch (const std::exception& e) {
      ADD_FAILURE() << name << " of \"" << path << "\" throws " << typeid(e).name() << ": " << e.what();
    }
  };
  for (auto& path : paths) {
    for (auto& [name, read] : readers) refuses(name, read, path);
    if (path == folder / "none" || path == folder / "file" || path == folder / "loop") continue;  // can be written, or replaced
    for (auto& [name, write] : writers) refuses(name, write, path);
  }
  EXPECT_TRUE(std::filesystem::is_fifo(folder.path / "pipe")) << "nothing has taken its place";
}

struct OwnError : std::filesystem::filesystem_error {
  using filesystem_error::filesystem_error;
};

// What the function throws is its caller's own.
TEST(FileErrors, OfAFunctionThatIsPackedPassAsTheyAre) {
  const TempFolder folder;
  const auto packed = [&](const std::function<void()>& fails) {
    save_package(
        [&](const std::vector<Tensor>& in) {
          fails();
          return in;
        },
        {ones({2})}, folder / "f.tpk");
  };
  EXPECT_THROW(packed([] { throw OwnError("mine", std::make_error_code(std::errc::no_such_file_or_directory)); }), OwnError);
  EXPECT_THROW(packed([] { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_THROW(packed([] { throw 7; }), int);
  EXPECT_FALSE(std::filesystem::exists(folder / "f.tpk"));
}

}  // namespace
}  // namespace toroid
