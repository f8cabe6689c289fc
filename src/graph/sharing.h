// Whether what equal calls and equal kernels have in common is found once. Tests compare both ways, which must give the same programs.
#pragma once

namespace toroid::graph {

bool shares_equal_work();

// While one lives, every call and every kernel is looked at by itself, by all threads.
class EachByItself {
 public:
  EachByItself();
  ~EachByItself();
  EachByItself(const EachByItself&) = delete;
};

}  // namespace toroid::graph
