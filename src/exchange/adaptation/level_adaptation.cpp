// SPDX-License-Identifier: Apache-2.0
// Adapted levels: ranks send the gradients' statistics to rank 0, which broadcasts the table.
//
// Rounds   2, in the steps that adapt
// Sent     257 doubles by each rank but 0, and a broadcast of n + 2 doubles
// Equal    only rank 0 adds and computes the levels, so tables do not differ with the C library. It
//          adds in rank order, so the sums do not depend on the MPI library and are the same for
//          workers of one process

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "adaptation/adaptation.hpp"
#include "codec/levels/adaptive_levels.hpp"
#include "collective/messages.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"

namespace eqt::adaptation {
namespace {

using codec::Levels;

class LevelAdaptation final : public Adaptation {
 public:
  LevelAdaptation(comm::Communicator& comm, codec::AdaptiveLevelCodec& codec, std::uint64_t every)
      : comm_(comm), codec_(codec), every_(every) {}

  bool observes(StepId step) const noexcept override { return adapts_levels_at(step, every_); }

  void observe(const pipeline::FusionBucket& bucket, std::span<const float> flat) override {
    for (const codec::Segment& segment : bucket.segments) {
      if (segment.compressed) {
        codec_.observe(flat.subspan(segment.begin, segment.count), statistics_);
      }
    }
  }

  void end_worker() override {
    const std::span<const double> sums = statistics_.sums();
    workers_.resize(sums.size());
    add(sums, workers_);
    statistics_.clear();
  }

  std::optional<std::string> adapt(StepId step) override {
    const std::span<double> sums = statistics_.sums();
    if (!workers_.empty()) std::ranges::copy(workers_, sums.begin());
    add_up_on_rank_0(sums);
    Levels levels = codec_.levels();
    if (comm_.rank() == 0) levels = codec_.fitted_levels(statistics_);
    comm_.broadcast(std::as_writable_bytes(std::span(levels)), 0);
    std::optional<std::string> change;
    if (levels != codec_.levels()) {
      if (comm_.rank() == 0) change = describe(levels);
      codec_.set_levels(levels);
      changed_after_ = step + 1;
    }
    statistics_.clear();
    workers_.clear();
    return change;
  }

  Traffic traffic_among(int ranks) const override {
    const auto others = static_cast<std::uint64_t>(ranks - 1);
    const std::uint64_t sums = codec::GradientStatistics::kSums * sizeof(double);
    const std::uint64_t levels = codec_.levels().size() * sizeof(double);
    const std::uint64_t bytes = others * (sums + levels + 2 * kChecksumBytes);
    return {.sent_bytes = bytes, .received_bytes = bytes};
  }

  /// The statistics are empty between two steps.
  void visit_state(StateVisitor& visitor) override {
    Levels levels = codec_.levels();
    visitor.number("changed after", changed_after_, Across::same);
    visitor.doubles("levels", levels, Across::same);
    if (!visitor.restores()) return;
    const bool increasing =
        levels[0] == 0 && codec::first_bad_level(std::span(levels).subspan(1)) + 1 == levels.size();
    if (!increasing || !codec::fp32_tells_apart(levels)) {
      fail(Kind::data, "adapted levels: expected levels that increase from 0 to 1, found {:.4g}",
           fmt::join(levels, " "));
    }
    codec_.set_levels(levels);
  }

 private:
  static void add(std::span<const double> own, std::span<double> sums) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += own[i];
  }

  void add_up_on_rank_0(std::span<double> sums) {
    constexpr const char* kOperation = "adaptation: statistics to rank 0";
    if (comm_.rank() != 0) {
      const std::array<comm::Outgoing, 1> outgoing = {{{0, std::as_bytes(sums)}}};
      comm_.exchange(outgoing, {}, kOperation);
      return;
    }
    std::vector<double> theirs(static_cast<std::size_t>(comm_.size() - 1) * sums.size());
    std::vector<comm::Incoming> incoming;
    for (std::size_t r = 1; r < static_cast<std::size_t>(comm_.size()); ++r) {
      const auto buffer = std::span(theirs).subspan((r - 1) * sums.size(), sums.size());
      incoming.push_back({static_cast<Rank>(r), std::as_writable_bytes(buffer), 0});
    }
    comm_.exchange({}, incoming, kOperation);
    for (const comm::Incoming& in : incoming)
      collective::require_bytes(in, in.buffer.size(), kOperation);
    for (std::size_t at = 0; at < theirs.size(); at += sums.size())
      add(std::span<const double>(theirs).subspan(at, sums.size()), sums);
  }

  /// @pre levels were computed from these statistics
  std::string describe(const Levels& levels) const {
    const auto [mixture, scale] = statistics_.model().value();
    const auto shown = std::span(levels).subspan(1, std::min<std::size_t>(levels.size() - 1, 7));
    return fmt::format("levels adapted: {:.4g}{}; expected variance {:.4g}, before {:.4g}",
                       fmt::join(shown, " "), shown.size() + 1 < levels.size() ? " ..." : "",
                       scale * codec::expected_variance(mixture, levels),
                       scale * codec::expected_variance(mixture, codec_.levels()));
  }

  comm::Communicator& comm_;
  codec::AdaptiveLevelCodec& codec_;
  const std::uint64_t every_;
  codec::GradientStatistics statistics_;
  std::vector<double> workers_;  // sums of the workers that this process plays; empty: it is one
                                 // rank
  StepId changed_after_ = 0;     // completed steps
};

}  // namespace

bool adapts_levels_at(StepId step, std::uint64_t every) noexcept {
  if (every > 0) return step % every == 0;
  return step == 100 || step == 2000 || step % 10000 == 0;
}

std::unique_ptr<Adaptation> make_level_adaptation(comm::Communicator& comm,
                                                  codec::AdaptiveLevelCodec& codec,
                                                  std::uint64_t every) {
  return std::make_unique<LevelAdaptation>(comm, codec, every);
}

}  // namespace eqt::adaptation
