// SPDX-License-Identifier: Apache-2.0
// Forward and backward pass of a convolutional network with 8-bit operands; README.md has the
// formulas. No torch.
//
// One thread computes. After the first step of a batch size it allocates nothing.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/random.hpp"
#include "int8/convolution.hpp"
#include "int8/quantize.hpp"
#include "model/precision/norm.hpp"
#include "model/precision/plan.hpp"
#include "model/precision/workspace.hpp"
#include "model/replica.hpp"

namespace eqt::model::precision {

/// Pictures of a batch.
struct Pictures {
  std::span<const float> values;  // (n, h, w, c), normalized
  data::ImageShape shape;
  Frame frame;       // zeros around each
  double share = 1;  // of mixup; the rest is that of the pictures in reverse order
};

class Executor {
 public:
  Executor(Plan plan, int8::Kernels kernels, const Int8Options& options = {});

  const Plan& plan() const { return plan_; }
  int8::Kernels kernels() const { return kernels_; }

  /// Quantizes the convolutions' weights; before a forward pass.
  /// @param parameters  (d) in the order of plan().parameters, which must outlive the passes
  /// @throws Error{diverged} naming the layer
  void set_parameters(std::span<const float> parameters);

  /// Means over the last node's pixels (n, c), valid until the next pass. Training normalizes by
  /// the batch and updates the running statistics in `buffers`.
  /// @throws Error{diverged} naming layer and step
  std::span<const float> forward(const Pictures& pictures, Pass pass, std::span<float> buffers,
                                 StepId step);

  /// After a forward pass in training: the gradient of convolutions and norms, from that of the
  /// means.
  /// @param key  names the random bits of rounding
  /// @param gradient  (d)
  /// @param ready  called with each slice that is complete
  void backward(std::span<const float> means, const RandomKey& key, std::span<float> gradient,
                const SliceReady& ready);

  /// Bytes of all that is allocated after steps of `trained` samples and evaluations of
  /// `evaluated` ones.
  std::size_t bytes(std::size_t trained, std::size_t evaluated) const;

  /// Values of all training passes that lay beyond their range and were cut; 0 unless ranges are
  /// the paper's.
  std::uint64_t clipped() const { return clipped_; }

 private:
  struct Layer {  // a branch
    int8::Convolution convolution;
    std::unique_ptr<Norm> norm;
    std::vector<double> bias_sums;  // (channels) of errors, if the bias has a gradient
    float error_range = 0;          // that all samples share; 0: each has its own
  };

  void prepare(std::size_t samples, Pass pass);
  void take_pictures(const Pictures& pictures);
  void compute_node(int i, std::span<float> buffers);
  void convolve(int branch, std::span<float> buffers);
  void start_norm(int branch, std::span<float> buffers);
  void pool(int i);
  void add_up(int i, std::size_t sample, std::span<float> out);
  void average();

  void start_error(std::span<const float> means);
  void gather_error(int i, std::span<float> gradient, const SliceReady& ready);
  /// What is to be computed from the errors of a branch's output.
  struct Wanted {
    std::span<float> gradient;     // that of the weight is added to; empty: it is not
    std::span<float> input_error;  // empty: not needed
  };
  void sum_of_readers(int i, std::size_t first, std::size_t n, std::span<float> gradient);
  std::span<const float> branch_error(int branch, std::size_t sample);
  float quantize_error(std::span<const float> x, float range, std::string_view what,
                       const RandomKey& key, std::size_t sample, std::span<std::int8_t> q);
  void through_branch(int branch, std::size_t first, std::size_t n, const Wanted& wanted);
  void take_wide_error(int branch, std::size_t sample, std::size_t k, std::span<const float> values,
                       std::span<float> gradient);
  void add_weight_gradient(int branch, std::size_t first, std::size_t n, std::span<float> gradient);
  void through_node(int i, int node, std::size_t sample, std::span<float> error);
  void finish_weight(int branch, std::span<float> gradient, const SliceReady& ready);
  void sum_error(int i, std::span<float> gradient, const SliceReady& ready);
  void finish_norm(int branch, std::span<float> gradient, const SliceReady& ready);
  void finish_bias(int branch, std::span<float> gradient, const SliceReady& ready);
  void round_error(int i, std::size_t first, std::size_t n, float range);

  /// The range of values that samples share, from the largest magnitude of each.
  class SharedRange {
   public:
    void add(float magnitude);
    /// @param clips  the mean of the magnitudes, not the largest
    float value(bool clips) const;

   private:
    float largest_ = 0;
    double sum_ = 0;
    std::size_t count_ = 0;
  };
  bool shares_ranges() const;
  bool clips() const { return options_.ranges == Int8Ranges::paper; }
  /// values(sample) returns floats. @return 0 if samples do not share ranges
  template <typename Values>
  float shared_range(bool clips, std::string_view what, const Values& values) const {
    if (!shares_ranges()) return 0;
    SharedRange range;
    for (std::size_t n = 0; n < samples_; ++n) range.add(int8::largest_magnitude(values(n), what));
    return range.value(clips);
  }
  void round_activation(std::span<const float> x, bool rectified, float range,
                        std::string_view what, const Samples& to, std::size_t sample);

  Samples node(int i) const { return now_->node(i).part(0, samples_); }
  Samples branch(int i) const { return now_->branch(i).part(0, samples_); }
  Samples error(int i) const { return now_->error(i).part(0, samples_); }
  static Rounded rounded(const Samples& samples, std::size_t i) {
    return {samples.sample(i), samples.scales[i]};
  }
  Layer& layer_of(int branch) { return layers_[static_cast<std::size_t>(branch)]; }
  int zero_point(int node) const;
  std::size_t chunk(int node) const;  // samples at a time
  std::span<const float> values(std::size_t slice) const;
  NormParameters norm_parameters(const Branch& branch) const;
  std::span<float> of(std::span<float> gradient, std::size_t slice) const;
  RandomKey key_for(int index, int kind) const;
  std::string_view label(const char* what, const std::string& layer);

  Plan plan_;
  int8::Kernels kernels_;
  Int8Options options_;
  std::vector<Layer> layers_;  // by branch
  Workspace training_, evaluation_;
  const Workspace* now_ = nullptr;
  Pass pass_ = Pass::evaluation;
  std::size_t samples_ = 0;
  StepId step_ = 0;
  RandomKey key_;
  std::span<const float> parameters_;
  std::vector<std::size_t> chunks_;          // by node
  LongArray<float> first_, second_, third_;  // a chunk's values each
  LongArray<std::byte> scratch_;
  std::size_t scratch_bytes_ = 0, float_values_ = 0;
  LongArray<std::int8_t> rounded_;  // a chunk's errors
  std::vector<float> rounded_scales_;
  // With wide errors: those of a sample, and a chunk's digits.
  LongArray<std::int16_t> wide_;
  LongArray<std::int8_t> high_, low_;
  std::vector<float> high_scales_, low_scales_;
  std::uint64_t clipped_ = 0;
  std::vector<std::int64_t> integer_sums_;  // (channels) of one sample
  std::vector<double> double_sums_;
  std::vector<float> means_;  // (n, c)
  std::array<char, 160> label_{};
};

}  // namespace eqt::model::precision
