// SPDX-License-Identifier: Apache-2.0
// Batch normalization by deviation or by range, and none: a map of each channel that all samples
// share.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "model/norm_kernels.hpp"
#include "model/own/norm.hpp"
#include "model/range_meter.hpp"

namespace eqt::model::precision {
namespace {

/// x * scale + shift. Derived classes measure mean and inverse, and say what they become.
template <typename Operand>
class ChannelNorm : public Norm<Operand> {
 public:
  using Sample = SampleValues<Operand>;

  explicit ChannelNorm(const Branch& branch)
      : name_(branch.name),
        channels_(branch.channels()),
        pixels_(branch.pixels()),
        keeps_(branch.keeps_statistics) {
    for (auto* const list : {&mean_, &inverse_, &sums_, &products_}) list->assign(channels_, 0);
    for (auto* const list : {&scale_, &shift_, &slope_, &offset_}) list->assign(channels_, 0);
    for (Lane& lane : lanes_) {
      for (auto* const list :
           {&lane.mean, &lane.squares, &lane.sums, &lane.products, &lane.sample_sums})
        list->assign(channels_, 0);
      for (auto* const list : {&lane.scales, &lane.slopes, &lane.offsets, &lane.sample_means})
        list->assign(channels_, 0);
      lane.extremes.assign(2 * channels_, 0);
      for (auto* const list : {&lane.operand_sums, &lane.operand_products})
        list->assign(channels_, 0);
    }
  }

  void start(std::size_t samples, Pass pass, const NormParameters& parameters,
             std::span<float> running) override {
    samples_ = samples;
    by_batch_ = pass == Pass::training && !keeps_;
    parameters_ = parameters;
    running_ = running;
    lane_samples_ = samples / lanes_for(samples);
    if (by_batch_) start_measuring();
  }

  void measure(Floats x, std::size_t sample) override {
    if (by_batch_) measure_training(x, sample, lane_of(sample));
  }

  void finish() override {
    if (by_batch_) merge_lanes();
    for (std::size_t c = 0; c < channels_; ++c) {
      if (by_batch_) {
        conclude(c);
      } else {
        recall(c);
      }
      const double scale = parameters_.weight[c] * inverse_[c];
      scale_[c] = static_cast<float>(scale);
      shift_[c] = static_cast<float>(parameters_.bias[c] - mean_[c] * scale);
    }
  }

  void apply(const Sample& x, std::size_t sample, Output output, std::span<float> out) override {
    affine(x.values, scales_of(x, lane_of(sample)), shift_, output, out);
  }

  /// A channel's map is monotonic, and so is its rounding: the largest is of an extreme.
  std::optional<float> largest(const Sample& x, std::size_t sample, Output output) override {
    if constexpr (std::is_same_v<Operand, float>) return {};
    if constexpr (std::is_same_v<Operand, std::int8_t>) {
      Lane& lane = lane_of(sample);
      const std::span low = std::span(lane.extremes).first(channels_);
      const std::span high = std::span(lane.extremes).last(channels_);
      channel_extremes(x.values, low, high);
      const Floats scales = scales_of(x, lane);
      std::uint32_t most = 0;  // bits, whose order is that of magnitudes, with NaN above infinity
      for (const std::span<std::int8_t> extremes : {low, high}) {
        affine(extremes, scales, shift_, output, lane.sample_means);
        for (const float value : lane.sample_means)
          most = std::max(most, std::bit_cast<std::uint32_t>(std::abs(value)));
      }
      return std::bit_cast<float>(most);
    }
  }

  void gate(const Sample& x, std::size_t sample, Output output, std::span<Operand> g) override {
    gate_affine(x.values, scales_of(x, lane_of(sample)), shift_, output, g);
  }

  void start_backward() override {
    for (Lane& lane : lanes_)
      for (auto* const list : {&lane.sums, &lane.products}) std::ranges::fill(*list, 0.0);
  }

  void sum_error(const Sample& g, const Sample& x, std::size_t sample) override {
    if (keeps_) return;
    Lane& lane = lane_of(sample);
    if constexpr (std::is_same_v<Operand, float>) {
      for (std::size_t c = 0; c < channels_; ++c)
        lane.sample_means[c] = static_cast<float>(mean_[c]);
      error_sums(g.values, x.values, lane.sample_means, lane.operand_sums, lane.operand_products);
    } else {
      error_sums(g.values, x.values, lane.operand_sums, lane.operand_products);
    }
    const double scale = g.scale, product_scale = scale * static_cast<double>(x.scale);
    for (std::size_t c = 0; c < channels_; ++c) {
      const double sum = scale * static_cast<double>(lane.operand_sums[c]);
      lane.sums[c] += sum;
      lane.products[c] += product_scale * static_cast<double>(lane.operand_products[c]) -
                          (mean_[c] - centre_of(lane, c)) * sum;
    }
  }

