#include "model/batch_norm.hpp"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.hpp"
#include "model/norm_kernels.hpp"

namespace eqt::model {
namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

std::span<float> values(const at::Tensor& t) {
  return t.defined() ? std::span<float>(t.data_ptr<float>(), static_cast<std::size_t>(t.numel()))
                     : std::span<float>();
}

/// Cuts (rows, channels) into blocks of rows that fit a first-level cache. The cut depends on the
/// shape alone, so that sums do not depend on the number of threads.
class Blocks {
 public:
  explicit Blocks(const at::Tensor& x)
      : channels_(static_cast<std::size_t>(x.size(1))),
        values_(static_cast<std::size_t>(x.numel())),
        block_(std::max(kMinRows, kBlock / channels_) * channels_) {}

  std::size_t channels() const { return channels_; }
  std::size_t rows() const { return values_ / channels_; }
  std::size_t count() const { return (values_ + block_ - 1) / block_; }
  std::size_t rows_of(std::size_t block) const { return length(block) / channels_; }

  template <typename T>
  std::span<T> cut(std::span<T> tensor, std::size_t block) const {
    return tensor.empty() ? tensor : tensor.subspan(block * block_, length(block));
  }

  template <class Body>
  void for_each(const Body& body) const {
    at::parallel_for(0, static_cast<std::int64_t>(count()), 1, [&](auto first, auto last) {
      for (auto i = first; i < last; ++i) body(static_cast<std::size_t>(i));
    });
  }

  /// Last block first: what the pass before touched last is still in the cache.
  template <class Body>
  void for_each_backwards(const Body& body) const {
    for_each([&](std::size_t i) { body(count() - 1 - i); });
  }

 private:
  static constexpr std::size_t kBlock = 8192;  // [floats] 32 KiB
  static constexpr std::size_t kMinRows = 64;  // so that combining blocks stays cheap

  std::size_t length(std::size_t block) const { return std::min(block_, values_ - block * block_); }

  std::size_t channels_;
  std::size_t values_;
  std::size_t block_;  // [floats] whole rows
};

/// Two sums per channel from each block.
class Partials {
 public:
  explicit Partials(const Blocks& blocks)
      : channels_(blocks.channels()), memory_(blocks.count() * 2 * channels_) {}

  std::span<float> first(std::size_t block) {
    return std::span(memory_).subspan(block * 2 * channels_, channels_);
  }
  std::span<float> second(std::size_t block) {
    return std::span(memory_).subspan((block * 2 + 1) * channels_, channels_);
  }

 private:
  std::size_t channels_;
  std::vector<float> memory_;
};

}  // namespace

/// Rows of the (4, c) tensor that forward hands to backward.
struct BatchNormImpl::Statistics {
  explicit Statistics(at::Tensor t)
      : tensor(std::move(t)), c(static_cast<std::size_t>(tensor.size(1))) {}
  explicit Statistics(std::size_t channels)
      : Statistics(at::empty({4, static_cast<std::int64_t>(channels)}, at::kFloat)) {}

  std::span<float> row(std::size_t i) const { return values(tensor).subspan(i * c, c); }
  std::span<float> mean() const { return row(0); }
  std::span<float> scale() const { return row(1); }    // gamma * inverse
  std::span<float> shift() const { return row(2); }    // beta
  std::span<float> inverse() const { return row(3); }  // 1 / sqrt(var + epsilon)
  ChannelMap map() const { return {mean(), scale(), shift()}; }

  void set(std::size_t channel, double channel_mean, double var, float gamma, float beta) const {
    const double inv = 1.0 / std::sqrt(var + BatchNormImpl::kEpsilon);
    mean()[channel] = static_cast<float>(channel_mean);
    scale()[channel] = static_cast<float>(gamma * inv);
    shift()[channel] = beta;
    inverse()[channel] = static_cast<float>(inv);
  }

  at::Tensor tensor;
  std::size_t c;
};

