// SPDX-License-Identifier: Apache-2.0
// Squeeze-and-excitation of a batch in float32: each channel of a sample is multiplied by a factor
// that two linear layers compute from the means of all channels. No torch.
//
// Source   J. Hu et al., CVPR 2018, arXiv:1709.01507, eq. (2) to (4), with the hard sigmoid of
//          A. Howard et al., ICCV 2019, arXiv:1905.02244, section 5.2
// Symbols  m means, r = relu(W1 m + b1), z = W2 r + b2, s = min(max(z + 3, 0), 6) / 6 factors
// Numbers  sums are in the order of channels and samples: the same on all processors

#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace eqt::model::precision {

/// The two layers' weights and biases; of gradients likewise.
template <typename Value>
struct SqueezeLayers {
  std::span<Value> narrow_weight, narrow_bias;  // (hidden, channels), (hidden)
  std::span<Value> widen_weight, widen_bias;    // (channels, hidden), (channels)
};

/// Different samples may be computed by different threads at the same time.
class Squeeze {
 public:
  Squeeze(std::size_t channels, std::size_t hidden) : channels_(channels), hidden_(hidden) {}

  /// Begins a batch.
  void start(std::size_t samples);

  /// Where the means of a sample's channels are written.
  std::span<float> means(std::size_t sample) { return row(means_, channels_, sample); }
  /// Computes the factors from the means.
  void excite(std::size_t sample, const SqueezeLayers<const float>& layers);
  std::span<const float> factors(std::size_t sample) { return row(factors_, channels_, sample); }

  /// Where the errors of a sample's factors are written.
  std::span<float> factor_errors(std::size_t sample) { return row(errors_, channels_, sample); }
  /// Overwrites the gradients that are not empty from the errors of all samples' factors, and
  /// computes those of means.
  void backward(const SqueezeLayers<const float>& layers, const SqueezeLayers<float>& gradients);
  std::span<const float> mean_errors(std::size_t sample) {
    return row(mean_errors_, channels_, sample);
  }

  /// Returns the bytes of what is kept for this many samples.
  std::size_t bytes(std::size_t samples) const {
    return samples * (5 * channels_ + 2 * hidden_) * sizeof(float);
  }

 private:
  static std::span<float> row(std::vector<float>& values, std::size_t count, std::size_t i) {
    return std::span(values).subspan(i * count, count);
  }

  std::size_t channels_, hidden_;
  // (samples, channels) or, of the layer between, (samples, hidden)
  std::vector<float> means_, sums_, factors_, errors_, mean_errors_, between_, between_errors_;
};

}  // namespace eqt::model::precision
