// SPDX-License-Identifier: Apache-2.0
// Forward and backward pass of a convolutional network with 8-bit operands; README.md has the
// formulas. The same with float32 operands, which are not rounded. No torch.
//
// Threads compute the lanes of a batch (norm.hpp), so results do not depend on their number. After
// the first step of a batch size nothing is allocated.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/random.hpp"
#include "core/rounded_rows.hpp"
#include "core/worker_threads.hpp"
#include "int8/convolution.hpp"
#include "int8/quantize.hpp"
#include "model/own/float_convolution.hpp"
#include "model/own/norm.hpp"
#include "model/own/operands.hpp"
#include "model/own/passes.hpp"
#include "model/own/pictures.hpp"
#include "model/own/plan.hpp"
#include "model/own/squeeze.hpp"
#include "model/own/workspace.hpp"
#include "model/replica.hpp"

namespace eqt::model::precision {

template <typename Operand>
class Executor {
 public:
  /// @param kernels  of 8-bit operands
  /// @param threads  that compute; more than kMostLanes are not used
  Executor(Plan plan, int8::Kernels kernels, const Int8Options& options = {}, int threads = 1);

  const Plan& plan() const { return plan_; }
  int8::Kernels kernels() const { return kernels_; }

  /// Quantizes the convolutions' weights, or lays floats out, except those that round() has
  /// quantized if the pass is one of training, and frozen ones that have not changed; before a
  /// forward pass.
  /// @param parameters, frozen  in the orders of plan(), which must outlive the passes
  /// @throws Error{diverged} naming layer and step
  void set_parameters(std::span<const float> parameters, std::span<const float> frozen, Pass pass,
                      StepId step);

  /// Called where frozen parameters may have changed since the last pass.
  void expect_other_frozen() { frozen_are_set_ = false; }

  /// WeightRounding's, of 8-bit operands. @param slice  of plan().parameters
  std::optional<RoundedRows> round(std::size_t slice, std::span<const float> values, StepId step);
  void release();

  /// Means or maxima over the last node's pixels (n, c), valid until the next pass. Training
  /// normalizes by the batch and updates the running statistics in `buffers`.
  /// @param pictures  whose values must outlive the backward pass
  /// @param dropout  names the random numbers that leave branches out; null: none is
  /// @throws Error{diverged} naming layer and step
  std::span<const float> forward(const Pictures& pictures, Pass pass, std::span<float> buffers,
                                 StepId step, const RandomKey* dropout = nullptr);

  /// After a forward pass in training: the gradient of convolutions and norms that are trained,
  /// from that of the means or maxima. Nodes in front of all of them have no errors.
  /// @param key  names the random bits of rounding
  /// @param gradient  of plan().parameters
  /// @param ready  called with each slice of plan().parameters that is complete
  void backward(std::span<const float> means, const RandomKey& key, std::span<float> gradient,
                const SliceReady& ready);

  /// Returns where the gradient of a tensor is in that of plan().parameters: nowhere if it is
  /// frozen.
  std::span<float> gradient_of(std::size_t tensor, std::span<float> gradient) const;

  /// Bytes of all that is allocated after steps of `trained` samples and evaluations of
  /// `evaluated` ones.
  std::size_t bytes(std::size_t trained, std::size_t evaluated) const;

  /// Values of all training passes that lay beyond their range and were cut; 0 unless ranges are
  /// the paper's.
  std::uint64_t clipped() const;

 private:
  using Samples = precision::Samples<Operand>;

  struct Layer {  // a branch
    ConvolutionOf<Operand> convolution;
    std::unique_ptr<Norm<Operand>> norm;
    std::vector<double> bias_sums;  // (lanes, channels) of errors, if the bias has a gradient
    std::vector<std::uint8_t> places = {};  // of maxima, if it pools; max_pool_rows() has them
    std::vector<float> factors = {};        // of each sample, if it is left out of some
    float error_range = 0;                  // that all samples share; 0: each has its own
    bool is_rounded = false;                // by round()
  };

