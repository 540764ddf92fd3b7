// SPDX-License-Identifier: Apache-2.0
#include "sync/lazy/lazy_averaging.hpp"

#include <fmt/format.h>

#include "sync/algorithm_parts.hpp"
#include "sync/count_bytes.hpp"

namespace eqt::sync {
namespace {

class LazyAveraging final : public Synchronizer {
 public:
  LazyAveraging(const LazyAveragingParts& parts, const LazyAveragingOptions& options)
      : p_(parts), options_(options), mean_(parts.comm, parts.gradient.size(), options.rule) {}

  void begin(StepId step, std::uint64_t) override { step_ = step; }
  void slice_ready(std::size_t) override {}

  SyncResult finish() override {
    StepId step = step_;
    if (options_.fault) step = options_.fault->inject_in_bucket(p_.comm.rank(), step, 0);
    add_weight_decay();
    check_finite("the gradient");
    const comm::ByteCount before = p_.comm.byte_count();
    const LazyMeanResult mean = mean_.mean(step, p_.gradient);
    SyncResult result{.traffic = mean.traffic, .quantization_variance = mean.quantization_variance};
    count_bytes(before, p_.comm.byte_count(), result.traffic);
    check_finite("the mean gradient");
    if (step_ + 1 == options_.total_steps) result.note = messages();
    return result;
  }

  void visit_state(StateVisitor& visitor) override { visit_in(visitor, "lazy mean", mean_); }

 private:
  /// Where the loss is least, its gradient is not zero but for the decay; the rule needs the sum.
  void add_weight_decay() {
    if (options_.weight_decay == 0) return;
    for (std::size_t i = 0; i < p_.gradient.size(); ++i)
      p_.gradient[i] += options_.weight_decay * p_.parameters[i];
  }

  void check_finite(std::string_view what) {
    require_finite(p_.layout, p_.gradient, 0, what, step_, p_.comm.rank(), p_.divergence);
  }

  std::string messages() const {
    const std::uint64_t sent = mean_.messages_sent(), all = sent + mean_.messages_skipped();
    return fmt::format("laq: {} of {} gradients were sent, {} were left out", sent, all,
                       mean_.messages_skipped());
  }

  const LazyAveragingParts p_;
  const LazyAveragingOptions options_;
  LazyMean mean_;
  StepId step_ = 0;
};

}  // namespace

std::unique_ptr<Synchronizer> make_lazy_averaging(const LazyAveragingParts& parts,
                                                  const LazyAveragingOptions& options) {
  return std::make_unique<LazyAveraging>(parts, options);
}

namespace {

constexpr std::string_view kKeys[] = {"laq_bits", "laq_history", "laq_weight", "laq_silence"};

}  // namespace

const AlgorithmRow kLaq = {
    .name = "laq",
    .about =
        "the mean of all ranks' gradients, of which a rank sends changes that matter (LAQ, LAG)",
    .keys = kKeys,
    .lazy = true,
    .models_remembered = 4,
    .make = [](AlgorithmParts parts, const AlgorithmSettings& settings) {
      return BuiltAlgorithm{
          .synchronizer = make_lazy_averaging({.comm = parts.comm,
                                               .parameters = parts.parameters,
                                               .gradient = parts.gradient,
                                               .layout = parts.layout,
                                               .divergence = parts.divergence},
                                              {.rule = settings.lazy,
                                               .weight_decay = settings.weight_decay,
                                               .total_steps = settings.rounds.total_steps,
                                               .fault = parts.fault}),
          .directs = true};
    }};

}  // namespace eqt::sync
