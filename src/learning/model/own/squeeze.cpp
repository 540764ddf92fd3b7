// SPDX-License-Identifier: Apache-2.0
#include "model/own/squeeze.hpp"

#include <algorithm>

#include "model/own/dense.hpp"

namespace eqt::model::precision {

void Squeeze::start(std::size_t samples) {
  for (auto* const list : {&means_, &sums_, &factors_, &errors_, &mean_errors_})
    list->resize(samples * channels_);
  for (auto* const list : {&between_, &between_errors_}) list->resize(samples * hidden_);
}

void Squeeze::excite(std::size_t sample, const SqueezeLayers<const float>& layers) {
  const std::span<float> between = row(between_, hidden_, sample);
  dense_forward(means(sample), layers.narrow_weight, layers.narrow_bias, between);
  for (float& value : between) value = std::max(value, 0.0f);
  const std::span<float> sums = row(sums_, channels_, sample);
  dense_forward(between, layers.widen_weight, layers.widen_bias, sums);
  const std::span<float> factors = row(factors_, channels_, sample);
  for (std::size_t c = 0; c < channels_; ++c)
    factors[c] = std::min(std::max(sums[c] + 3.0f, 0.0f), 6.0f) / 6.0f;
}

void Squeeze::backward(const SqueezeLayers<const float>& layers,
                       const SqueezeLayers<float>& gradients) {
  for (std::size_t i = 0; i < errors_.size(); ++i)
    errors_[i] = sums_[i] > -3.0f && sums_[i] < 3.0f ? errors_[i] / 6.0f : 0.0f;
  dense_backward(errors_, between_, layers.widen_weight, channels_, between_errors_,
                 gradients.widen_weight, gradients.widen_bias);
  for (std::size_t i = 0; i < between_.size(); ++i)
    if (between_[i] <= 0) between_errors_[i] = 0;
  dense_backward(between_errors_, means_, layers.narrow_weight, hidden_, mean_errors_,
                 gradients.narrow_weight, gradients.narrow_bias);
}

}  // namespace eqt::model::precision