namespace {

using Statistics = BatchNormImpl::Statistics;

struct Moments {
  std::vector<double> mean;     // (c)
  std::vector<double> squares;  // (c) sum of squared differences from the mean
};

/// Combines blocks by Chan, Golub, LeVeque (1983): squares add up, plus what the means differ by.
Moments batch_moments(const at::Tensor& x) {
  const Blocks blocks(x);
  Partials partials(blocks);
  const std::span<const float> input = values(x);
  blocks.for_each([&](std::size_t b) {
    channel_moments(blocks.cut(input, b), partials.first(b), partials.second(b));
  });
  Moments total{std::vector<double>(blocks.channels()), std::vector<double>(blocks.channels())};
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

at::Tensor normalize(const at::Tensor& x, const at::Tensor& residual, const Statistics& statistics,
                     bool relu) {
  at::Tensor y = at::empty(x.sizes(), x.options().memory_format(kChannelsLast));
  const Blocks blocks(x);
  const std::span<const float> in = values(x), add = values(residual);
  const std::span<float> out = values(y);
  blocks.for_each_backwards([&](std::size_t b) {
    normalize_rows(blocks.cut(in, b), blocks.cut(add, b), statistics.map(), relu,
                   blocks.cut(out, b));
  });
  return y;
}

struct Gradients {
  at::Tensor x, weight, bias, residual;
};

/// The closed form of the gradient through the batch's own statistics (Ioffe and Szegedy, section
/// 3).
Gradients gradients_of(const at::Tensor& g, const at::Tensor& x, const at::Tensor& y,
                       const Statistics& statistics, Gate gate) {
  const Blocks blocks(x);
  Partials partials(blocks);
  Gradients result;
  result.x = at::empty_like(x);
  if (gate == Gate::by_output) result.residual = at::empty_like(x);
  const std::span<const float> grad = values(g), input = values(x), output = values(y);
  const std::span<float> gated = values(result.residual);
  blocks.for_each([&](std::size_t b) {
    gradient_sums(blocks.cut(grad, b), blocks.cut(input, b), blocks.cut(output, b),
                  statistics.map(), gate, partials.first(b), partials.second(b),
                  blocks.cut(gated, b));
  });

  const std::size_t channels = blocks.channels();
  std::vector<double> sums(channels), products(channels);
  for (std::size_t b = 0; b < blocks.count(); ++b) {
    const auto first = partials.first(b), second = partials.second(b);
    for (std::size_t c = 0; c < channels; ++c) {
      sums[c] += first[c];
      products[c] += second[c];
    }
  }
  result.weight = at::empty({x.size(1)}, x.options().memory_format(at::MemoryFormat::Contiguous));
  result.bias = at::empty_like(result.weight);
  std::vector<float> offset(channels), slope(channels);
  const double rows = static_cast<double>(blocks.rows());
  for (std::size_t c = 0; c < channels; ++c) {
    const double inverse = statistics.inverse()[c];
    values(result.weight)[c] = static_cast<float>(products[c] * inverse);
    values(result.bias)[c] = static_cast<float>(sums[c]);
    offset[c] = static_cast<float>(sums[c] / rows);
    slope[c] = static_cast<float>(products[c] * inverse * inverse / rows);
  }

  const std::span<const float> source = gated.empty() ? grad : gated;
  const std::span<float> dx = values(result.x);
  blocks.for_each_backwards([&](std::size_t b) {
    input_gradient(blocks.cut(source, b), blocks.cut(input, b), statistics.map(), gate, offset,
                   slope, blocks.cut(dx, b));
  });
  return result;
}

/// The residual travels as a list of none or one, which all LibTorch versions pass alike.
class TrainingNorm : public torch::autograd::Function<TrainingNorm> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& /*weight*/, const at::Tensor& /*bias*/,
                            at::TensorList residual, const at::Tensor& statistics, bool relu) {
    const at::Tensor add = residual.empty() ? at::Tensor() : residual[0];
    at::Tensor y = normalize(x, add, Statistics(statistics), relu);
    const Gate gate = !relu ? Gate::open : residual.empty() ? Gate::by_input : Gate::by_output;
    context->saved_data["gate"] = static_cast<std::int64_t>(gate);
    context->saved_data["residual"] = !residual.empty();
    context->save_for_backward({x, statistics, gate == Gate::by_output ? y : at::Tensor()});
    return y;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list outputs) {
    const auto saved = context->get_saved_variables();
    const auto gate = static_cast<Gate>(context->saved_data["gate"].toInt());
    const at::Tensor g = outputs[0].contiguous(kChannelsLast);
    Gradients d = gradients_of(g, saved[0], saved[2], Statistics(saved[1]), gate);
    const at::Tensor none;
    if (!context->saved_data["residual"].toBool()) return {d.x, d.weight, d.bias, none, none};
    return {d.x, d.weight, d.bias, gate == Gate::open ? g : d.residual, none, none};
  }
};

}  // namespace