  /// A Room holds what a thread needs for itself.
  struct Room {
    LongArray<float> first, second, third;  // a chunk's values each
    LongArray<std::byte> scratch;
    LongArray<Operand> rounded;  // a chunk's errors
    std::vector<float> rounded_scales;
    // With WeightGradient::int16 these hold the errors of a sample, and a chunk's digits.
    LongArray<std::int16_t> wide;
    LongArray<std::int8_t> high, low;
    std::vector<float> high_scales, low_scales;
    std::uint64_t clipped = 0;
    // (channels) of one sample
    std::vector<SumOf<Operand>> operand_sums, operand_products;
    std::vector<double> double_sums;
    std::vector<float> factors, shifts;
    LabelText label{};
  };

  /// Samples that a thread computes one after the other.
  struct Lane {
    std::size_t index = 0;
    std::size_t first = 0, end = 0;  // samples
    Room& room;
  };

  /// Values of a sample, those of neighbouring pixels.
  struct Part {
    std::size_t first = 0, count = 0;
    template <typename Value>
    std::span<Value> of(std::span<Value> sample) const {
      return sample.subspan(first, count);
    }
  };
  static Part whole(std::size_t count) { return {0, count}; }
  static bool is_large(std::size_t count);
  /// Calls work(part) for the parts of a large sample, which stay in a cache.
  template <typename Work>
  static void for_each_part(std::size_t count, std::size_t channels, const Work& work) {
    const std::size_t step = part_values(channels);
    for (std::size_t first = 0; first < count; first += step)
      work(Part{first, std::min(step, count - first)});
  }
  static std::size_t part_values(std::size_t channels);

  /// Sums says how a weight gradient is summed.
  enum class Sums {
    in_lanes,    // each lane has a sum of its own
    by_outputs,  // each thread has some output channels of all samples: where weights are many
    in_order,    // one sum for all
  };

  void set_weights(std::size_t branch, std::span<const float> weights);
  void make_room(Room& room, std::size_t samples, std::size_t channels);
  /// Calls work(lane) for each lane, with as many threads as there are.
  template <typename Work>
  void for_each_lane(const Work& work) {
    const std::size_t lanes = lanes_for(samples_), width = samples_ / lanes;
    const std::size_t parts = std::min(lanes, wide_errors() ? 1 : threads_.count());
    threads_.run(parts, [&](std::size_t part) {
      for (std::size_t i = part; i < lanes; i += parts)
        work(Lane{i, i * width, (i + 1) * width, rooms_[part]});
    });
  }
  /// Calls work(lane, first, n) for consecutive samples of the lane, at most `step` of them.
  template <typename Work>
  static void for_each_chunk(const Lane& lane, std::size_t step, const Work& work) {
    for (std::size_t first = lane.first; first < lane.end; first += step)
      work(first, std::min(step, lane.end - first));
  }

  void prepare(std::size_t samples, Pass pass);
  void drop_branches(const RandomKey& key);
  std::span<float> picture(std::size_t sample, Room& room) const;
  std::span<float> filtered(std::size_t sample, Room& room) const;
  void take_pictures();
  void compute_node(int i, std::span<float> buffers);
  std::span<float> activation(int i, std::size_t sample, Room& room, const Part& part);
  std::span<float> activation(int i, std::size_t sample, Room& room) {
    return activation(i, sample, room, whole(plan_.node(i).count()));
  }
  bool is_in_parts(int node) const;
  float known_range(int i, std::size_t sample);
  void round_node(int i, std::size_t sample, float range, std::string_view what, Room& room);
  void compute_again(int i);
  void convolve(int branch, std::span<float> buffers);
  void start_norm(int branch, std::span<float> buffers);
  void pool(int i);
  void scale_channels(int i);
  std::span<float> scaled(int i, std::size_t sample, Room& room);
  Floats pooled(int branch, std::size_t first, std::size_t n, Room& room);
  void add_up(int i, std::size_t sample, const Part& part, std::span<float> out);
  void average();
  void average_sample(int node, std::size_t sample, Room& room, std::span<float> means);
  void take_maxima(std::size_t sample, Floats x);

