// SPDX-License-Identifier: Apache-2.0
// A network and a test set whose evaluation can be computed by hand.

#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "data/dataset.hpp"
#include "model/replica.hpp"
#include "support/pictures.hpp"

namespace eqt::test {

/// Samples 0, 1, ...: the label is the number modulo 7, and there is one pixel, 0.
class NumberSet final : public PictureSet {
 public:
  explicit NumberSet(std::size_t size) : PictureSet({1, 1, 1}, 7), size_(size) {}
  std::size_t size() const override { return size_; }
  int label(std::size_t sample) const override { return static_cast<int>(sample % 7); }
  void read(std::span<const std::size_t> indices, const std::optional<data::AugmentKey>&,
            data::Batch& out) const override {
    std::vector<std::int64_t> labels;
    for (const std::size_t i : indices) labels.push_back(label(i));
    write(std::vector<float>(indices.size()), labels, out);
  }

 private:
  std::size_t size_;
};

/// The loss of a sample with label y is p[0] y + b[0], and it is right if y < p[1] + b[1].
class NumberReplica : public model::Replica {
 public:
  NumberReplica(std::vector<float> parameters, std::vector<float> buffers)
      : parameters_(std::move(parameters)),
        gradient_(parameters_.size()),
        buffers_(std::move(buffers)),
        layout_{{"p", {1, static_cast<std::int64_t>(parameters_.size())}, 0, parameters_.size()}} {}

  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> gradient() override { return gradient_; }
  std::span<float> buffers() override { return buffers_; }
  double forward_backward(const data::Batch&, const model::SliceReady& on_ready) override {
    on_ready(0);
    return 0;
  }
  model::Evaluation evaluate(const data::Batch& batch) override {
    model::Evaluation sums{.sums = {0}};
    for (const std::int64_t y : labels_in(batch)) {
      sums.loss_sum += static_cast<double>(parameters_[0]) * static_cast<double>(y) +
                       static_cast<double>(buffers_[0]);
      sums.sums[0] += static_cast<float>(y) < parameters_[1] + buffers_[1] ? 1 : 0;
      ++sums.count;
    }
    return sums;
  }
  void visit_state(StateVisitor& visitor, Across models) override {
    visitor.values("parameters", parameters_, models);
    visitor.values("buffers", buffers_, models == Across::same ? Across::mean : models);
  }
  void save_weights(const std::string&) const override { fail(Kind::bug, "nothing to save"); }
  void load_weights(const std::string&) override { fail(Kind::bug, "nothing to load"); }

 private:
  std::vector<float> parameters_, gradient_, buffers_;
  Layout layout_;
};

}  // namespace eqt::test
