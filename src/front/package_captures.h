// What the functions of a package capture: names of these tensors, and memory that several functions have.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "package/write.h"

namespace toroid::front {

// In which writes are known: what an input takes is an output.
std::unique_ptr<graph::Graph> functional(std::unique_ptr<graph::Graph> g);

class PackageCaptures {
 public:
  // names: PackageOptions::weight_names. UserError for one that cannot be shown, or that could be a number.
  explicit PackageCaptures(const std::map<std::string, Tensor>& names);

  // An entry's graph. Its captured tensors get the names that they have been given, else captured, captured_1, ...: for each tensor one
  // name in all entries. several: it is not the only entry.
  void add(const std::string& entry, graph::Graph& g, bool several);
  // When all are there. UserError for names of which none is captured, and for memory that one entry writes to and another has in part.
  void settle();

  // All names of a tensor; none: it has been given none.
  std::vector<std::string> names_of(const Tensor& t) const;
  // What has been given a name and is in no entry.
  std::vector<package::NamedWeight> unused() const;

  // Takes from the graph what others write to and it only reads: it must be no constant of the program, and becomes an input of a call.
  void open_states(const std::string& entry, graph::Graph& g) const;
  // Binds these inputs of the program again. Inputs that are memory of several entries, with its name. arguments: how many the entry takes.
  std::map<int, std::string> bind_states(const std::string& entry, size_t arguments, exec::Loadable& program) const;

 private:
  struct Captured {
    std::string entry, name;
    Tensor tensor;
    bool written = false, state = false;  // by the entry; that it is memory of several entries
  };
  const Captured* find(const std::string& entry, const std::string& name) const;

  const std::map<std::string, Tensor>& given_;
  std::vector<Captured> captured_;
  std::map<std::string, int> numbers_;  // how many have a number, by what stands before it
};

}  // namespace toroid::front
