// SPDX-License-Identifier: Apache-2.0
// Group normalization and the EvoNorms: statistics of the groups of channels of each sample.
//
// With d = g * weight, I the factor of a group of m values:
//   group normalization   error = d I - I^3 (x - mean) sum(d (x - mean)) / m - I mean(d)
//   EvoNorm-S0            error = d I (h + z h') - I^3 (x - mean) sum(d u) / m
//   Range-EvoNorm         error = d I (h + z h'), and at each chunk's maximum and minimum the share
//                         -/+ factor I^2 sum(d u) / chunks
#include <algorithm>
#include <array>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/error.hpp"
#include "model/norm_kernels.hpp"
#include "model/own/norm.hpp"
#include "model/own/passes.hpp"
#include "model/range_meter.hpp"

namespace eqt::model::precision {
namespace {

template <typename Operand>
class GroupNorm final : public Norm<Operand> {
 public:
  using Sample = SampleValues<Operand>;

  GroupNorm(const Plan& plan, const Branch& branch);

  void start(std::size_t samples, Pass pass, const NormParameters& parameters,
             std::span<float> running) override;
  void measure(Floats x, std::size_t sample) override;
  void finish() override {}
  void apply(const Sample& x, std::size_t sample, Output output, std::span<float> out) override;
  void gate(const Sample& x, std::size_t sample, Output output, std::span<Operand> g) override;

  void start_backward() override;
  void sum_error(const Sample& g, const Sample& x, std::size_t sample) override;
  void finish_backward(const NormGradients& gradients) override;
  void error(const Sample& g, const Sample& x, std::size_t sample, Floats factors,
             std::span<float> out) override;

  bool is_pixelwise() const override { return !ranges_; }
  std::size_t bytes(std::size_t samples) const override {
    const std::size_t ends = ranges_ ? 2 * kRangeChunks * sizeof(std::int32_t) : 0;
    return samples * groups_ * (sizeof(Group) + ends);
  }

 private:
  struct Group {  // of a sample
    double mean = 0, inverse = 1;
    double slope = 0, offset = 0;  // error = ... - (x * slope + offset)
    double share = 0;              // of a chunk's minimum in the error
  };

  std::span<Group> groups(std::size_t sample) {
    return std::span(groups_of_samples_).subspan(sample * groups_, groups_);
  }
  std::span<std::int32_t> extremes(std::size_t sample) {
    constexpr std::size_t kEnds = 2 * kRangeChunks;
    return std::span(extremes_).subspan(sample * groups_ * kEnds, groups_ * kEnds);
  }

  /// Calls body(channel, its group), in order.
  template <typename Body>
  void for_each_channel(std::size_t sample, const Body& body) {
    const std::span<Group> all = groups(sample);
    const std::size_t width = channels_ / groups_;
    for (std::size_t group = 0, c = 0; group < groups_; ++group)
      for (const std::size_t end = c + width; c < end; ++c) body(c, all[group]);
  }

  /// (channels) each.
  struct Lane {
    std::vector<double> weight_sums, bias_sums, v_sums;
    // These belong to one sample.
    std::vector<double> sums, squares;
    std::vector<float> means, scales, shifts, slopes, offsets;
    std::vector<double> inverses;  // (groups)
    std::vector<SumOf<Operand>> operand_sums, operand_products;
    std::optional<RangeMeter> meter;  // by range
  };
  Lane& lane_of(std::size_t sample) { return lanes_[sample / lane_samples_]; }

  void measure_deviations(Floats x, std::size_t sample);
  /// The scales and shifts of a sample; x counts in units of `unit`.
  Lane& spread(std::size_t sample, float unit);
  Activation activation(float unit) const { return {*sigmoid_, unit, parameters_.v}; }