  void finish_backward(const NormGradients& gradients) override {
    if (keeps_) return;  // slope and offset are 0
    add_lanes(&Lane::sums, sums_);
    add_lanes(&Lane::products, products_);
    for (std::size_t c = 0; c < channels_; ++c) {
      if (!gradients.weight.empty())
        gradients.weight[c] = static_cast<float>(products_[c] * inverse_[c]);
      if (!gradients.bias.empty()) gradients.bias[c] = static_cast<float>(sums_[c]);
      slope_[c] = static_cast<float>(slope(c));
      offset_[c] = static_cast<float>(scale_[c] * sums_[c] / rows() - mean_[c] * slope(c));
    }
  }

  void error(const Sample& g, const Sample& x, std::size_t sample, Floats factors,
             std::span<float> out) override {
    const Lane& lane = lane_for_errors(g, x, sample, factors);
    norm_error(g.values, x.values, lane.scales, lane.slopes, lane.offsets, out);
  }

  std::optional<float> largest_error(const Sample& g, const Sample& x, std::size_t sample,
                                     Floats factors) override {
    if constexpr (std::is_same_v<Operand, float>) return {};
    if constexpr (std::is_same_v<Operand, std::int8_t>) {
      const Lane& lane = lane_for_errors(g, x, sample, factors);
      return largest_norm_error(g.values, x.values, lane.scales, lane.slopes, lane.offsets);
    }
  }

  bool sees_bias() const override { return keeps_; }
  std::size_t bytes(std::size_t /*samples*/) const override { return 0; }

 protected:
  /// (channels) each.
  struct Lane {
    std::vector<double> mean, squares;   // of x, while it is measured
    std::vector<double> sums, products;  // of g, and of g * (x - mean)
    // These belong to one sample.
    std::vector<double> sample_sums;
    std::vector<float> sample_means, scales, slopes, offsets;
    std::vector<std::int8_t> extremes;  // (2, channels): the least and the greatest
    std::vector<SumOf<Operand>> operand_sums, operand_products;
  };
  Lane& lane_of(std::size_t sample) { return lanes_[sample / lane_samples_]; }
  std::span<Lane> lanes() { return std::span(lanes_).first(samples_ / lane_samples_); }
  /// The sums of all lanes, in their order.
  void add_lanes(std::vector<double> Lane::*list, std::vector<double>& sums) {
    std::ranges::fill(sums, 0.0);
    for (const Lane& lane : lanes())
      for (std::size_t c = 0; c < channels_; ++c) sums[c] += (lane.*list)[c];
  }

  virtual void start_measuring() = 0;
  virtual void measure_training(Floats x, std::size_t sample, Lane& lane) = 0;
  /// Called after the last sample, before conclude().
  virtual void merge_lanes() = 0;
  /// Sets mean and inverse of a channel and its running values.
  virtual void conclude(std::size_t c) = 0;
  /// Sets them from the running values.
  virtual void recall(std::size_t c) = 0;
  /// Returns what x - mean is multiplied by in the error, from sums and products.
  virtual double slope(std::size_t c) const = 0;

  static void track(float& running, double value, double share) {
    running = static_cast<float>((1 - share) * running + share * value);
  }

  double rows() const { return static_cast<double>(samples_ * pixels_); }

  /// Returns what error_sums() has subtracted from x.
  static double centre_of(const Lane& lane, std::size_t c) {
    return std::is_same_v<Operand, float> ? lane.sample_means[c] : 0;
  }

  /// Returns the lane of a sample, with the numbers of its error().
  const Lane& lane_for_errors(const Sample& g, const Sample& x, std::size_t sample,
                              Floats factors) {
    Lane& lane = lane_of(sample);
    for (std::size_t c = 0; c < channels_; ++c) {
      lane.scales[c] = scale_[c] * factors[c] * g.scale;
      lane.slopes[c] = slope_[c] * factors[c] * x.scale;
      lane.offsets[c] = offset_[c] * factors[c];
    }
    return lane;
  }

  /// Returns what the operands of a sample are multiplied by.
  Floats scales_of(const Sample& x, Lane& lane) const {
    for (std::size_t c = 0; c < channels_; ++c) lane.scales[c] = scale_[c] * x.scale;
    return lane.scales;
  }

