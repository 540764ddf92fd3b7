// SPDX-License-Identifier: Apache-2.0
#include "model/torch/batch_norm.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "core/error.hpp"

namespace eqt::model {
namespace {

/// Source says where statistics are from: gradients go through those of the batch.
enum class Source { batch, running };

struct ChannelNormGradients {
  at::Tensor x, weight, bias, residual;
};

/// The sums over the batch from which all gradients are computed, by channel.
struct GradientSums {
  std::vector<double> sums;      // of d = dL/dnorm(x)
  std::vector<double> products;  // of d * (x - mean)
};

/// Also writes d to `gated` if the gate is by_output.
GradientSums sum_gradients(const at::Tensor& g, const at::Tensor& x, const at::Tensor& y,
                           const ChannelStatistics& statistics, Gate gate,
                           const ImageValues& gated) {
  const RowBlocks blocks(x);
  BlockSums partials(blocks);
  const ImageValues grad(g), input(x), output(y);
  blocks.for_each([&](std::size_t b) {
    blocks.write(gated, b, Scratch::gated, [&](std::span<float> gated_block) {
      gradient_sums(blocks.read(grad, b, Scratch::gradient), blocks.read(input, b, Scratch::input),
                    blocks.read(output, b, Scratch::other), statistics.map(), gate,
                    partials.first(b), partials.second(b), gated_block);
    });
  });
  const std::size_t channels = blocks.channels();
  GradientSums total{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::size_t b = 0; b < blocks.count(); ++b) {
    const auto first = partials.first(b), second = partials.second(b);
    for (std::size_t c = 0; c < channels; ++c) {
      total.sums[c] += first[c];
      total.products[c] += second[c];
    }
  }
  return total;
}

/// Adds dL/drange at the maximum and minimum of each chunk.
void add_range_gradient(const ChannelStatistics& statistics, const RangeGradient& range,
                        const std::vector<double>& products, const ImageValues& dx) {
  const std::size_t channels = statistics.channels();
  const auto* row = range.extremes.data_ptr<std::int32_t>();
  std::vector<float> share(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    const double slope = -range.factor * statistics.scale()[c] * statistics.inverse()[c];
    share[c] = static_cast<float>(slope * products[c] / static_cast<double>(range.chunks));
  }
  for (std::size_t chunk = 0; chunk < range.chunks; ++chunk) {
    for (std::size_t c = 0; c < channels; ++c) {
      dx.add(static_cast<std::size_t>(row[c]) * channels + c, share[c]);
      dx.add(static_cast<std::size_t>(row[channels + c]) * channels + c, -share[c]);
    }
    row += 2 * channels;
  }
}

ChannelNormGradients channel_norm_gradients(const at::Tensor& g, const at::Tensor& x,
                                            const at::Tensor& y,
                                            const ChannelStatistics& statistics, Source source_of,
                                            const RangeGradient& range, Gate gate) {
  const bool by_batch = source_of == Source::batch;
  ChannelNormGradients result;
  result.x = at::empty_like(x);
  if (gate == Gate::by_output) result.residual = at::empty_like(x);
  const ImageValues gated(result.residual);
  GradientSums total;
  if (by_batch || gate == Gate::by_output) total = sum_gradients(g, x, y, statistics, gate, gated);

  const RowBlocks blocks(x);
  const std::size_t channels = blocks.channels();
  if (by_batch) {
    result.weight = at::empty({x.size(1)}, at::kFloat);
    result.bias = at::empty_like(result.weight);
  }
  std::vector<float> offset(channels), slope(channels);
  const double rows = static_cast<double>(blocks.rows());
  for (std::size_t c = 0; by_batch && c < channels; ++c) {
    const double inverse = statistics.inverse()[c], scale = statistics.scale()[c];
    values(result.weight)[c] = static_cast<float>(total.products[c] * inverse);
    values(result.bias)[c] = static_cast<float>(total.sums[c]);
    offset[c] = static_cast<float>(scale * total.sums[c] / rows);
    if (range.chunks > 0) continue;
    slope[c] = static_cast<float>(scale * total.products[c] * inverse * inverse / rows);
  }

  const ImageValues source = gated.empty() ? ImageValues(g) : gated;
  const ImageValues input(x), dx(result.x);
  blocks.for_each_backwards([&](std::size_t b) {
    blocks.write(dx, b, Scratch::output, [&](std::span<float> dx_block) {
      input_gradient(blocks.read(source, b, Scratch::gradient),
                     blocks.read(input, b, Scratch::input), statistics.map(), gate, offset, slope,
                     dx_block);
    });
  });
  if (range.chunks > 0) add_range_gradient(statistics, range, total.products, dx);
  return result;
}

/// The residual is passed as a list of none or one, which works in all LibTorch versions.
class BatchNormalize : public torch::autograd::Function<BatchNormalize> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& /*weight*/, const at::Tensor& /*bias*/,
                            at::TensorList residual, const at::Tensor& statistics, bool by_batch,
                            const at::Tensor& extremes, std::int64_t chunks, double factor,
                            bool relu) {
    at::Tensor y = normalize_channels(x, residual, ChannelStatistics(statistics), relu);
    const Gate gate = !relu ? Gate::open : residual.empty() ? Gate::by_input : Gate::by_output;
    context->saved_data["gate"] = static_cast<std::int64_t>(gate);
    context->saved_data["residual"] = !residual.empty();
    context->saved_data["by batch"] = by_batch;
    context->saved_data["chunks"] = chunks;
    context->saved_data["factor"] = factor;
    context->save_for_backward(
        {x, statistics, gate == Gate::by_output ? y : at::Tensor(), extremes});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const auto saved = context->get_saved_variables();
    auto& data = context->saved_data;
    const auto gate = static_cast<Gate>(data["gate"].toInt());
    const at::Tensor g = outputs[0].contiguous(at::MemoryFormat::ChannelsLast);
    const RangeGradient range{static_cast<std::size_t>(data["chunks"].toInt()),
                              data["factor"].toDouble(), saved[3]};
    const Source source = data["by batch"].toBool() ? Source::batch : Source::running;
    ChannelNormGradients d = channel_norm_gradients(
        g, saved[0], saved[2], ChannelStatistics(saved[1]), source, range, gate);
    torch::autograd::variable_list result{d.x, d.weight, d.bias};
    if (data["residual"].toBool()) result.push_back(gate == Gate::open ? g : d.residual);
    result.resize(result.size() + 6);  // no gradient for arguments that are no variables
    return result;
  }
};

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