BatchNormImpl::BatchNormImpl(std::int64_t channels)
    : weight_(register_parameter("weight", at::ones({channels}))),
      bias_(register_parameter("bias", at::zeros({channels}))),
      running_mean_(register_buffer("running_mean", at::zeros({channels}))),
      running_var_(register_buffer("running_var", at::ones({channels}))),
      batches_(register_buffer("num_batches_tracked", at::zeros({}, at::kLong))) {}

at::Tensor BatchNormImpl::forward(const at::Tensor& x) { return apply(x, {}, false); }

at::Tensor BatchNormImpl::relu(const at::Tensor& x) { return apply(x, {}, true); }

at::Tensor BatchNormImpl::add_relu(const at::Tensor& x, const at::Tensor& residual) {
  return apply(x, residual, true);
}

at::Tensor BatchNormImpl::apply(const at::Tensor& input, at::TensorList residual, bool relu) {
  const at::Tensor x = input.contiguous(kChannelsLast);
  const at::Tensor add = residual.empty() ? at::Tensor() : residual[0].contiguous(kChannelsLast);
  const Statistics statistics(static_cast<std::size_t>(x.size(1)));
  if (!is_training()) {
    EQT_CHECK(!at::GradMode::is_enabled(), "evaluation mode has no gradient");
    describe_running(statistics);
    return normalize(x, add, statistics, relu);
  }
  describe_batch(x, statistics);
  return TrainingNorm::apply(x, weight_, bias_, add.defined() ? at::TensorList(add) : residual,
                             statistics.tensor, relu);
}

void BatchNormImpl::describe_running(const Statistics& statistics) const {
  for (std::size_t c = 0; c < statistics.c; ++c) {
    statistics.set(c, values(running_mean_)[c], values(running_var_)[c], values(weight_)[c],
                   values(bias_)[c]);
  }
}

void BatchNormImpl::describe_batch(const at::Tensor& x, const Statistics& statistics) {
  const Moments moments = batch_moments(x.detach());
  const double rows = static_cast<double>(x.numel()) / static_cast<double>(x.size(1));
  EQT_CHECK(rows > 1, "one value per channel has no variance");
  const auto mean = values(running_mean_), var = values(running_var_);
  for (std::size_t c = 0; c < statistics.c; ++c) {
    statistics.set(c, moments.mean[c], moments.squares[c] / rows, values(weight_)[c],
                   values(bias_)[c]);
    const double unbiased = moments.squares[c] / (rows - 1);
    mean[c] = static_cast<float>((1 - kMomentum) * mean[c] + kMomentum * moments.mean[c]);
    var[c] = static_cast<float>((1 - kMomentum) * var[c] + kMomentum * unbiased);
  }
  ++*batches_.data_ptr<std::int64_t>();
}

}  // namespace eqt::model
