// SPDX-License-Identifier: Apache-2.0
#include "forecast/fluid_network.hpp"

#include <algorithm>
#include <limits>

#include "core/error.hpp"

namespace eqt::forecast {
namespace {

// Rounding may leave this much of a flow, relative to what runs in a second.
constexpr double kRounding = 1e-12;

}  // namespace

ResourceId FluidNetwork::add_resource(double capacity) {
  EQT_CHECK(capacity > 0, "a resource of {} units per second", capacity);
  resources_.push_back({.capacity = capacity});
  return resources_.size() - 1;
}

void FluidNetwork::set_capacity(ResourceId resource, double capacity) {
  EQT_CHECK(capacity > 0, "a resource of {} units per second", capacity);
  if (capacity == resources_[resource].capacity) return;
  resources_[resource].capacity = capacity;
  filled_ = false;
}

FlowId FluidNetwork::start(double amount, std::vector<Use> uses, double most, std::size_t owner) {
  FlowId id = flows_.size();
  if (free_.empty()) {
    flows_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  flows_[id] = {.left = amount, .rate = 0, .most = most, .uses = std::move(uses), .owner = owner};
  resume(id);
  return id;
}

void FluidNetwork::pause(FlowId flow) {
  flows_[flow].runs = false;
  std::erase(running_, flow);
  filled_ = false;
}

void FluidNetwork::resume(FlowId flow) {
  flows_[flow].runs = true;
  running_.push_back(flow);
  filled_ = false;
}

void FluidNetwork::fix(Flow& flow, double rate) {
  flow.rate = rate;
  flow.fixed = true;
  for (const Use& use : flow.uses) {
    Resource& resource = resources_[use.resource];
    resource.left = std::max(0.0, resource.left - rate * use.amount);
    resource.wanted -= use.amount;
  }
}

void FluidNetwork::fill() {
  filled_ = true;
  for (const ResourceId id : touched_) resources_[id].wanted = 0;
  touched_.clear();
  for (const FlowId id : running_) {
    flows_[id].fixed = false;
    for (const Use& use : flows_[id].uses) {
      Resource& resource = resources_[use.resource];
      if (resource.wanted == 0) {
        touched_.push_back(use.resource);
        resource.left = resource.capacity;
        resource.used = 0;
      }
      resource.wanted += use.amount;
    }
  }
  for (std::size_t open = running_.size(); open > 0;) {
    // The least share, of a resource or of a flow's own limit.
    double least = std::numeric_limits<double>::infinity();
    for (const ResourceId id : touched_) {
      const Resource& resource = resources_[id];
      if (resource.wanted > kRounding) least = std::min(least, resource.left / resource.wanted);
    }
    for (const FlowId id : running_)
      if (!flows_[id].fixed) least = std::min(least, flows_[id].most);
    const double nearly = least * (1 + kRounding);
    const auto is_limited = [&](const Flow& flow) {
      return flow.most <= nearly || std::ranges::any_of(flow.uses, [&](const Use& use) {
               const Resource& resource = resources_[use.resource];
               return resource.left <= nearly * resource.wanted;
             });
    };
    // Limits are judged before any flow is fixed, which changes what is left.
    limited_.clear();
    for (const FlowId id : running_)
      if (!flows_[id].fixed && is_limited(flows_[id])) limited_.push_back(id);
    EQT_CHECK(!limited_.empty(), "{} flows that nothing limits", open);
    for (const FlowId id : limited_) fix(flows_[id], least);
    open -= limited_.size();
  }
  for (const FlowId id : running_)
    for (const Use& use : flows_[id].uses)
      resources_[use.resource].used +=
          flows_[id].rate * use.amount / resources_[use.resource].capacity;
}

double FluidNetwork::seconds_to_next_end() {
  if (!filled_) fill();
  double next = std::numeric_limits<double>::infinity();
  for (const FlowId id : running_) next = std::min(next, flows_[id].left / flows_[id].rate);
  return next;
}

const std::vector<std::size_t>& FluidNetwork::advance(double seconds) {
  if (!filled_) fill();
  for (const ResourceId id : touched_) resources_[id].busy += seconds * resources_[id].used;
  ended_.clear();
  std::erase_if(running_, [&](FlowId id) {
    Flow& flow = flows_[id];
    flow.left -= flow.rate * seconds;
    if (flow.left > flow.rate * kRounding) return false;
    flow.runs = false;
    ended_.push_back(flow.owner);
    free_.push_back(id);
    return true;
  });
  if (!ended_.empty()) filled_ = false;
  return ended_;
}

}  // namespace eqt::forecast
