// SPDX-License-Identifier: Apache-2.0
// Which slices of a model have moved so far that neighbours must know. Private to the room.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/saved_state.hpp"
#include "sync/gossip/mixer.hpp"

namespace eqt::sync {

/// Chooses the slices that a rank sends in a round. With D_l = 0.9 D_l + 0.1 |movement of slice l
/// by the rank's own steps since the last round|^2, at first the first movement that is not 0, a
/// slice is sent if |x_l - xh_l|^2 > threshold^2 D_l, where xh is what neighbours know of x, or if
/// it was not sent in the last `silence` - 1 rounds.
///
/// Event-triggered gossip is SPARQ-SGD's (N. Singh et al., CDC 2020, arXiv:1910.14280). Deviates:
/// each slice decides for itself, and typical movements take the place of the paper's thresholds
/// c_t eta_t^2, so that the threshold needs no tuning when the learning rate falls.
class EventTrigger {
 public:
  /// @param plan  names the slices; kept
  /// @param count values of the model
  EventTrigger(std::span<const FusionBucket> plan, std::size_t count, const EventOptions& options);

  /// All ranks have this model.
  void start(std::span<const float> model);
  /// Begins a round. @param known xh
  void choose(std::span<const float> model, std::span<const float> known);
  /// Returns 1 for each segment of the bucket that is sent in this round, else 0.
  std::span<const std::uint8_t> chosen(const FusionBucket& bucket) const {
    return chosen_.at(bucket.index);
  }
  /// The bucket's part of the model at the end of the round.
  void mixed(const FusionBucket& bucket, std::span<const float> values);

  /// Returns the counts of this rank since the start.
  SliceCounts counts() const noexcept { return {counts_[0], counts_[1]}; }

  /// With another number of ranks all begin anew.
  void visit_state(StateVisitor& visitor);

 private:
  /// A segment's values, and the position of their slice.
  struct Range {
    std::size_t begin = 0, end = 0, slice = 0;
  };

  void add_squares(std::span<const float> model, std::span<const float> known);
  bool is_due(std::size_t slice) const;

  const std::span<const FusionBucket> plan_;
  const double square_;  // of the threshold
  const std::uint64_t silence_;
  std::vector<Range> ranges_;                     // of all segments, in ascending order
  std::vector<std::vector<std::size_t>> slices_;  // by bucket: the slice of each segment
  std::vector<std::vector<std::uint8_t>> chosen_;
  FlatBuffer last_;                   // the model at the end of the last round
  std::vector<double> typical_;       // D, by slice
  std::vector<std::uint64_t> quiet_;  // rounds since the slice was sent
  std::vector<double> moved_, apart_;
  std::vector<std::uint8_t> due_;
  std::vector<std::uint64_t> counts_ = {0, 0};  // slices sent, and left out
};

}  // namespace eqt::sync
