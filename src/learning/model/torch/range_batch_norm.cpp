// SPDX-License-Identifier: Apache-2.0
// Range batch normalization, the residual sum and ReLU as one operation on channels-last images.
//
// Source   R. Banner, I. Hubara, E. Hoffer, D. Soudry, NeurIPS 2018, arXiv:1805.11046, section 3;
//          chunks, constant and running values as in its published code: a running value is a tenth
//          of the old and nine tenths of the new one
// Why a range needs no squares, which would overflow in 8-bit arithmetic
// Numbers  extremes are exact; means are computed as in batch normalization
// Differs  from the source: float32 throughout

#include <cmath>

#include "core/error.hpp"
#include "model/range_meter.hpp"
#include "model/torch/batch_norm.hpp"
#include "model/torch/norm_blocks.hpp"
#include "model/torch/normalization.hpp"

namespace eqt::model {
namespace {

/// Mean and mean range of each channel of a batch whose pixels are cut into chunks.
class RangeMoments {
 public:
  explicit RangeMoments(const at::Tensor& x)
      : channels_(static_cast<std::size_t>(x.size(1))),
        chunk_(static_cast<std::size_t>(x.numel()) / channels_ / kRangeChunks),
        blocks_(chunk_, channels_),
        moments_(kRangeChunks * blocks_.count() * 2 * channels_),
        memory_(kRangeChunks, ExtremesBuffer(channels_)) {
    const ImageValues pixels(x);
    for_each_of(kRangeChunks, [&](std::size_t k) { scan(pixels, k); });
  }

  double mean(std::size_t c) const {
    double sum = 0;
    for (std::size_t k = 0; k < kRangeChunks; ++k) {
      for (std::size_t b = 0; b < blocks_.count(); ++b) {
        sum += static_cast<double>(blocks_.rows_of(b)) *
               moments_[2 * (k * blocks_.count() + b) * channels_ + c];
      }
    }
    return sum / static_cast<double>(kRangeChunks * chunk_);
  }

  double inverse(std::size_t c) {
    double sum = 0;
    for (ExtremesBuffer& chunk : memory_) {
      sum += static_cast<double>(chunk.extremes().max[c]) -
             static_cast<double>(chunk.extremes().min[c]);
    }
    return inverse_range(sum / kRangeChunks, chunk_);
  }

  RangeGradient gradient() {
    RangeGradient result{kRangeChunks, range_factor(chunk_), {}};
    result.extremes = at::empty(
        {static_cast<std::int64_t>(kRangeChunks), 2, static_cast<std::int64_t>(channels_)},
        at::kInt);
    auto* row = result.extremes.data_ptr<std::int32_t>();
    for (ExtremesBuffer& chunk : memory_) {
      row = std::ranges::copy(chunk.extremes().max_row, row).out;
      row = std::ranges::copy(chunk.extremes().min_row, row).out;
    }
    return result;
  }

 private:
  void scan(const ImageValues& x, std::size_t k) {
    for (std::size_t b = 0; b < blocks_.count(); ++b) {
      const auto block = x.read((k * chunk_ + blocks_.first_row(b)) * channels_,
                                blocks_.rows_of(b) * channels_, Scratch::input);
      const auto moments =
          std::span(moments_).subspan(2 * (k * blocks_.count() + b) * channels_, 2 * channels_);
      channel_moments(block, moments.first(channels_), moments.last(channels_));
      update_extremes(block, k * chunk_ + blocks_.first_row(b), memory_[k].extremes());
    }
  }

  std::size_t channels_;
  std::size_t chunk_;           // [pixels]
  RowBlocks blocks_;            // of a chunk
  std::vector<float> moments_;  // (chunks, blocks, 2, c); the squares are not used
  std::vector<ExtremesBuffer> memory_;
};

class RangeBatchNorm final : public Normalization {
 public:
  explicit RangeBatchNorm(std::int64_t channels)
      : weight_(register_parameter("weight", at::ones({channels}))),
        bias_(register_parameter("bias", at::zeros({channels}))),
        running_mean_(register_buffer("running_mean", at::zeros({channels}))),
        running_inverse_(register_buffer("running_inverse", at::ones({channels}))) {}

  bool keep_statistics() override { return keeps_statistics_ = true; }

 private:
  at::Tensor apply(const at::Tensor& x, at::TensorList residual, bool relu) override {
    const ChannelStatistics statistics(x.size(1));
    if (!is_training() || keeps_statistics_) {
      for (std::size_t c = 0; c < statistics.channels(); ++c) {
        statistics.set(c, values(running_mean_)[c], values(running_inverse_)[c], values(weight_)[c],
                       values(bias_)[c]);
      }
      if (is_training()) return normalize_frozen(x, weight_, bias_, residual, statistics, relu);
      EQT_CHECK(!at::GradMode::is_enabled(), "evaluation mode has no gradient");
      return normalize_channels(x, residual, statistics, relu);
    }
    chunk_values(static_cast<std::size_t>(x.numel() / x.size(1)), path(),
                 "a channel's values in a batch");
    const RangeGradient range = describe_batch(x.detach(), statistics);
    return normalize_batch(x, weight_, bias_, residual, statistics, range, relu);
  }

  at::Tensor traceable(const at::Tensor& x) const override {
    const auto by_channel = [](const at::Tensor& values) { return values.view({1, -1, 1, 1}); };
    return (x - by_channel(running_mean_)) * by_channel(weight_ * running_inverse_) +
           by_channel(bias_);
  }

  /// Updates the running statistics, too.
  RangeGradient describe_batch(const at::Tensor& x, const ChannelStatistics& statistics) {
    RangeMoments moments(x);
    const auto track = [](float& running, double value) {
      running = static_cast<float>((1 - kRangeBatchNormMomentum) * running +
                                   kRangeBatchNormMomentum * value);
    };
    for (std::size_t c = 0; c < statistics.channels(); ++c) {
      const double mean = moments.mean(c), inverse = moments.inverse(c);
      statistics.set(c, mean, inverse, values(weight_)[c], values(bias_)[c]);
      track(values(running_mean_)[c], mean);
      track(values(running_inverse_)[c], inverse);
    }
    return moments.gradient();
  }

  at::Tensor weight_, bias_;                   // (c)
  at::Tensor running_mean_, running_inverse_;  // (c)
  bool keeps_statistics_ = false;
};

}  // namespace

std::shared_ptr<Normalization> make_range_batchnorm(std::int64_t channels,
                                                    std::int64_t /*groups*/) {
  return std::make_shared<RangeBatchNorm>(channels);
}

}  // namespace eqt::model