ChannelMoments combine_moments(const RowBlocks& blocks, BlockSums& partials) {
  // Chan, Golub, LeVeque (1983): the sum of the squares, plus the squared differences of the means.
  ChannelMoments total{std::vector<double>(blocks.channels()),
                       std::vector<double>(blocks.channels())};
  const double rows = static_cast<double>(blocks.rows());
  for (std::size_t b = 0; b < blocks.count(); ++b) {
    const double weight = static_cast<double>(blocks.rows_of(b)) / rows;
    const auto mean = partials.first(b);
    for (std::size_t c = 0; c < mean.size(); ++c) total.mean[c] += weight * mean[c];
  }
  for (std::size_t b = 0; b < blocks.count(); ++b) {
    const double count = static_cast<double>(blocks.rows_of(b));
    const auto mean = partials.first(b);
    const auto squares = partials.second(b);
    for (std::size_t c = 0; c < mean.size(); ++c) {
      const double difference = mean[c] - total.mean[c];
      total.squares[c] += squares[c] + count * difference * difference;
    }
  }
  return total;
}

at::Tensor normalize_channels(const at::Tensor& x, at::TensorList residual,
                              const ChannelStatistics& statistics, bool relu) {
  at::Tensor y = at::empty(x.sizes(), x.options().memory_format(at::MemoryFormat::ChannelsLast));
  const RowBlocks blocks(x);
  const ImageValues in(x), add(residual.empty() ? at::Tensor() : residual[0]), out(y);
  blocks.for_each_backwards([&](std::size_t b) {
    blocks.write(out, b, Scratch::output, [&](std::span<float> y_block) {
      normalize_rows(blocks.read(in, b, Scratch::input), blocks.read(add, b, Scratch::other),
                     statistics.map(), relu, y_block);
    });
  });
  return y;
}

