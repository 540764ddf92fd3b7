// SPDX-License-Identifier: Apache-2.0
#include "train/accumulation.hpp"

#include <algorithm>
#include <span>

namespace eqt::train {

Accumulation::Accumulation(model::Replica& replica, std::size_t batches)
    : replica_(replica),
      batches_(batches),
      sum_(batches > 1 ? replica.gradient().size() : 0),
      announced_(replica.layout().size()) {}

double Accumulation::compute(const data::Batch& batch, const model::SliceReady& on_ready) {
  if (!report_) return replica_.forward_backward(batch, on_ready);
  announced_.assign(announced_.size(), false);
  try {
    return replica_.forward_backward(batch, [&](std::size_t slice) {
      announced_[slice] = true;
      on_ready(slice);
    });
  } catch (const Error& error) {
    if (error.kind() != Kind::diverged) throw;
    report_(error);
  }
  for (std::size_t slice = announced_.size(); slice-- > 0;) {
    if (announced_[slice]) continue;  // it may be on its way already
    const TensorSlice& place = replica_.layout()[slice];
    std::ranges::fill(replica_.gradient().subspan(place.offset, place.count), 0.0f);
    on_ready(slice);
  }
  return 0;
}

double Accumulation::run_first(const std::function<const data::Batch&()>& next) {
  double loss = 0;
  for (std::size_t batch = 0; batch + 1 < batches_; ++batch) {
    loss += compute(next(), [](std::size_t) {});
    const std::span<const float> gradient = replica_.gradient();
    if (batch == 0) {
      std::ranges::copy(gradient, sum_.begin());
    } else {
      std::ranges::transform(sum_, gradient, sum_.begin(), std::plus<>());
    }
  }
  return loss;
}

double Accumulation::run_last(double sum, const data::Batch& batch,
                              const model::SliceReady& on_ready) {
  if (batches_ == 1 && weight_ == 1) return compute(batch, on_ready);
  const float share = static_cast<float>(weight_) / static_cast<float>(batches_);
  const double loss = compute(batch, [&](std::size_t slice) {
    const TensorSlice& place = replica_.layout()[slice];
    const std::span<float> mean = replica_.gradient().subspan(place.offset, place.count);
    if (sum_.empty()) {
      for (float& value : mean) value *= share;
    } else {
      const std::span<const float> before = std::span(sum_).subspan(place.offset, place.count);
      std::ranges::transform(before, mean, mean.begin(),
                             [&](float earlier, float last) { return share * (earlier + last); });
    }
    on_ready(slice);
  });
  return weight_ * (sum + loss) / static_cast<double>(batches_);
}

}  // namespace eqt::train
