// Numbers for texts: equal ones for equal texts.
#pragma once

#include <string>
#include <unordered_map>

namespace toroid::compiler {

class Interner {
 public:
  int operator()(std::string text) { return numbers_.try_emplace(std::move(text), static_cast<int>(numbers_.size())).first->second; }

 private:
  std::unordered_map<std::string, int> numbers_;
};

}  // namespace toroid::compiler