at::Tensor normalize_batch(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           at::TensorList residual, const ChannelStatistics& statistics,
                           const RangeGradient& range, bool relu) {
  const at::Tensor extremes = range.chunks > 0 ? range.extremes : at::empty({0}, at::kInt);
  return BatchNormalize::apply(x, weight, bias, residual, statistics.tensor(), /*by_batch=*/true,
                               extremes, static_cast<std::int64_t>(range.chunks), range.factor,
                               relu);
}

at::Tensor normalize_frozen(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                            at::TensorList residual, const ChannelStatistics& statistics,
                            bool relu) {
  return BatchNormalize::apply(x, weight, bias, residual, statistics.tensor(), /*by_batch=*/false,
                               at::empty({0}, at::kInt), std::int64_t{0}, 0.0, relu);
}

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
  if (keeps_statistics_) {
    describe_running(statistics);
    return normalize_frozen(x, weight_, bias_, residual, statistics, relu);
  }
  describe_batch(x.detach(), statistics);
  return normalize_batch(x, weight_, bias_, residual, statistics, {}, relu);
}

at::Tensor BatchNormImpl::traceable(const at::Tensor& x) const {
  return at::batch_norm(x, weight_, bias_, running_mean_, running_var_, /*training=*/false, share_,
                        epsilon_, /*cudnn_enabled=*/false);
}

at::Tensor BatchNormImpl::by_torch(const at::Tensor& x) {
  const bool by_batch = is_training() && !keeps_statistics_;
  if (by_batch) {
    EQT_CHECK(x.numel() > x.size(1), "one value per channel has no variance");
    ++*batches_.data_ptr<std::int64_t>();
  }
  return at::batch_norm(x, weight_, bias_, running_mean_, running_var_, by_batch, share_, epsilon_,
                        /*cudnn_enabled=*/true);
}

void BatchNormImpl::describe_running(const ChannelStatistics& statistics) const {
  for (std::size_t c = 0; c < statistics.channels(); ++c) {
    statistics.set(c, values(running_mean_)[c],
                   inverse_deviation(values(running_var_)[c], epsilon_), values(weight_)[c],
                   values(bias_)[c]);
  }
}

void BatchNormImpl::describe_batch(const at::Tensor& x, const ChannelStatistics& statistics) {
  const ChannelMoments moments = batch_moments(x);
  const double rows = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  EQT_CHECK(rows > 1, "one value per channel has no variance");
  const auto mean = values(running_mean_), var = values(running_var_);
  for (std::size_t c = 0; c < statistics.channels(); ++c) {
    statistics.set(c, moments.mean[c], inverse_deviation(moments.squares[c] / rows, epsilon_),
                   values(weight_)[c], values(bias_)[c]);
    const double unbiased = moments.squares[c] / (rows - 1);
    mean[c] = static_cast<float>((1 - share_) * mean[c] + share_ * moments.mean[c]);
    var[c] = static_cast<float>((1 - share_) * var[c] + share_ * unbiased);
  }
  ++*batches_.data_ptr<std::int64_t>();
}

std::shared_ptr<Normalization> make_batchnorm(std::int64_t channels, std::int64_t /*groups*/) {
  return std::make_shared<BatchNormImpl>(channels);
}

}  // namespace eqt::model
