// SPDX-License-Identifier: Apache-2.0
// PowerSGD's mean: one step of subspace iteration on the mean of all ranks' matrices, without any
// rank ever holding that mean.
//
// Source   T. Vogels, S. P. Karimireddy, M. Jaggi, NeurIPS 2019, arXiv:1905.13727, algorithm 1
// Symbols  M_i rank i's compensated gradient of one tensor, n x m; M their mean; r rank
// Steps    P = mean of M_i Q; P made orthonormal; Q = mean of M_i^T P; out = P Q^T = P P^T M.
//          Q is kept per tensor and used as the start of the next step, a power iteration over
//          steps
// Rounds   4: two messages per fusion bucket, each averaged in two rounds (rank_order_mean.hpp); 2
//          for two ranks
// Sent     2 * 4f * (n-1)/n bytes per rank, f = floats in both messages: r (n + m) per compressed
//          tensor, and the values of all others, exactly, beside P
// Decode   d values per rank for any number of ranks
// Lossy    once, and less than averaging each rank's own projection: the basis fits the mean.
//          Error feedback keeps M_i - P Q^T, which sums over ranks to what was not applied
// Differs  from the authors' code: the mean is added in rank order instead of by MPI_Allreduce, so
//          that the bits depend on neither the fusion buckets nor the MPI library. Zero or
//          dependent vectors of P are replaced (codec::orthonormalise) instead of divided by 0 +
//          epsilon

#include <algorithm>
#include <array>

#include "codec/finite.hpp"
#include "codec/low_rank/low_rank.hpp"
#include "collective/collective.hpp"
#include "collective/cost.hpp"
#include "collective/messages.hpp"
#include "collective/rank_order_mean.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"

namespace eqt::collective {
namespace {

using codec::FactorShape;

constexpr RankOrderMean::Operations kOperations = {"power-sgd: factors to their owners",
                                                   "power-sgd: mean factors to everyone"};

/// One tensor of a fusion bucket: the places of its values and its factors.
struct Factored {
  codec::Segment segment;
  FactorShape shape;
  std::size_t left = 0;   // of P, in the first message [floats]
  std::size_t right = 0;  // of Q, in the state [floats]
};

struct BucketFactors {
  std::vector<Factored> factored;
  std::vector<codec::Segment> approximated, exact;  // tile the bucket
  std::size_t first_message = 0;                    // P, then the exact values [floats]
  std::size_t right_begin = 0, right_count = 0;     // Q, in the state [floats]
};

class PowerSgd final : public Collective {
 public:
  PowerSgd(comm::Communicator& comm, std::span<const FusionBucket> plan,
           const PowerSgdOptions& options)
      : comm_(comm), buckets_(plan.size()) {
    EQT_CHECK(options.rank >= 1 && options.rank <= codec::kMaxRank, "power-sgd of rank {}",
              options.rank);
    // The reverse of the plan's order is that of the model. So the state does not depend on where
    // fusion buckets are cut, and the parts of one bucket are adjacent.
    for (std::size_t b = plan.size(); b-- > 0;) place(plan[b], options.rank);
    for (const BucketFactors& bucket : buckets_) {
      for (const Factored& f : bucket.factored) {
        codec::draw_start(options.run_seed, f.segment.slice, f.shape, right(f));
      }
    }
  }

  const CollectiveRow& row() const noexcept override { return kPowerSgd; }
  void visit_state(StateVisitor& visitor) override {
    visitor.values("right factors", state_, Across::same);
  }

  Task mean(const FusionBucket& bucket, const MeanContext& context, std::span<float> values,
            MeanResult& result) override {
    const BucketFactors& factors = buckets_[bucket.index];
    Slot& slot = slots_.at(context.slot);
    slot.message.resize(std::max(slot.message.size(), factors.first_message));
    const auto first = std::span(slot.message).first(factors.first_message);
    const auto second = std::span(state_).subspan(factors.right_begin, factors.right_count);

    project(factors, values, first, result.traffic);
    co_await slot.average(comm_, first, route_of(bucket, context.step), kOperations);
    project_back(factors, context.step, values, first, result.traffic);
    co_await slot.average(comm_, second, route_of(bucket, context.step), kOperations);
    expand(factors, context.step, values, first, result.traffic);

    result.traffic.encoded_bytes += first.size_bytes() + second.size_bytes();
    result.traffic.encoded_values += bucket.count();
    result.contribution = {.step = context.step,
                           .index = bucket.index,
                           .exact = factors.exact,
                           .approximation = values,
                           .approximated = factors.approximated};
  }

 private:
  struct Slot {
    RankOrderMean average;
    std::vector<float> message;  // P of each matrix, then the exact values
  };

  void place(const FusionBucket& bucket, std::size_t rank) {
    BucketFactors& factors = buckets_[bucket.index];
    factors.right_begin = state_.size();
    std::size_t exact = 0;
    for (const codec::Segment& segment : bucket.segments) {
      const std::size_t rows = segment.compressed ? segment.rows : 0;
      const FactorShape shape = codec::factor_shape(segment.count, rows, rank);
      if (shape.rank == 0) {
        factors.exact.push_back(segment);
        exact += segment.count;
        continue;
      }
      EQT_CHECK(segment.first_index == 0, "power-sgd needs whole tensors");
      factors.approximated.push_back(segment);
      factors.factored.push_back({segment, shape, factors.first_message, state_.size()});
      factors.first_message += shape.left();
      state_.resize(state_.size() + shape.right());
    }
    factors.right_count = state_.size() - factors.right_begin;
    factors.first_message += exact;
  }