  std::string name_;
  std::size_t channels_, pixels_;
  std::size_t samples_ = 0, lane_samples_ = 1;
  bool keeps_;             // the running values; then they are constants of the backward pass
  bool by_batch_ = false;  // in this pass
  NormParameters parameters_;
  std::span<float> running_;
  std::vector<double> mean_, inverse_;   // (channels), as all below
  std::vector<double> sums_, products_;  // of g, and of g * (x - mean)
  std::vector<float> scale_, shift_, slope_, offset_;
  std::array<Lane, kMostLanes> lanes_;
};

/// norm(x) = x.
template <typename Operand>
class NoNorm final : public ChannelNorm<Operand> {
  using Base = ChannelNorm<Operand>;
  using typename Base::Lane;

 public:
  explicit NoNorm(const Branch& branch) : Base(branch) { std::ranges::fill(this->scale_, 1.0f); }

  void finish() override {}
  void finish_backward(const NormGradients& /*gradients*/) override {}
  bool sees_bias() const override { return true; }

 private:
  void start_measuring() override {}
  void measure_training(Floats /*x*/, std::size_t /*sample*/, Lane& /*lane*/) override {}
  void merge_lanes() override {}
  void conclude(std::size_t /*c*/) override {}
  void recall(std::size_t /*c*/) override {}
  double slope(std::size_t /*c*/) const override { return 0; }
};

template <typename Operand>
class BatchNorm final : public ChannelNorm<Operand> {
  using Base = ChannelNorm<Operand>;
  using Base::channels_, Base::inverse_, Base::lane_samples_, Base::lanes, Base::lanes_,
      Base::mean_, Base::pixels_, Base::products_, Base::rows, Base::running_, Base::scale_,
      Base::track;
  using typename Base::Lane;

 public:
  BatchNorm(const Branch& branch, double share, double epsilon)
      : Base(branch), share_(share), epsilon_(epsilon) {
    squares_.assign(channels_, 0);
  }

 private:
  void start_measuring() override {
    EQT_CHECK(rows() > 1, "one value per channel has no variance");
    for (Lane& lane : lanes())
      for (auto* const list : {&lane.mean, &lane.squares}) std::ranges::fill(*list, 0.0);
  }

  void measure_training(Floats x, std::size_t sample, Lane& lane) override {
    channel_sums(x, lane.sample_sums);
    for (std::size_t c = 0; c < channels_; ++c)
      lane.sample_means[c] = static_cast<float>(lane.sample_sums[c] / static_cast<double>(pixels_));
    channel_squares(x, lane.sample_means, lane.sample_sums);
    const std::size_t before = sample % lane_samples_;
    for (std::size_t c = 0; c < channels_; ++c)
      merge({lane.mean[c], lane.squares[c]}, before, lane.sample_means[c], lane.sample_sums[c], 1);
  }

  void merge_lanes() override {
    std::ranges::copy(lanes_[0].mean, mean_.begin());
    std::ranges::copy(lanes_[0].squares, squares_.begin());
    for (std::size_t i = 1; i < lanes().size(); ++i)
      for (std::size_t c = 0; c < channels_; ++c)
        merge({mean_[c], squares_[c]}, i * lane_samples_, lanes_[i].mean[c], lanes_[i].squares[c],
              lane_samples_);
  }

  struct Moments {
    double& mean;
    double& squares;  // the sum of squared differences from it
  };

  /// Adds the moments of `more` samples to those of `before` ones. T. Chan et al., "Updating
  /// formulae and a pairwise algorithm for computing sample variances", 1979, eq. (2.1).
  void merge(const Moments& to, std::size_t before, double mean, double squares,
             std::size_t more) const {
    const double a = static_cast<double>(before), b = static_cast<double>(more);
    const double step = mean - to.mean;
    to.mean += step * b / (a + b);
    to.squares += squares + step * step * static_cast<double>(pixels_) * a * b / (a + b);
  }

  void conclude(std::size_t c) override {
    const double variance = squares_[c] / rows(), unbiased = variance * rows() / (rows() - 1);
    inverse_[c] = inverse_deviation(variance, epsilon_);
    track(running_[c], mean_[c], share_);
    track(running_[channels_ + c], unbiased, share_);
  }

  void recall(std::size_t c) override {
    mean_[c] = running_[c];
    inverse_[c] = inverse_deviation(running_[channels_ + c], epsilon_);
  }

  double slope(std::size_t c) const override {
    return scale_[c] * inverse_[c] * inverse_[c] * products_[c] / rows();
  }

  double share_;  // of the newest batch in running values
  double epsilon_;
  std::vector<double> squares_;
};

/// Normalizes by the mean range of 16 chunks of a channel's values, which are ordered by sample.
template <typename Operand>
class RangeBatchNorm final : public ChannelNorm<Operand> {
  using Base = ChannelNorm<Operand>;
  using Base::channels_, Base::inverse_, Base::keeps_, Base::lanes, Base::mean_, Base::name_,
      Base::parameters_, Base::pixels_, Base::products_, Base::rows, Base::running_, Base::samples_,
      Base::track;
  using typename Base::Lane;
  using typename Base::Sample;