  std::size_t channels_, pixels_, groups_;
  std::optional<Sigmoid> sigmoid_;  // of an EvoNorm
  bool ranges_ = false;
  double factor_ = 0;  // of a range
  NormParameters parameters_;
  std::vector<Group> groups_of_samples_;
  std::vector<std::int32_t> extremes_;  // (samples, groups, chunks, 2) offsets in the sample
  std::size_t lane_samples_ = 1;
  std::array<Lane, kMostLanes> lanes_;
};

template <typename Operand>
GroupNorm<Operand>::GroupNorm(const Plan& plan, const Branch& branch)
    : channels_(branch.channels()), pixels_(branch.pixels()), groups_(plan.groups) {
  if (channels_ % groups_ != 0)
    fail(Kind::usage,
         "{}: expected groups that divide its {} channels, found {}; set model.norm_groups",
         branch.name, channels_, groups_);
  if (plan.norm_activates) sigmoid_ = plan.ranges ? Sigmoid::hard : Sigmoid::exact;
  if (plan.ranges) {
    ranges_ = true;
    factor_ = range_factor(
        chunk_values(pixels_ * (channels_ / groups_), branch.name, "the values of a group"));
  }
  for (Lane& lane : lanes_) {
    for (auto* const list :
         {&lane.weight_sums, &lane.bias_sums, &lane.v_sums, &lane.sums, &lane.squares})
      list->assign(channels_, 0);
    for (auto* const list : {&lane.means, &lane.scales, &lane.shifts, &lane.slopes, &lane.offsets})
      list->assign(channels_, 0);
    lane.inverses.assign(groups_, 0);
    for (auto* const list : {&lane.operand_sums, &lane.operand_products})
      list->assign(channels_, 0);
    if (ranges_) lane.meter.emplace(pixels_, channels_, groups_);
  }
}

template <typename Operand>
void GroupNorm<Operand>::start(std::size_t samples, Pass /*pass*/, const NormParameters& parameters,
                               std::span<float> /*running*/) {
  parameters_ = parameters;
  lane_samples_ = samples / lanes_for(samples);
  if (groups_of_samples_.size() >= samples * groups_) return;
  groups_of_samples_.resize(samples * groups_);
  if (ranges_) extremes_.resize(samples * groups_ * 2 * kRangeChunks);
}

template <typename Operand>
void GroupNorm<Operand>::measure(Floats x, std::size_t sample) {
  if (!ranges_) {
    measure_deviations(x, sample);
    return;
  }
  Lane& lane = lane_of(sample);
  lane.meter->measure(x, std::span(lane.inverses), extremes(sample));
  for (std::size_t i = 0; i < groups_; ++i) groups(sample)[i] = {.inverse = lane.inverses[i]};
}

/// T. Chan et al., "Updating formulae and a pairwise algorithm for computing sample variances",
/// 1979: the squares around each channel's mean, and those of the means around the group's.
template <typename Operand>
void GroupNorm<Operand>::measure_deviations(Floats x, std::size_t sample) {
  const double pixels = static_cast<double>(pixels_);
  const std::size_t width = channels_ / groups_;
  Lane& lane = lane_of(sample);
  channel_sums(x, lane.sums);
  for (std::size_t c = 0; c < channels_; ++c)
    lane.means[c] = static_cast<float>(lane.sums[c] / pixels);
  channel_squares(x, lane.means, lane.squares);
  for (std::size_t i = 0; i < groups_; ++i) {
    double mean = 0, squares = 0;
    for (std::size_t c = i * width; c < (i + 1) * width; ++c) mean += lane.means[c];
    mean /= static_cast<double>(width);
    for (std::size_t c = i * width; c < (i + 1) * width; ++c) {
      const double step = lane.means[c] - mean;
      squares += lane.squares[c] + pixels * step * step;
    }
    groups(sample)[i] = {
        .mean = mean,
        .inverse = inverse_deviation(squares / (pixels * static_cast<double>(width)))};
  }
}

template <typename Operand>
typename GroupNorm<Operand>::Lane& GroupNorm<Operand>::spread(std::size_t sample, float unit) {
  Lane& lane = lane_of(sample);
  const bool centres = !sigmoid_;
  for_each_channel(sample, [&](std::size_t c, const Group& group) {
    const double scale = parameters_.weight[c] * group.inverse;
    lane.scales[c] = static_cast<float>(scale) * unit;
    const double bias = parameters_.bias[c];
    lane.shifts[c] = static_cast<float>(centres ? bias - group.mean * scale : bias);
  });
  return lane;
}

template <typename Operand>
void GroupNorm<Operand>::apply(const Sample& x, std::size_t sample, Output output,
                               std::span<float> out) {
  const Lane& lane = spread(sample, sigmoid_ ? 1.0f : x.scale);
  if (sigmoid_) {
    gated(x.values, activation(x.scale), lane.scales, lane.shifts, output, out);
  } else {
    affine(x.values, lane.scales, lane.shifts, output, out);
  }
}

template <typename Operand>
void GroupNorm<Operand>::gate(const Sample& x, std::size_t sample, Output output,
                              std::span<Operand> g) {
  EQT_CHECK(!sigmoid_, "an EvoNorm is an activation itself");
  const Lane& lane = spread(sample, x.scale);
  gate_affine(x.values, lane.scales, lane.shifts, output, g);
}

template <typename Operand>
void GroupNorm<Operand>::start_backward() {
  for (Lane& lane : lanes_)
    for (auto* const list : {&lane.weight_sums, &lane.bias_sums, &lane.v_sums})
      std::ranges::fill(*list, 0.0);
}

template <typename Operand>
void GroupNorm<Operand>::sum_error(const Sample& g, const Sample& x, std::size_t sample) {
  Lane& lane = lane_of(sample);
  if constexpr (std::is_same_v<Operand, float>) {
    for_each_channel(sample, [&](std::size_t c, const Group& group) {
      lane.means[c] = static_cast<float>(group.mean);
    });
    error_sums(g.values, x.values, lane.means, lane.operand_sums, lane.operand_products);
  } else {
    error_sums(g.values, x.values, lane.operand_sums, lane.operand_products);
  }
  if (sigmoid_) gated_sums(g.values, x.values, activation(x.scale), lane.sums, lane.squares);
  const double scale = g.scale, product_scale = scale * static_cast<double>(x.scale);
  const double count = static_cast<double>(pixels_ * (channels_ / groups_));
  // offset and slope collect the sums of d and of d * (x - mean), or d * u, first.
  for (Group& group : groups(sample)) group.offset = group.slope = 0;
  for_each_channel(sample, [&](std::size_t c, Group& group) {
    const double sum = scale * static_cast<double>(lane.operand_sums[c]);
    // Floats had their mean subtracted from x.
    const double left = group.mean - (std::is_same_v<Operand, float> ? double{lane.means[c]} : 0.0);
    const double product =
        sigmoid_ ? scale * lane.sums[c]
                 : product_scale * static_cast<double>(lane.operand_products[c]) - left * sum;
    const double weight = parameters_.weight[c];
    lane.bias_sums[c] += sum;
    lane.weight_sums[c] += product * group.inverse;
    if (sigmoid_) lane.v_sums[c] += weight * group.inverse * scale * lane.squares[c];
    group.offset += weight * sum;
    group.slope += weight * product;
  });
  for (Group& group : groups(sample)) {
    const double products = group.slope, sums = group.offset,
                 squared = group.inverse * group.inverse;
    if (ranges_) {
      group.share = factor_ * squared * products / kRangeChunks;
      group.slope = 0;
      group.offset = 0;
    } else {
      group.slope = squared * group.inverse * products / count;
      group.offset = (sigmoid_ ? 0 : group.inverse * sums / count) - group.mean * group.slope;
    }
  }
}

template <typename Operand>
void GroupNorm<Operand>::finish_backward(const NormGradients& gradients) {
  const auto add_up = [&](std::vector<double> Lane::*list, std::span<float> to) {
    for (std::size_t c = 0; c < to.size(); ++c) {
      double sum = 0;
      for (const Lane& lane : lanes_) sum += (lane.*list)[c];  // of lanes without samples: 0
      to[c] = static_cast<float>(sum);
    }
  };
  add_up(&Lane::weight_sums, gradients.weight);
  add_up(&Lane::bias_sums, gradients.bias);
  if (sigmoid_) add_up(&Lane::v_sums, gradients.v);
}

template <typename Operand>
void GroupNorm<Operand>::error(const Sample& g, const Sample& x, std::size_t sample, Floats factors,
                               std::span<float> out) {
  Lane& lane = lane_of(sample);
  for_each_channel(sample, [&](std::size_t c, const Group& group) {
    const double factor = factors[c];
    lane.scales[c] = static_cast<float>(parameters_.weight[c] * group.inverse * factor) * g.scale;
    lane.slopes[c] = static_cast<float>(group.slope * factor) * x.scale;
    lane.offsets[c] = static_cast<float>(group.offset * factor);
  });
  if (sigmoid_) {
    gated_error(g.values, x.values, activation(x.scale), lane.scales, lane.slopes, lane.offsets,
                out);
  } else {
    norm_error(g.values, x.values, lane.scales, lane.slopes, lane.offsets, out);
  }
  if (!ranges_) return;
  const auto where = extremes(sample);
  for (std::size_t i = 0; i < groups_; ++i) {
    const double share = groups(sample)[i].share;
    for (std::size_t k = 0; k < 2 * kRangeChunks; ++k) {
      const auto at = static_cast<std::size_t>(where[i * 2 * kRangeChunks + k]);
      const auto value = static_cast<float>(share * factors[at % channels_]);
      out[at] += k % 2 == 0 ? -value : value;
    }
  }
}

}  // namespace

template <typename Operand>
std::unique_ptr<Norm<Operand>> make_group_norm(const Plan& plan, const Branch& branch) {
  return std::make_unique<GroupNorm<Operand>>(plan, branch);
}

template std::unique_ptr<Norm<std::int8_t>> make_group_norm(const Plan&, const Branch&);
template std::unique_ptr<Norm<float>> make_group_norm(const Plan&, const Branch&);

}  // namespace eqt::model::precision
