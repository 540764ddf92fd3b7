// SPDX-License-Identifier: Apache-2.0
#include "train/workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"

namespace eqt::train {

/// Copies the state that each rank has for itself from a replica, or back.
class Workers::Keeper final : public StateVisitor {
 public:
  Keeper(Own& own, bool restores) : own_(own), restores_(restores) {
    if (!restores) own = {};
  }

  void values(std::string_view, std::span<float> values, Across across) override {
    if (across != Across::same) move(values, own_.values, values_);
  }
  void doubles(std::string_view, std::span<double> values, Across across) override {
    if (across != Across::same) move(values, own_.reals, reals_);
  }
  void numbers(std::string_view, std::span<std::uint64_t> values, Across across) override {
    if (across != Across::same) move(values, own_.numbers, numbers_);
  }
  void placed(std::string_view name, std::span<float>,
              const std::function<std::vector<SliceRange>()>&) override {
    fail(Kind::bug, "{}: a replica is not placed", name);
  }
  bool restores() const noexcept override { return restores_; }
  void enter(std::string_view) override {}
  void leave() override {}

 private:
  template <typename T>
  void move(std::span<T> values, std::vector<T>& kept, std::size_t& at) const {
    if (restores_) {
      EQT_CHECK(at + values.size() <= kept.size(), "{} values of {}", at + values.size(),
                kept.size());
      std::copy_n(kept.begin() + static_cast<std::ptrdiff_t>(at), values.size(), values.begin());
      at += values.size();
    } else {
      kept.insert(kept.end(), values.begin(), values.end());
    }
  }

  Own& own_;
  const bool restores_;
  std::size_t values_ = 0, reals_ = 0, numbers_ = 0;  // copied back so far
};

Workers::Workers(model::Replica& replica, std::vector<data::BatchLoader*> batches)
    : replica_(replica), batches_(std::move(batches)), own_(batches_.size()) {
  EQT_CHECK(!batches_.empty(), "no workers");
  for (Own& own : own_) {
    Keeper keeper(own, false);
    replica_.visit_state(keeper, Across::same);
  }
}

void Workers::select(Rank worker) {
  if (worker != selected_) {
    Keeper leaves(own_.at(static_cast<std::size_t>(selected_)), false);
    replica_.visit_state(leaves, Across::same);
    Keeper comes(own_.at(static_cast<std::size_t>(worker)), true);
    replica_.visit_state(comes, Across::same);
  }
  selected_ = worker;
  replica_.set_rank(worker);
}

const data::Batch& Workers::next_batch() {
  return batches_[static_cast<std::size_t>(selected_)]->next();
}

void Workers::seek(std::uint64_t epoch, std::size_t batch) {
  for (data::BatchLoader* const batches : batches_) batches->seek(epoch, batch);
}

void Workers::mean_of_buffers(std::span<float> mean, std::span<const double> weights) {
  const auto buffers = replica_.buffers();
  EQT_CHECK(mean.size() == buffers.size(), "a mean of {} values, {} expected", mean.size(),
            buffers.size());
  std::vector<float> values(buffers.size());
  for (Rank w = 0; w < count(); ++w) {
    select(w);
    std::ranges::copy(buffers, values.begin());
    // Scaled first and then added, as ranks do it: no fused multiply-add.
    const double weight = weights.empty() ? 1 : weights[static_cast<std::size_t>(w)];
    if (weight != 1)
      for (float& value : values) value *= static_cast<float>(weight);
    if (w == 0)
      std::ranges::copy(values, mean.begin());
    else
      for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += values[i];
  }
  for (float& value : mean) value /= static_cast<float>(count());
  select(0);
}

void Workers::visit_state(StateVisitor& visitor) {
  std::uint64_t workers = own_.size();
  visitor.number("count", workers, Across::same);
  if (workers != own_.size())
    fail(Kind::data, "expected the state of {} workers, found that of {}", own_.size(), workers);
  for (std::size_t w = 1; w < own_.size(); ++w) {
    visitor.enter(fmt::format("worker {}", w));
    visitor.values("values", own_[w].values, Across::own);
    visitor.doubles("reals", own_[w].reals, Across::own);
    visitor.numbers("numbers", own_[w].numbers, Across::own);
    visitor.leave();
  }
}

}  // namespace eqt::train
