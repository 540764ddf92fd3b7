// SPDX-License-Identifier: Apache-2.0
#include "sync/gossip/event_trigger.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/error.hpp"

namespace eqt::sync {
namespace {

constexpr double kDecay = 0.9;

double square(double x) { return x * x; }

}  // namespace

EventTrigger::EventTrigger(std::span<const FusionBucket> plan, std::size_t count,
                           const EventOptions& options)
    : plan_(plan), square_(square(options.threshold)), silence_(options.silence), last_(count) {
  EQT_CHECK(options.threshold > 0 && options.silence > 0, "events above {}, silence {}",
            options.threshold, options.silence);
  std::map<std::uint32_t, std::size_t> positions;
  for (const FusionBucket& bucket : plan)
    for (const codec::Segment& segment : bucket.segments) positions[segment.slice] = 0;
  std::size_t next = 0;
  for (auto& [slice, position] : positions) position = next++;
  for (const FusionBucket& bucket : plan) {
    slices_.emplace_back();
    for (const codec::Segment& segment : bucket.segments) {
      const std::size_t slice = positions.at(segment.slice);
      slices_.back().push_back(slice);
      ranges_.push_back({segment.begin, segment.begin + segment.count, slice});
    }
    chosen_.emplace_back(bucket.segments.size(), std::uint8_t{1});
  }
  std::ranges::sort(ranges_, {}, &Range::begin);
  for (auto* by_slice : {&typical_, &moved_, &apart_}) by_slice->resize(positions.size());
  quiet_.resize(positions.size());
  due_.resize(positions.size());
}

void EventTrigger::start(std::span<const float> model) {
  std::ranges::copy(model, last_.span().begin());
}

/// Value by value in ascending order, so that the sums do not depend on how slices are cut.
void EventTrigger::add_squares(std::span<const float> model, std::span<const float> known) {
  std::ranges::fill(moved_, 0.0);
  std::ranges::fill(apart_, 0.0);
  const auto last = last_.span();
  for (const Range& range : ranges_) {
    double moved = moved_[range.slice], apart = apart_[range.slice];
    for (std::size_t i = range.begin; i < range.end; ++i) {
      const double x = static_cast<double>(model[i]);
      moved += square(x - static_cast<double>(last[i]));
      apart += square(x - static_cast<double>(known[i]));
    }
    moved_[range.slice] = moved;
    apart_[range.slice] = apart;
  }
}

/// Values that are not finite are sent, so that encoding them stops the run.
bool EventTrigger::is_due(std::size_t slice) const {
  return quiet_[slice] + 1 >= silence_ || !std::isfinite(apart_[slice]) ||
         apart_[slice] > square_ * typical_[slice];
}

void EventTrigger::choose(std::span<const float> model, std::span<const float> known) {
  add_squares(model, known);
  for (std::size_t slice = 0; slice < due_.size(); ++slice) {
    double& typical = typical_[slice];
    typical = typical > 0 ? kDecay * typical + (1 - kDecay) * moved_[slice] : moved_[slice];
    due_[slice] = is_due(slice) ? 1 : 0;
    quiet_[slice] = due_[slice] != 0 ? 0 : quiet_[slice] + 1;
    ++counts_[due_[slice] != 0 ? 0 : 1];
  }
  for (std::size_t bucket = 0; bucket < plan_.size(); ++bucket)
    for (std::size_t i = 0; i < slices_[bucket].size(); ++i)
      chosen_[bucket][i] = due_[slices_[bucket][i]];
}

void EventTrigger::mixed(const FusionBucket& bucket, std::span<const float> values) {
  std::ranges::copy(values, last_.span().begin() + static_cast<std::ptrdiff_t>(bucket.begin));
}

void EventTrigger::visit_state(StateVisitor& visitor) {
  visitor.values("last model", last_.span(), Across::fresh);
  visitor.doubles("typical movements", typical_, Across::fresh);
  visitor.numbers("quiet rounds", quiet_, Across::fresh);
  visitor.numbers("slices", counts_, Across::sum);
}

}  // namespace eqt::sync