  void start_error(std::span<const float> means);
  void spread_over_maxima(std::size_t sample, Floats gradient, Room& room);
  void through_activation(int i, std::size_t sample, Room& room, std::span<float> error);
  void through_filters(const Lane& lane, std::size_t first, std::size_t n);
  void finish_filters(std::span<float> gradient, const SliceReady& ready);
  void gather_error(int i, std::span<float> gradient, const SliceReady& ready);
  void squeeze_backward(int i, std::span<float> gradient, const SliceReady& ready);
  /// Wanted says what is to be computed from the errors of a branch's output.
  struct Wanted {
    bool gradient = false;         // those of weight and bias, if they are trained, are added to
    std::span<float> input_error;  // empty: not needed
  };
  /// Calls work(branch) for the branches that read a node and pass errors on.
  template <typename Work>
  void for_each_passing(int node, const Work& work) {
    for (const int b : plan_.readers_of(node).branches)
      if (plan_.passes_errors(plan_.branch(b))) work(b);
  }
  void sum_of_readers(int i, const Lane& lane, std::size_t first, std::size_t n, bool learns);
  std::span<const float> norm_error(int branch, std::size_t sample, const Part& part,
                                    std::span<float> out);
  std::span<const float> branch_error(int branch, std::size_t sample, Room& room);
  bool has_error_in_parts(int branch) const;
  void round_branch_error(int branch, const Lane& lane, std::size_t sample, std::size_t k,
                          const Wanted& wanted, std::span<Operand> q, float& scale);
  float quantize_error(std::span<const float> x, float range, std::string_view what,
                       const RandomKey& key, std::size_t sample, std::span<Operand> q,
                       std::size_t first_value = 0);
  void through_branch(int branch, const Lane& lane, std::size_t first, std::size_t n,
                      const Wanted& wanted);
  void take_wide_error(int branch, std::size_t sample, std::size_t k, std::span<const float> values,
                       Room& room);
  void add_weight_gradient(int branch, const Lane& lane, std::size_t first, std::size_t n);
  void through_node(int i, int node, std::size_t sample, Room& room, std::span<float> error);
  void start_weights(int node, std::span<float> gradient);
  void finish_weight(int branch, const SliceReady& ready);
  void sum_by_outputs(int branch);
  void sum_error(int i, std::span<float> gradient, const SliceReady& ready);
  void finish_norm(int branch, std::span<float> gradient, const SliceReady& ready);
  void finish_bias(int branch, std::span<float> gradient, const SliceReady& ready);
  void round_error(int i, const Lane& lane, std::size_t first, std::size_t n, float range);

  /// The range of values that samples share, from the largest magnitude of each.
  class SharedRange {
   public:
    void add(float magnitude);
    void add(const SharedRange& other);
    /// @param clips  the mean of the magnitudes, not the largest
    float value(bool clips) const;

   private:
    float largest_ = 0;
    double sum_ = 0;
    std::size_t count_ = 0;
  };
  bool shares_ranges() const;
  bool clips() const { return options_.ranges == Int8Ranges::paper; }
  bool wide_errors() const { return options_.weight_gradient != WeightGradient::int8; }
  /// measure(lane, range) adds magnitudes. @return 0 if samples do not share ranges
  template <typename Measure>
  float shared_range(bool clips, const Measure& measure) {
    if (!shares_ranges()) return 0;
    std::array<SharedRange, kMostLanes> ranges;
    for_each_lane([&](const Lane& lane) { measure(lane, ranges[lane.index]); });
    for (std::size_t i = 1; i < ranges.size(); ++i) ranges[0].add(ranges[i]);
    return ranges[0].value(clips);
  }
  /// values(sample, room) returns floats.
  template <typename Values>
  float shared_range_of(bool clips, std::string_view what, const Values& values) {
    return shared_range(clips, [&](const Lane& lane, SharedRange& range) {
      for (std::size_t n = lane.first; n < lane.end; ++n)
        range.add(int8::largest_magnitude(values(n, lane.room), what));
    });
  }
  float round_activation(std::span<const float> x, int zero_point, float range,
                         std::string_view what, std::span<Operand> q, Room& room);