  static std::span<float> left(const Factored& f, std::span<float> message) {
    return message.subspan(f.left, f.shape.left());
  }
  std::span<float> right(const Factored& f) {
    return std::span(state_).subspan(f.right, f.shape.right());
  }
  static std::span<float> matrix(const Factored& f, std::span<float> values) {
    return values.subspan(f.segment.begin, f.segment.count);
  }

  /// P of each matrix, followed by the values that are sent exactly.
  void project(const BucketFactors& factors, std::span<float> values, std::span<float> message,
               Traffic& traffic) {
    const AddedSeconds timed(traffic.encode_seconds);
    for (const Factored& f : factors.factored) {
      codec::multiply(matrix(f, values), right(f), f.shape, left(f, message));
    }
    auto to = exact_part(factors, message).begin();
    for (const codec::Segment& segment : factors.exact) {
      to = std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(segment.begin), segment.count,
                       to);
    }
  }

  /// The exact values of the first message.
  static std::span<float> exact_part(const BucketFactors& factors, std::span<float> message) {
    const std::size_t begin = factors.factored.empty() ? 0
                                                       : factors.factored.back().left +
                                                             factors.factored.back().shape.left();
    return message.subspan(begin);
  }

  /// All ranks orthonormalise the same bits, so all get the same basis.
  void project_back(const BucketFactors& factors, StepId step, std::span<float> values,
                    std::span<float> message, Traffic& traffic) {
    const AddedSeconds timed(traffic.encode_seconds);
    for (const Factored& f : factors.factored) {
      if (!codec::orthonormalise(f.shape, workspace_, left(f, message))) fail_diverged(f, step);
      codec::multiply_transposed(matrix(f, values), left(f, message), f.shape, right(f));
    }
  }

  void expand(const BucketFactors& factors, StepId step, std::span<float> values,
              std::span<float> message, Traffic& traffic) {
    const AddedSeconds timed(traffic.decode_seconds);
    for (const Factored& f : factors.factored) {
      if (codec::first_non_finite(right(f)) != f.shape.right()) fail_diverged(f, step);
      codec::expand(left(f, message), right(f), f.shape, matrix(f, values));
    }
    auto from = exact_part(factors, message).begin();
    for (const codec::Segment& segment : factors.exact) {
      std::copy_n(from, segment.count, values.begin() + static_cast<std::ptrdiff_t>(segment.begin));
      from += static_cast<std::ptrdiff_t>(segment.count);
    }
  }

  [[noreturn]] static void fail_diverged(const Factored& f, StepId step) {
    fail(
        Kind::diverged,
        "step {}: the factors of slice {} (a {} x {} matrix) exceed float32's range; try a smaller "
        "optimizer.learning_rate or a schedule.warmup_epochs",
        step, f.segment.slice, f.shape.rows, f.shape.columns);
  }

  comm::Communicator& comm_;
  Workspace workspace_;
  std::vector<BucketFactors> buckets_;  // by the fusion bucket's index
  std::vector<float> state_;            // Q of every factored tensor, in the order of the model
  std::array<Slot, kMaxSlots> slots_;
};

}  // namespace

std::unique_ptr<Collective> make_power_sgd(comm::Communicator& comm,
                                           std::span<const FusionBucket> plan,
                                           const PowerSgdOptions& options) {
  return std::make_unique<PowerSgd>(comm, plan, options);
}

double power_sgd_message_bytes(std::span<const FusionBucket> plan, std::size_t rank) {
  std::size_t values = 0;
  for (const FusionBucket& bucket : plan) {
    for (const codec::Segment& segment : bucket.segments) {
      const std::size_t rows = segment.compressed ? segment.rows : 0;
      const FactorShape shape = codec::factor_shape(segment.count, rows, rank);
      values += shape.rank == 0 ? segment.count : shape.left() + shape.right();
    }
  }
  return static_cast<double>(values * sizeof(float));
}

namespace {

std::optional<CollectiveCost> power_sgd_cost(const Volume& v) {
  const double n = v.ranks;
  return CollectiveCost{.rounds = v.ranks <= 2 ? 2 : 4,
                        .sent_bytes = 2 * v.message_bytes * (n - 1) / n,
                        .encoded_values = v.values,
                        .decoded_values = v.values,
                        .added_values = v.message_bytes / 4,
                        .quantisations = 1};
}

}  // namespace

const CollectiveRow kPowerSgd = {
    .name = "power-sgd",
    .about = "float32 factors of rank compressor.rank; the compressor powersgd has no other",
    .cost = power_sgd_cost,
    .make = [](const CollectiveParts& parts) {
      return make_power_sgd(parts.comm, parts.plan, parts.power_sgd);
    }};

}  // namespace eqt::collective
