// SPDX-License-Identifier: Apache-2.0
// The Replicas that compute by themselves share this: parameters in flat buffers, the loss, state
// and files. No torch.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/random.hpp"
#include "model/array_loss.hpp"
#include "model/own/pictures.hpp"
#include "model/own/tensors.hpp"
#include "model/own/workspace.hpp"
#include "model/replica.hpp"

namespace eqt::model::precision {

/// A network of pictures; classes derived from it compute.
class FlatReplica : public Replica {
 public:
  const Layout& layout() const override { return plan_.parameters; }
  std::span<float> parameters() override { return values_.parameters.span(); }
  std::span<float> gradient() override { return gradient_.span(); }
  FlatBuffer* gradient_memory() override { return &gradient_; }
  std::span<float> buffers() override { return values_.buffers.span(); }
  std::span<float> frozen() override {
    expect_other_frozen();
    return values_.frozen.span();
  }

  double forward_backward(const data::Batch& batch, const SliceReady& on_ready) override;
  Evaluation evaluate(const data::Batch& batch) override;
  void predict(const data::Batch& batch, data::Array& out) override;
  void set_rank(Rank rank) override { rank_ = rank; }
  void visit_state(StateVisitor& visitor, Across models) override;
  void save_weights(const std::string& path) const override;
  std::string safetensors(const Metadata& metadata) const override;
  void load_weights(const std::string& path) override;
  weights::LoadedNames load_pretrained(const std::string& path, bool new_head) override;

 protected:
  /// @param last_weight  the last layer's weight, by its index in the plan's tensors
  FlatReplica(const ModelOptions& options, TensorPlan plan, TensorValues start,
              std::size_t last_weight);

  /// Returns what the network says of the pictures, (n, outputs), valid until the next pass.
  /// @param dropout  names the random numbers of training; null: this is an evaluation
  virtual std::span<const float> forward(const Pictures& pictures, const RandomKey* dropout) = 0;
  /// Fills gradient() from the errors of the outputs, after a forward pass in training.
  /// @param rounding  names the random bits of rounding
  virtual void backward(std::span<const float> errors, const RandomKey& rounding,
                        const SliceReady& ready) = 0;

  /// Adds 1 to the count of batches of each norm whose running values follow them.
  virtual void count_batch(std::span<std::uint64_t> counts) {
    for (std::uint64_t& count : counts) ++count;
  }
  /// Files of weights from elsewhere may have other shapes.
  virtual weights::FileNames file_names() const { return {}; }
  /// Called where frozen parameters may have changed since the last pass.
  virtual void expect_other_frozen() = 0;

  StepId step() const { return batches_; }
  std::span<float> values(std::size_t tensor) const { return values_.of(plan_, tensor); }
  std::span<const float> all_parameters() const { return values_.parameters.span(); }
  std::span<const float> all_frozen() const { return values_.frozen.span(); }
  std::span<float> all_buffers() const { return values_.buffers.span(); }
  std::span<float> all_gradients() const { return gradient_.span(); }

 private:
  Pictures pictures_of(const data::Batch& batch, double share) const;
  /// Calls visit(name, sizes, strides, first value) for each tensor of the state, and
  /// visit_counter(name, counter).
  template <typename Values, typename Counter>
  void for_each_tensor(const Values& visit, const Counter& visit_counter) const;
  weights::LoadedNames load(const std::string& path, const weights::FileNames& names);
  /// Returns what pack() makes of the tensors.
  template <typename Pack>
  std::string packed(const Pack& pack) const;

  std::uint64_t seed_;
  int outputs_;
  double mixup_;
  Rank rank_;
  data::ImageShape shape_;
  Frame frame_;
  TensorPlan plan_;
  TensorValues values_;
  FlatBuffer gradient_;
  std::size_t last_weight_;
  ArrayLoss loss_;
  std::vector<std::uint64_t> counters_;  // of batches, one for each norm
  StepId batches_ = 0;                   // trained on so far; names the next one's random numbers
  std::vector<float> errors_;            // of the outputs
};

}  // namespace eqt::model::precision
