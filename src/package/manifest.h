// What a package says of itself: manifest.json.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "toroid/dtype.h"

namespace toroid::package {

// Another number where a reader of the number before would misread a package. Readers take kOldestFormat to kFormat.
inline constexpr int64_t kFormat = 3, kOldestFormat = 1;
// Of packages whose entries share no memory, with weights beside them or with nothing.
inline constexpr int64_t kFormatBeside = 2, kFormatInOneFile = 1;
inline constexpr std::string_view kFormatName = "toroid-package";
inline constexpr const char *kManifest = "manifest.json", *kManifestHash = "manifest.sha256", *kWeights = "weights.safetensors",
                            *kRecipes = "recipes.plan";
inline constexpr const char* kWeightsFolder = "weights";  // beside the package, where it has no other

// A file beside the package, "SHA256.safetensors", which holds one tensor. Packages in a folder share those that are equal.
struct WeightFile {
  std::string sha256;
  uint64_t bytes = 0;
  std::string head;  // SHA-256 of its header
};

// A file of the package; the manifest and its hash aside.
struct Part {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;
};

struct Value {
  std::string name, type;  // "f32[s0, 768]"
  bool written = false;    // an input that a run writes to
};

struct Size {
  std::string name;
  int64_t least = 0, greatest = 0;
};

// Where decisions of tuning come from. No time: equal programs give equal bytes.
struct Tuning {
  std::string by;      // "lock" (file), "timing"; "nothing": the mode does not tune, or had to decide without
  std::string lock;    // SHA-256 of the lock file
  std::string device;  // what was decided for, as lock files name it
};

// An input of a program that is memory of several entries.
struct StateUse {
  int input = 0;  // of the plan
  int state = 0;  // number of Manifest::states
};

// An entry compiled for one kind of machine.
struct Program {
  std::string target;                                       // as it was asked for: "x86-64-v3"
  std::string device;                                       // "cpu", "cuda"
  std::string code_for;                                     // see exec::Plan
  std::string plan;                                         // the part
  std::vector<std::string> kernels, libraries, operations;  // parts; what is opened at run time; calls of reference implementations
  int64_t driver = 0;                                       // the least version of a GPU's driver: 13000 is CUDA 13.0
  std::string precision = {};                               // the lowest that it computes in: "f64", "f32", "tf32", "f16", "bf16"
  double tolerance = 0;                                     // error of f32 results that it leaves, as a part of their range; 0: unknown
  Tuning tuning = {};
  std::vector<StateUse> states = {};            // what it keeps alone is not listed
  std::vector<std::string> gpu_functions = {};  // operations whose functions for GPUs it calls
};

// A function of the package.
struct Entry {
  std::string name;
  std::vector<Value> inputs, outputs;
  std::vector<Size> sizes;
  std::vector<Program> programs;  // the first one that fits a machine is for it
};

// Where the elements of a tensor lie.
struct Layout {
  DType dtype = DType::F32;
  std::vector<int64_t> sizes, strides;
  bool operator==(const Layout&) const = default;
};

// Memory that several entries have and one writes to: of a session, which calls them all.
struct State {
  std::string name;
  Layout layout;
};

// A constant that plans name, as it lies in the weights.
struct Constant {
  std::string tensor;  // its name there: elements from the first to the last one in memory
  Layout layout;
  int recipe = -1;  // number of its recipe; -1: it is part of the program
  int file = -1;    // number of the file beside the package that holds it; -1: it is in the package's weights
};

// A parameter or buffer of the models, which others can take the place of.
struct Weight {
  std::vector<std::string> names;  // one tensor
  Layout layout;
  std::string sha256;  // of its elements, row-major: only the same can be given, as it is part of the program; empty: any
};

// How a constant is made of weights: it is one, or the result of a call of the reference evaluator, or it is laid out anew.
struct Recipe {
  Layout layout;  // of what is made
  int weight = -1;
  std::string constant;  // it is this one, and part of the program
  std::string call;      // an operation, with the arguments of
  int step = -1;         // this step of the plan kRecipes, whose tensors are places in `of`
  int64_t result = 0;
  std::string packing;  // see graph::Recipe::layout
  std::vector<int64_t> numbers;
  std::vector<int> of;  // numbers of recipes before it; -1: no tensor
};

struct Manifest {
  int64_t format = kFormat;
  int64_t plan_version = 0, kernel_abi = 0;
  std::string system, machine;  // "linux", "x86-64"
  std::string compiler;         // what made the kernels, for people
  std::string toroid;           // version and hash of the sources of the library that made it, for people
  std::string mode;             // and how: "default", "max-autotune"
  std::vector<Entry> entries;
  std::map<std::string, Constant> constants;
  std::vector<State> states;
  std::vector<Weight> weights;  // none where the package was made without `swappable`
  std::vector<Recipe> recipes;
  std::vector<WeightFile> files;  // beside the package
  std::string weights_head;       // SHA-256 of the weights' header, which says what lies where
  std::vector<Part> parts;        // by name
};

std::string to_json(const Manifest& m);
// Names of the weights that others can take the place of, and that a program uses.
std::vector<std::string> swappable_weights(const Manifest& m);

// A field that must be as this runtime has it.
struct Requirement {
  std::string field, its, ours;  // "1 to 2" where several will do
  std::string remedy;            // what to do where it is not met
  bool met = false;
};
// Of a manifest, in the order in which they are looked at. UserError for text that is none.
std::vector<Requirement> requirements(std::string_view json, const std::string& source);

// source: for messages. UserError for text that is no manifest, and for one that this runtime cannot take, which names the field, its
// value, what is expected, and what makes a package that fits.
Manifest read_manifest(std::string_view json, const std::string& source);

}  // namespace toroid::package
