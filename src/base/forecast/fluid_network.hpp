// SPDX-License-Identifier: Apache-2.0
// Flows that share links and processors, as fluids: rates change only when a flow starts or ends.

#pragma once

#include <cstddef>
#include <vector>

namespace eqt::forecast {

/// Something with a limited rate: a link in one direction [bytes/s], a radio channel or a processor
/// [seconds of use per second].
using ResourceId = std::size_t;
using FlowId = std::size_t;

/// One unit of a flow takes this amount of a resource.
struct Use {
  ResourceId resource = 0;
  double amount = 1;
};

/// Max-min fair rates by progressive filling: the resource that leaves least to each of its flows
/// fixes their rates, then the next one does for the remaining flows (D. Bertsekas, R. Gallager,
/// Data Networks, 1992, 6.5.2). TCP comes near it when connections have equal round trip times.
class FluidNetwork {
 public:
  /// @param capacity > 0; units of use per second
  ResourceId add_resource(double capacity);
  /// @param amount > 0; units until the flow ends
  /// @param uses each resource at most once; a flow without uses has the rate `most`
  /// @param most units per second at most
  /// @param owner returned by advance() when the flow has ended
  FlowId start(double amount, std::vector<Use> uses, double most, std::size_t owner);
  /// Stops a flow, which keeps what is left of it.
  void pause(FlowId flow);
  void resume(FlowId flow);
  /// @param capacity > 0
  void set_capacity(ResourceId resource, double capacity);

  /// Seconds until the next flow ends; infinite if none runs.
  double seconds_to_next_end();
  /// Lets time pass, at most until the next flow ends. @return owners of flows that ended, in the
  /// order of their start
  const std::vector<std::size_t>& advance(double seconds);

  /// Seconds in which a resource was used, weighted by how much of it.
  double busy_seconds(ResourceId resource) const { return resources_[resource].busy; }

 private:
  struct Resource {
    double capacity = 0;
    double busy = 0;  // seconds times the used share
    // fill() sets these:
    double left = 0, wanted = 0, used = 0;
  };
  struct Flow {
    double left = 0, rate = 0, most = 0;
    std::vector<Use> uses;
    std::size_t owner = 0;
    bool runs = false, fixed = false;
  };

  void fill();
  void fix(Flow& flow, double rate);

  std::vector<Resource> resources_;
  std::vector<Flow> flows_;
  std::vector<FlowId> running_, free_, limited_;
  std::vector<ResourceId> touched_;
  std::vector<std::size_t> ended_;
  bool filled_ = false;
};

}  // namespace eqt::forecast
