// Planted bugs of gradients, for proving that the checks of gradients catch each. Compiled in with TOROID_GRADIENT_BUGS alone (the program
// test_planted); elsewhere each is the constant false.
#pragma once

// Each bug: its name, the place, and what it does.
#define TOROID_EACH_GRADIENT_BUG(BUG) \
  BUG(BroadcastNotSummed, "rules/forms.cpp, sum_to", "of what was broadcast, one copy's gradient is taken") \
  BUG(BroadcastMean, "rules/forms.cpp, sum_to", "the sum over what was broadcast is a mean") \
  BUG(FrozenSize, "rules/forms.cpp, zeros", "sizes that vary count as 2") \
  BUG(DtypeNotCast, "rule.cpp, GradientCall::set", "a gradient keeps the dtype of the result") \
  BUG(AccumulateOverwrites, "differentiate.cpp, accumulate", "of several uses of a value, the last one to be reversed counts") \
  BUG(FirstUseAlone, "differentiate.cpp, accumulate", "of several uses of a value, the first one to be reversed counts") \
  BUG(FirstOutputAlone, "differentiate.cpp, seed", "cotangents of the outputs after the first one are dropped") \
  BUG(TiedOnce, "differentiate.cpp, run", "a parameter that is an input twice counts once") \
  BUG(OtherBranch, "control.cpp, cond_gradients", "the gradient is that of the branch that was not taken") \
  BUG(ScanForward, "control.cpp, scan_gradients", "the gradients run forward, too") \
  BUG(WrongResult, "differentiate.cpp, reverse", "the cotangents of a call's results are exchanged") \
  BUG(ListShifted, "differentiate.cpp, reverse", "the gradients of a list are those of its neighbours") \
  BUG(IntegersChange, "differentiate.cpp, has_gradient", "gradients pass through integers") \
  BUG(DetachIgnored, "rules/view.cpp, no_gradient", "gradients pass through detach") \
  BUG(VarianceCorrection, "rules/reduction.cpp, variance_rule", "one element too few counts") \
  BUG(MeanForgotten, "rules/reduction.cpp, variance_rule", "the mean beside a variance has no gradient") \
  BUG(PoolFirst, "rules/pool.cpp, max_pool_rule", "each window takes its maximum from the first element of the input") \
  BUG(AttentionMean, "ops/rows/attention_gradients.cpp, gradients_of", "the weights of a row change by themselves") \
  BUG(AttentionFirstHeads, "ops/rows/attention_gradients.cpp, heads_of", "each part is of the first heads") \
  BUG(AttentionLogarithms, "rules/attention.cpp, flash_rule", "a change of the logarithms of sums is dropped") \
  BUG(AttentionMaskLost, "rules/attention.cpp, with_logsumexp", "the forward pass forgets its mask") \
  BUG(ViewOffset, "rules/view.cpp, gathered_back", "the offset of a view is ignored") \
  BUG(OverlapOverwrites, "rules/view.cpp, gathered_back", "of elements that a view shows twice, one counts") \
  BUG(WriteBackLast, "rules/view.cpp, overwriting", "of several results of a view, the last one counts") \
  BUG(FlipNotUndone, "rules/view.cpp, flip_rule", "a gradient is not flipped") \
  BUG(RollForward, "rules/view.cpp, roll_rule", "a gradient is rolled as the result was") \
  BUG(RepeatInterleaved, "rules/view.cpp, repeat_rule", "copies count as neighbours") \
  BUG(UnfoldPlace, "rules/view.cpp, unfold_rule", "each place of a window counts as its first one") \
  BUG(WriteNotCut, "rules/index.cpp, view_scatter_rule", "what was overwritten in a part gets a gradient") \
  BUG(PutNotCut, "rules/index.cpp, index_put_rule", "what index_put overwrote gets a gradient") \
  BUG(ScatterNotCut, "rules/index.cpp, cleared", "what scatter overwrote gets a gradient") \
  BUG(IndexOverwrites, "rules/index.cpp, index_rule", "of rows that were read twice, one counts") \
  BUG(EmbeddingPadding, "rules/index.cpp, embedding_rule", "the padding row gets a gradient") \
  BUG(EmbeddingFrequency, "rules/index.cpp, embedding_rule", "gradients are not scaled by how often a row was read") \
  BUG(GatherDimension, "rules/index.cpp, gather_rule", "gradients go along the last dimension") \
  BUG(MeanCount, "rules/index.cpp, scatter_mean", "the mean counts the old value although it has no part") \
  BUG(ScatterTies, "rules/index.cpp, scatter_extremum", "an extremum's mask asks for >= in place of ==") \
  BUG(BagPadding, "rules/bags.cpp, counted", "the padding row of a bag gets a gradient") \
  BUG(BagWeights, "rules/bags.cpp, bag_rule", "the samples' weights are left out") \
  BUG(BagMean, "rules/bags.cpp, bag_rule", "a mean is not divided by the size of its bag") \
  BUG(SegmentEdge, "rules/bags.cpp, Runs", "the first element of a run counts to the one before") \
  BUG(SegmentTies, "rules/bags.cpp, segment_rule", "equal extrema get the whole gradient each") \
  BUG(CombinationsOverwrite, "rules/index.cpp, combinations_rule", "of the combinations of an element, one counts") \
  BUG(CatOffset, "rules/index.cpp, cat_rule", "each part gets the gradient of the first one") \
  BUG(PadSwapped, "rules/index.cpp, pad_rule", "padding in front and behind are exchanged") \
  BUG(SumCotangent, "rules/reduction.cpp, sum_rule", "the cotangent of a sum is 1") \
  BUG(ProductOfBehind, "rules/reduction.cpp, prod_rule", "what stands behind an element has no part") \
  BUG(ExtremumWhole, "rules/reduction.cpp, extremum_rule", "equal extrema get the whole gradient each") \
  BUG(ExtremumMask, "rules/reduction.cpp, extremum_rule", "an extremum's mask asks for >= in place of ==") \
  BUG(PickedDimension, "rules/reduction.cpp, picked_rule", "the dimension is off by one") \
  BUG(SoftmaxSum, "rules/reduction.cpp, softmax_rule", "the term of the row's sum is missing") \
  BUG(LogSoftmaxSign, "rules/reduction.cpp, log_softmax_rule", "the sign of the row's sum") \
  BUG(LogsumexpCotangent, "rules/reduction.cpp, logsumexp_rule", "the cotangent is dropped") \
  BUG(NormPower, "rules/reduction.cpp, vector_norm_rule", "a power is off by one") \
  BUG(CumsumForward, "rules/scan.cpp, cumsum_rule", "the sum of cotangents runs forward") \
  BUG(CumprodFirstZero, "rules/scan.cpp, cumprod_rule", "the first zero gets no gradient") \
  BUG(LogcumsumexpSign, "rules/scan.cpp, logcumsumexp_rule", "negative cotangents count as positive") \
  BUG(ProductTransposed, "rules/product.cpp, product_rule", "a factor is not transposed") \
  BUG(ConvolutionStride, "ops/rows/convolution_gradients.cpp, weight_gradient", "stride and dilation are not exchanged") \
  BUG(ConvolutionGroups, "ops/rows/convolution_gradients.cpp, channels_first", "images and groups are exchanged") \
  BUG(ConvolutionBias, "rules/product.cpp, convolution_rule", "the bias gets the gradient of one image") \
  BUG(ConvolutionRest, "rules/product.cpp, left_over", "input behind the last window is forgotten") \
  BUG(ConjugateMissing, "rules/complex.cpp, complex_pointwise_rule", "a factor is not conjugated") \
  BUG(FourierDirection, "rules/complex.cpp, c2c_rule", "the transform of the gradient goes the same way") \
  BUG(HalfSpectrum, "rules/complex.cpp, c2r_rule", "frequencies that stand for two count once") \
  BUG(SolveTransposed, "rules/linalg.cpp, solve_rule", "the matrix is not transposed") \
  BUG(CholeskyDiagonal, "rules/linalg.cpp, cholesky_rule", "the diagonal is not halved") \
  BUG(DeterminantFactor, "rules/linalg.cpp, determinant_rule", "the factor det is missing") \
  BUG(EighGaps, "rules/linalg.cpp, gaps", "the sign of the gaps between eigenvalues") \
  BUG(WrongOperand, "ops/scalar_program.cpp, Mul", "by the first factor: the first one in place of the second one") \
  BUG(DivisionSign, "ops/scalar_program.cpp, Div", "by the divisor: the sign") \
  BUG(PowerFactor, "ops/scalar_program.cpp, Pow", "the exponent as a factor is missing") \
  BUG(CosineSign, "ops/scalar_program.cpp, Cos", "the sign") \
  BUG(TanhSquare, "ops/scalar_program.cpp, Tanh", "the result is not squared") \
  BUG(MaximumTies, "ops/scalar_program.cpp, Max", "of equal operands each gets the whole gradient") \
  BUG(ChosenAlone, "ops/derivative.cpp, derive", "0 times an infinite slope is no number") \
  BUG(CotangentOfZero, "ops/derivative.cpp, derive", "by a cotangent that is 0, a derivative is 0") \
  BUG(ClampMask, "ops/slopes.cpp, clamp", "the upper limit lets pass what is above it") \
  BUG(QuantizedEverywhere, "ops/slopes.cpp, fake_quantize", "what fake quantization clamps has a gradient") \
  BUG(LastPartAlone, "rules/loss.cpp, of_projection", "of the parts of a projection, the last one has a gradient") \
  BUG(RowsUncounted, "rules/loss.cpp, of_projection", "a mean is not divided by its rows") \
  BUG(FlowStays, "partition/min_cut.cpp, push", "flow that was pushed once cannot be taken back") \
  BUG(CheckpointKept, "partition/partition.cpp, cost_of_saving", "values of a checkpoint are saved") \
  BUG(AgainUnmarked, "partition/recompute.cpp, recompute", "what is computed again looks like a part of the forward pass") \
  BUG(AgainForAll, "partition/recompute.cpp, recompute", "outputs of the forward pass are what the backward pass computes again") \
  BUG(ContentsShared, "partition/partition.cpp, Partitioner", "new contents of inputs count as memory that nobody writes") \
  BUG(SavedShifted, "partition/divide.cpp, make_forward", "each value is saved in the place of its neighbour") \
  BUG(DrawnAnew, "partition/divide.cpp, make_backward", "the backward pass draws random numbers of its own") \
  BUG(ZeroCounted, "partition/divide.cpp, Division", "gradients behind one that is 0 are those of their neighbours") \
  BUG(CotangentShifted, "partition/divide.cpp, drop_unread", "the cotangents of two results are exchanged")

namespace toroid {

enum class GradientBug {
  None,
#define TOROID_BUG(name, place, what) name,
  TOROID_EACH_GRADIENT_BUG(TOROID_BUG)
#undef TOROID_BUG
};

#ifdef TOROID_GRADIENT_BUGS
// The one that is switched on.
inline GradientBug active_gradient_bug = GradientBug::None;
inline bool planted(GradientBug b) { return b == active_gradient_bug; }
#else
constexpr bool planted(GradientBug) { return false; }
#endif

}  // namespace toroid
