// SPDX-License-Identifier: Apache-2.0
#include "collective/exact_grades.hpp"

#include <utility>

#include "core/error.hpp"

namespace eqt::collective {
namespace {

class DenseIfExact final : public Collective {
 public:
  DenseIfExact(comm::Communicator& comm, const codec::MixedGrades& grades,
               std::unique_ptr<Collective> inner)
      : grades_(grades), dense_(make_dense(comm)), inner_(std::move(inner)) {}

  const CollectiveRow& row() const noexcept override { return inner_->row(); }
  std::size_t slots() const noexcept override { return now().slots(); }
  bool takes_residual() const noexcept override { return now().takes_residual(); }
  void visit_state(StateVisitor& visitor) override { inner_->visit_state(visitor); }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    return now().mean(bucket, context, values, result);
  }

 private:
  // Tables change between steps, so all buckets of a step go the same way.
  Collective& now() const noexcept { return grades_.all_float32() ? *dense_ : *inner_; }

  const codec::MixedGrades& grades_;
  std::unique_ptr<Collective> dense_, inner_;
};

class WorkerDenseIfExact final : public WorkerMean {
 public:
  WorkerDenseIfExact(const codec::MixedGrades& grades, std::unique_ptr<WorkerMean> inner,
                     std::span<const FusionBucket> plan, int workers)
      : grades_(grades), dense_(make_worker_dense(plan, workers)), inner_(std::move(inner)) {}

  const CollectiveRow& row() const noexcept override { return inner_->row(); }
  bool takes_residual() const noexcept override { return now().takes_residual(); }
  void visit_state(StateVisitor& visitor) override { inner_->visit_state(visitor); }

  void take(Rank worker, const FusionBucket& bucket, const MeanContext& context,
            std::span<const float> values, Traffic& traffic) override {
    now().take(worker, bucket, context, values, traffic);
  }
  void mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            Traffic& traffic) override {
    now().mean(bucket, context, values, traffic);
  }
  Contribution contribution(Rank worker, const FusionBucket& bucket) const override {
    return now().contribution(worker, bucket);
  }

 private:
  WorkerMean& now() const noexcept { return grades_.all_float32() ? *dense_ : *inner_; }

  const codec::MixedGrades& grades_;
  std::unique_ptr<WorkerMean> dense_, inner_;
};

}  // namespace

std::unique_ptr<Collective> dense_if_exact(comm::Communicator& comm,
                                           const codec::MixedGrades& grades,
                                           std::unique_ptr<Collective> inner) {
  EQT_CHECK(inner->row().takes_exact_grades, "{} in place of dense", inner->name());
  return std::make_unique<DenseIfExact>(comm, grades, std::move(inner));
}

std::unique_ptr<WorkerMean> dense_if_exact(const codec::MixedGrades& grades,
                                           std::unique_ptr<WorkerMean> inner,
                                           std::span<const FusionBucket> plan, int workers) {
  if (!inner->row().takes_exact_grades) return inner;
  return std::make_unique<WorkerDenseIfExact>(grades, std::move(inner), plan, workers);
}

}  // namespace eqt::collective
