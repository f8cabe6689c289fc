// Planted bugs, for measuring how many the tests catch. Compiled in with TOROID_MUTANTS alone; elsewhere each is the constant false.
#pragma once

#include <cstdlib>

namespace toroid {

enum class Mutant {
  None,
  DroppedOffset,       // the offset of a strided place is forgotten
  WrongStride,         // row-major strides of the outer dimensions are taken from the wrong dimension
  AlwaysDense,         // memory in any order counts as row-major
  UnsettledReaders,    // what reads memory later is not computed before the memory is overwritten
  AlwaysInPlace,       // updates overwrite memory that others still read
  MissingAlias,        // an output that is an input or a part of another tensor gets no memory of its own
  NegativeIndex,       // negative indices are not wrapped
  PadLowerMask,        // padding in front is not masked
  PadOffByOne,         // the element behind the last one counts as inside
  ScatterSets,         // scatter_add overwrites
  PutSets,             // index_put with accumulate overwrites
  IndexFront,          // dimensions of adjacent index tensors always stand in front
  GatherDimension,     // gather indexes the last dimension
  WrongPromotion,      // division and functions of integers are computed in integers
  ConvolutionBorder,   // rows in front of the image are read
  SwappedStride,       // a convolution takes its vertical stride for the horizontal one
  LostBias,            // the bias of a convolution by loops is left out
  MaskBroadcast,       // an attention mask that is repeated is read on
  LostCausal,          // causal attention sees the future
  PathIgnored,         // two nodes are joined although a third lies between them
  FusedAcrossWrite,    // a node that overwrites what the other uses is joined with it
  ProducerAfterWrite,  // rows are computed after what they are made of was overwritten
  SharedTooMuch,       // loops share a launch although one reads the other's result
  StaleRows,           // a launch takes the rows of the one before for its own
  OtherElement,        // a load is replaced by the value stored at another index
  SkippedStore,        // a store that others read is dropped
  SeveralWriters,      // one of several writers counts as the only one
  OverAnyElement,      // a temporary is written over one of which other elements are read later
  ReadBeforeWrite,     // nothing keeps a write behind the reads of the old contents
  LostModulo,          // a variable of a split domain runs on
  MixedKinds,          // space and reduction variables are matched with each other
  SkippedTail,         // points that fill no vector are left out
  TaskOverrun,         // the last group of tasks runs over the end
  LostAccumulator,     // only one of several accumulators reaches the result
  LostTail,            // terms of a reduction that fill no vector are left out
  LostCarry,           // a scan begins anew with each vector
  WrongPosition,       // positions are counted in the order of the loops
  DroppedLaneMask,     // a load of lanes is masked as a whole by its first lanes
  DroppedScalarMask,   // a load of one element is not masked
  WrongShuffle,        // backward loads are shifted by one lane
  MergedLoops,         // two loops are merged although an address does not run on
  ParallelScatter,     // stores that meet in one element run at once, in any order
  WrongIdentity,       // a maximum starts at zero
  ArenaOverlap,        // memory is given away one step too early
  SkippedWriteBack,    // what was written in place into the copy of an input stays there
  IgnoredStrides,      // inputs count as row-major
  StaleView,           // a view that is read after a write to its base shows the old contents
  EqualOperations,     // operations with other operands count as equal
  DeadWrite,           // memory may be overwritten that is read later
  DonatedEarly,        // memory that a call gives up is written by the step that reads it last
};

#ifdef TOROID_MUTANTS
// Whether this bug is the one that the environment variable TOROID_MUTANT names by its number.
inline bool mutant(Mutant m) {
  static const Mutant active = [] {
    const char* text = std::getenv("TOROID_MUTANT");
    return static_cast<Mutant>(text ? std::atoi(text) : 0);
  }();
  return m == active;
}
#else
constexpr bool mutant(Mutant) { return false; }
#endif

}  // namespace toroid
