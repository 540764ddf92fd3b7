// SPDX-License-Identifier: Apache-2.0
// A small network without torch: logistic regression on the pixel values.

#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "model/replica.hpp"
#include "support/gaussian.hpp"
#include "support/pictures.hpp"

namespace eqt::test {

/// Softmax regression: weight (classes, features), bias (classes).
class ToyReplica final : public model::Replica {
 public:
  ToyReplica(std::size_t features, std::size_t classes, std::uint64_t seed)
      : features_(features), classes_(classes) {
    const auto f = static_cast<std::int64_t>(features), c = static_cast<std::int64_t>(classes);
    layout_ = {{"weight", {c, f}, 0, features * classes},
               {"bias", {c}, features * classes, classes}};
    parameters_ = gaussian(total_count(layout_), {.run_seed = seed});
    for (float& p : parameters_) p *= 0.01f;
    gradient_.resize(parameters_.size());
    buffers_ = {0};
  }

  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<float> buffers() override { return buffers_; }

  double forward_backward(const data::Batch& batch, const model::SliceReady& on_ready) override {
    std::fill(gradient_.begin(), gradient_.end(), 0.0f);
    double loss = 0;
    for (std::size_t n = 0; n < batch.size(); ++n) {
      loss += accumulate(batch, n, 1.0 / static_cast<double>(batch.size()));
    }
    buffers_[0] += 1;
    on_ready(1);
    on_ready(0);
    return loss;
  }

  model::Evaluation evaluate(const data::Batch& batch) override {
    model::Evaluation sums{.sums = {0}};
    for (std::size_t n = 0; n < batch.size(); ++n) {
      const auto p = probabilities(batch, n);
      const auto label = static_cast<std::size_t>(labels_in(batch)[n]);
      sums.loss_sum -= std::log(p[label]);
      const auto found = std::max_element(p.begin(), p.end()) - p.begin();
      sums.sums[0] += found == labels_in(batch)[n] ? 1 : 0;
      ++sums.count;
    }
    return sums;
  }

  void visit_state(StateVisitor& visitor, Across models) override {
    visitor.values("parameters", parameters_, models);
    visitor.values("buffers", buffers_, models == Across::same ? Across::mean : models);
  }
  void save_weights(const std::string&) const override { fail(Kind::bug, "a toy is not saved"); }
  void load_weights(const std::string&) override { fail(Kind::bug, "a toy is not loaded"); }

 private:
  std::vector<double> probabilities(const data::Batch& batch, std::size_t n) const {
    std::vector<double> p(classes_);
    double sum = 0;
    for (std::size_t c = 0; c < classes_; ++c) {
      double z = static_cast<double>(parameters_[features_ * classes_ + c]);
      for (std::size_t f = 0; f < features_; ++f) {
        z += static_cast<double>(parameters_[c * features_ + f]) * pixel(batch, n, f);
      }
      sum += p[c] = std::exp(std::min(z, 50.0));
    }
    for (double& value : p) value /= sum;
    return p;
  }

  double accumulate(const data::Batch& batch, std::size_t n, double share) {
    const auto p = probabilities(batch, n);
    const auto label = static_cast<std::size_t>(labels_in(batch)[n]);
    for (std::size_t c = 0; c < classes_; ++c) {
      const double d = share * (p[c] - (c == label ? 1 : 0));
      for (std::size_t f = 0; f < features_; ++f) {
        gradient_[c * features_ + f] += static_cast<float>(d * pixel(batch, n, f));
      }
      gradient_[features_ * classes_ + c] += static_cast<float>(d);
    }
    return -share * std::log(p[label]);
  }

  double pixel(const data::Batch& batch, std::size_t n, std::size_t f) const {
    return static_cast<double>(images_in(batch)[n * features_ + f]);
  }

  std::size_t features_, classes_;
  Layout layout_;
  std::vector<float> parameters_, gradient_, buffers_;
};

}  // namespace eqt::test
