// SPDX-License-Identifier: Apache-2.0
// The normalization behind a convolution, on its output as operands. No torch.
//
// docs/normalization.md has the formulas; x is the output before it is rounded for the statistics,
// and the rounded one everywhere else.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "model/own/passes.hpp"
#include "model/own/plan.hpp"
#include "model/own/workspace.hpp"

namespace eqt::model::precision {

// A batch is computed in lanes: equal parts of neighbouring samples. Sums over a batch are those of
// its lanes, in their order, so that their bits do not depend on which threads have computed them.
inline constexpr std::size_t kMostLanes = 4;

/// Returns 4, 2 or 1 lanes, the most of these that divide the samples into equal parts.
constexpr std::size_t lanes_for(std::size_t samples) {
  std::size_t lanes = kMostLanes;
  while (samples % lanes != 0) lanes /= 2;
  return lanes;
}

/// Operands of a sample, zero point 0: 8-bit integers, or floats, whose scale is 1.
template <typename Operand>
struct SampleValues {
  std::span<const Operand> values;
  float scale;
};

/// (channels) each; v is empty for layers without an activation, all are if there is no layer.
struct NormParameters {
  Floats weight, bias, v;
};
/// These are gradients of the same shapes; those of frozen parameters are empty.
struct NormGradients {
  std::span<float> weight, bias, v;
};

/// Samples of different lanes may be given by different threads at the same time, those of one lane
/// in order. Nothing is allocated after the first pass of a batch size.
template <typename Operand>
class Norm {
 public:
  using Sample = SampleValues<Operand>;

  virtual ~Norm() = default;

  /// Begins a pass.
  /// @param parameters  must outlive the pass
  /// @param running  (2, channels) of layers that have running values
  /// @throws Error{usage} naming the layer if this many samples cannot be normalized
  virtual void start(std::size_t samples, Pass pass, const NormParameters& parameters,
                     std::span<float> running) = 0;
  /// Takes the floats of each sample.
  virtual void measure(Floats x, std::size_t sample) = 0;
  /// Called after the last of them; updates the running values in training.
  virtual void finish() = 0;
  virtual void apply(const Sample& x, std::size_t sample, Output output, std::span<float> out) = 0;
  /// Returns the largest magnitude that apply() would write of a sample, infinite or NaN if one of
  /// them is; empty if only apply() knows. @pre output is not Output::added
  virtual std::optional<float> largest(const Sample& /*x*/, std::size_t /*sample*/,
                                       Output /*output*/) {
    return {};
  }
  /// g = 0 where the output of norm(x) is cut, by the same floats as in apply().
  virtual void gate(const Sample& x, std::size_t sample, Output output, std::span<Operand> g) = 0;

  /// Begins the backward pass.
  virtual void start_backward() = 0;
  /// Takes the error g of each sample's output.
  virtual void sum_error(const Sample& g, const Sample& x, std::size_t sample) = 0;
  /// Called after the last of them; writes the gradients.
  virtual void finish_backward(const NormGradients& gradients) = 0;
  /// The error of x, each channel times `factors` (channels).
  virtual void error(const Sample& g, const Sample& x, std::size_t sample, Floats factors,
                     std::span<float> out) = 0;

  /// Returns the largest magnitude that error() would write of a sample, as largest() does.
  /// @pre is_pixelwise()
  virtual std::optional<float> largest_error(const Sample& /*g*/, const Sample& /*x*/,
                                             std::size_t /*sample*/, Floats /*factors*/) {
    return {};
  }

  /// False if error() takes whole samples only; apply() takes some pixels of one as well.
  virtual bool is_pixelwise() const { return true; }
  /// False if a number that is added to all x of a channel changes nothing.
  virtual bool sees_bias() const { return true; }
  /// Returns the bytes of what is kept for this many samples.
  virtual std::size_t bytes(std::size_t samples) const = 0;
};

// One for each kind of statistics: of the channels of a batch (batch_norms.cpp), and of the groups
// of channels of a sample (group_norms.cpp).
template <typename Operand>
std::unique_ptr<Norm<Operand>> make_batch_norm(const Plan& plan, const Branch& branch);
template <typename Operand>
std::unique_ptr<Norm<Operand>> make_group_norm(const Plan& plan, const Branch& branch);

/// Makes the normalization of a branch; if it has none, norm(x) = x.
/// @throws Error{usage} naming the layer if its outputs cannot be normalized
template <typename Operand>
std::unique_ptr<Norm<Operand>> make_norm(const Plan& plan, const Branch& branch) {
  return branch.norm && plan.groups > 0 ? make_group_norm<Operand>(plan, branch)
                                        : make_batch_norm<Operand>(plan, branch);
}

}  // namespace eqt::model::precision