 public:
  explicit RangeBatchNorm(const Branch& branch)
      : Base(branch), chunks_(kRangeChunks, ExtremesBuffer(channels_)) {
    share_.assign(channels_, 0);
  }

  void finish_backward(const NormGradients& gradients) override {
    Base::finish_backward(gradients);
    if (keeps_) return;
    const double factor = range_factor(chunk_) / kRangeChunks;
    for (std::size_t c = 0; c < channels_; ++c)
      share_[c] = static_cast<float>(factor * inverse_[c] * inverse_[c] * parameters_.weight[c] *
                                     products_[c]);
  }

  void error(const Sample& g, const Sample& x, std::size_t sample, Floats factors,
             std::span<float> out) override {
    Base::error(g, x, sample, factors, out);
    if (keeps_) return;
    const std::size_t first = sample * pixels_, end = first + pixels_;
    for (std::size_t k = first / chunk_; k <= (end - 1) / chunk_; ++k) {
      const Extremes chunk = chunks_[k].extremes();
      const auto add = [&](std::int32_t row, std::size_t c, float value) {
        const auto r = static_cast<std::size_t>(row);
        if (r >= first && r < end) out[(r - first) * channels_ + c] += value;
      };
      for (std::size_t c = 0; c < channels_; ++c) {
        const float share = share_[c] * factors[c];
        add(chunk.max_row[c], c, -share);
        add(chunk.min_row[c], c, share);
      }
    }
  }

  bool is_pixelwise() const override { return keeps_; }  // extremes have an error of their own
  std::size_t bytes(std::size_t /*samples*/) const override {
    return kRangeChunks * channels_ * 2 * (sizeof(float) + sizeof(std::int32_t));
  }

 private:
  void start_measuring() override {
    chunk_ = chunk_values(samples_ * pixels_, name_, "a channel's values in a batch");
    for (Lane& lane : lanes()) std::ranges::fill(lane.mean, 0.0);
    for (ExtremesBuffer& chunk : chunks_) chunk.clear();
  }

  /// A chunk has the values of one lane, since the lanes' number divides that of the chunks.
  void measure_training(Floats x, std::size_t sample, Lane& lane) override {
    static_assert(kRangeChunks % kMostLanes == 0);
    channel_sums(x, lane.sample_sums);
    for (std::size_t c = 0; c < channels_; ++c) lane.mean[c] += lane.sample_sums[c];
    const std::size_t first = sample * pixels_, end = first + pixels_;
    for (std::size_t row = first; row < end;) {
      const std::size_t next = std::min(end, (row / chunk_ + 1) * chunk_);
      update_extremes(x.subspan((row - first) * channels_, (next - row) * channels_), row,
                      chunks_[row / chunk_].extremes());
      row = next;
    }
  }

  void merge_lanes() override { Base::add_lanes(&Lane::mean, mean_); }

  void conclude(std::size_t c) override {
    mean_[c] /= rows();
    double sum = 0;
    for (ExtremesBuffer& chunk : chunks_)
      sum += static_cast<double>(chunk.extremes().max[c]) -
             static_cast<double>(chunk.extremes().min[c]);
    inverse_[c] = inverse_range(sum / kRangeChunks, chunk_);
    track(running_[c], mean_[c], kRangeBatchNormMomentum);
    track(running_[channels_ + c], inverse_[c], kRangeBatchNormMomentum);
  }

  void recall(std::size_t c) override {
    mean_[c] = running_[c];
    inverse_[c] = running_[channels_ + c];
  }

  double slope(std::size_t /*c*/) const override { return 0; }

  std::size_t chunk_ = 0;               // [rows]
  std::vector<ExtremesBuffer> chunks_;  // rows are counted in the batch
  std::vector<float> share_;            // of an extreme in the error
};

}  // namespace

template <typename Operand>
std::unique_ptr<Norm<Operand>> make_batch_norm(const Plan& plan, const Branch& branch) {
  if (!branch.norm) return std::make_unique<NoNorm<Operand>>(branch);
  if (plan.ranges) return std::make_unique<RangeBatchNorm<Operand>>(branch);
  return std::make_unique<BatchNorm<Operand>>(branch, plan.norm_share, plan.norm_epsilon);
}

template std::unique_ptr<Norm<std::int8_t>> make_batch_norm(const Plan&, const Branch&);
template std::unique_ptr<Norm<float>> make_batch_norm(const Plan&, const Branch&);

}  // namespace eqt::model::precision
