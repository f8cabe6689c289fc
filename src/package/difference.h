// What differs between two packages.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "package/package.h"

namespace toroid::package {

struct Differences {
  // Of the manifest: "entries.main.sizes.s0.greatest", with both values as JSON; nothing where a package has none.
  struct Field {
    std::string path;
    std::optional<std::string> a, b;
  };
  // A kernel of a program by the name of its function, with the hashes of its code. A program that one package has alone has none here.
  struct Kernel {
    std::string program, name;  // "main for x86-64-v3"
    std::optional<std::string> a, b;
  };
  // The first line of a program in which it differs in more than hashes.
  struct Line {
    std::string program;
    size_t line = 0;  // from 1
    std::string a, b;
  };
  // A constant by its name in the weights, with both types.
  struct Weight {
    std::string name;
    std::optional<std::string> a, b;
    int64_t elements = 0, differ = 0;  // where dtype and sizes are equal
    double largest = 0;                // absolute difference; infinite where one is NaN and the other is not
    bool layout = false;               // strides differ
  };
  std::vector<Field> fields;
  std::vector<Kernel> kernels;
  std::vector<Line> lines;
  std::vector<Weight> weights;
  bool none() const { return fields.empty() && kernels.empty() && lines.empty() && weights.empty(); }
};

// UserError for a damaged part.
Differences differences(const Package& a, const Package& b);

}  // namespace toroid::package