  Samples node(int i) const {
    return (computed_again(i) ? now_->again(i) : now_->node(i)).part(0, samples_);
  }
  bool computed_again(int node) const { return computed_again_[static_cast<std::size_t>(node)]; }
  Samples branch(int i) const { return now_->branch(i).part(0, samples_); }
  Samples error(int i) const { return now_->error(i).part(0, samples_); }
  static SampleValues<Operand> rounded(const Samples& samples, std::size_t i) {
    return {samples.sample(i), samples.scales[i]};
  }
  static SampleValues<Operand> rounded(const Samples& samples, std::size_t i, const Part& part) {
    return {part.of(samples.sample(i)), samples.scales[i]};
  }
  float factor_of(int branch, std::size_t sample) const {
    const std::vector<float>& factors = layers_[static_cast<std::size_t>(branch)].factors;
    return factors.empty() ? 1 : factors[sample];
  }
  /// The error of a branch's normalization.
  SampleValues<Operand> error_behind(int branch, const Samples& of_node, std::size_t i) const {
    return {of_node.sample(i), of_node.scales[i] * factor_of(branch, i)};
  }
  /// Returns what becomes of a normalization that ReLU or ReLU6 follows.
  static Output output_of(const Node& node) {
    return node.nonlinearity == Nonlinearity::relu6 ? Output::clipped : Output::rectified;
  }
  Layer& layer_of(int branch) { return layers_[static_cast<std::size_t>(branch)]; }
  int zero_point(int node) const;
  std::size_t chunk(int node) const;  // samples at a time
  std::span<const float> values(std::size_t tensor) const;
  NormParameters norm_parameters(const Branch& branch) const;
  /// @param values_of  of a tensor
  template <typename Value, typename ValuesOf>
  SqueezeLayers<Value> squeeze_layers(const Node& node, const ValuesOf& values_of) const {
    const SqueezePlan& squeeze = plan_.squeezes[node.squeeze];
    return {values_of(squeeze.narrow), values_of(squeeze.narrow + 1), values_of(squeeze.widen),
            values_of(squeeze.widen + 1)};
  }
  RandomKey key_for(int index, int kind) const;
  std::string_view label(const char* what, const std::string& layer, Room& room) const;

  /// Calls the trainer's function for a tensor that is trained.
  void tell(const SliceReady& ready, std::size_t tensor) const {
    if (const auto slice = plan_.trained[tensor]) ready(*slice);
  }

  /// A branch's weight gradient, while the errors of its input are gathered.
  struct WeightSum {
    Sums how = Sums::in_order;
    std::span<float> gradient;  // (lane 0's) and, in the end, the whole
    std::span<float> others;    // (lanes - 1, weights)
    std::span<Operand> errors;  // by_outputs: of all samples
    std::span<float> scales;
  };
  WeightSum& weight_sum(int branch) { return weight_sums_[static_cast<std::size_t>(branch)]; }
  Sums how_to_sum(const Branch& branch) const;

  Plan plan_;
  int8::Kernels kernels_;
  Int8Options options_;
  WorkerThreads threads_;
  std::vector<Room> rooms_;    // by thread
  std::vector<Layer> layers_;  // by branch
  std::vector<Squeeze> squeezes_;
  Workspace<Operand> training_, evaluation_;
  LongArray<std::byte> block_;  // of both: an evaluation is not between two passes of a step
  std::size_t block_bytes_ = 0;
  const Workspace<Operand>* now_ = nullptr;
  std::vector<bool> computed_again_;  // by node, in this step
  Pass pass_ = Pass::evaluation;
  std::size_t samples_ = 0;
  StepId step_ = 0;
  RandomKey key_;
  std::span<const float> parameters_, frozen_;
  bool frozen_are_set_ = false;  // the convolutions have them
  Pictures pictures_;
  std::vector<float> filters_;       // of the plan's whitening: (taps, filters)
  std::vector<double> filter_sums_;  // (lanes, filters) of errors
  std::vector<std::size_t> chunks_;  // by node
  std::size_t scratch_bytes_ = 0, float_values_ = 0;
  std::vector<WeightSum> weight_sums_;           // by branch
  std::size_t lane_sums_ = 0, kept_values_ = 0;  // a node's; values of a sample
  LongArray<float> sums_of_lanes_;
  LongArray<Operand> kept_errors_;
  std::vector<float> kept_scales_;
  std::size_t kept_samples_ = 0;
  std::vector<float> means_;  // (n, c), or maxima
};

}  // namespace eqt::model::precision
