// SPDX-License-Identifier: Apache-2.0
#include "model/torch/batch_norm.hpp"

#include <ATen/Functions.h>

#include <cmath>

#include "core/error.hpp"
#include "model/torch/channel_norm.hpp"

namespace eqt::model {
namespace {

ChannelMoments batch_moments(const at::Tensor& x) {
  const RowBlocks blocks(x);
  BlockSums partials(blocks);
  const ImageValues input(x);
  blocks.for_each([&](std::size_t b) {
    channel_moments(blocks.read(input, b, Scratch::input), partials.first(b), partials.second(b));
  });
  return combine_moments(blocks, partials);
}

}  // namespace

BatchNormImpl::BatchNormImpl(std::int64_t channels)
    : weight_(register_parameter("weight", at::ones({channels}))),
      bias_(register_parameter("bias", at::zeros({channels}))),
      running_mean_(register_buffer("running_mean", at::zeros({channels}))),
      running_var_(register_buffer("running_var", at::ones({channels}))),
      batches_(register_buffer("num_batches_tracked", at::zeros({}, at::kLong))) {}

at::Tensor BatchNormImpl::apply(const at::Tensor& x, at::TensorList residual, bool relu) {
  const ChannelStatistics statistics(x.size(1));
  if (!is_training()) {
    EQT_CHECK(!at::GradMode::is_enabled(), "evaluation mode has no gradient");
    describe_running(statistics);
    return normalize_channels(x, residual, statistics, relu);
  }
  describe_batch(x.detach(), statistics);
  return normalize_batch(x, weight_, bias_, residual, statistics, {}, relu);
}

at::Tensor BatchNormImpl::traceable(const at::Tensor& x) const {
  return at::batch_norm(x, weight_, bias_, running_mean_, running_var_, /*training=*/false,
                        kBatchNormMomentum, kNormEpsilon, /*cudnn_enabled=*/false);
}

at::Tensor BatchNormImpl::by_torch(const at::Tensor& x) {
  if (is_training()) {
    EQT_CHECK(x.numel() > x.size(1), "one value per channel has no variance");
    ++*batches_.data_ptr<std::int64_t>();
  }
  return at::batch_norm(x, weight_, bias_, running_mean_, running_var_, is_training(),
                        kBatchNormMomentum, kNormEpsilon, /*cudnn_enabled=*/true);
}

void BatchNormImpl::describe_running(const ChannelStatistics& statistics) const {
  for (std::size_t c = 0; c < statistics.channels(); ++c) {
    statistics.set(c, values(running_mean_)[c], inverse_deviation(values(running_var_)[c]),
                   values(weight_)[c], values(bias_)[c]);
  }
}

void BatchNormImpl::describe_batch(const at::Tensor& x, const ChannelStatistics& statistics) {
  const ChannelMoments moments = batch_moments(x);
  const double rows = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  EQT_CHECK(rows > 1, "one value per channel has no variance");
  const auto mean = values(running_mean_), var = values(running_var_);
  for (std::size_t c = 0; c < statistics.channels(); ++c) {
    statistics.set(c, moments.mean[c], inverse_deviation(moments.squares[c] / rows),
                   values(weight_)[c], values(bias_)[c]);
    const double unbiased = moments.squares[c] / (rows - 1);
    mean[c] = static_cast<float>((1 - kBatchNormMomentum) * mean[c] +
                                 kBatchNormMomentum * moments.mean[c]);
    var[c] = static_cast<float>((1 - kBatchNormMomentum) * var[c] + kBatchNormMomentum * unbiased);
  }
  ++*batches_.data_ptr<std::int64_t>();
}

std::shared_ptr<Normalization> make_batchnorm(std::int64_t channels, std::int64_t /*groups*/) {
  return std::make_shared<BatchNormImpl>(channels);
}

}  // namespace eqt::model
