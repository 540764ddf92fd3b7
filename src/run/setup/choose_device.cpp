// SPDX-License-Identifier: Apache-2.0
#include "setup/choose_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "comm/host_facts.hpp"
#include "config/checks.hpp"
#include "core/error.hpp"

namespace eqt::setup {
namespace {

int device_of(const RankDevices& rank) { return rank.local % rank.count; }

/// "rank 3 on host pi3: there is no NVIDIA driver; ..."; empty if all have a device.
std::string first_obstacle(std::span<const RankDevices> ranks) {
  const auto lacks = std::ranges::find(ranks, 0, &RankDevices::count);
  if (lacks == ranks.end()) return {};
  return fmt::format("rank {} on host {}: {}", lacks - ranks.begin(), lacks->host, lacks->obstacle);
}

/// Says how many devices are used, and how many ranks share the busiest.
std::string note_on_devices(std::span<const RankDevices> ranks) {
  std::map<std::pair<Rank, int>, int> ranks_on;
  for (const RankDevices& rank : ranks) ++ranks_on[{rank.first, device_of(rank)}];
  int most = 0;
  for (const auto& [device, count] : ranks_on) most = std::max(most, count);
  std::string note =
      fmt::format("device cuda: {} rank{} on {} NVIDIA device{}", ranks.size(),
                  ranks.size() == 1 ? "" : "s", ranks_on.size(), ranks_on.size() == 1 ? "" : "s");
  if (most > 1) note += fmt::format("; up to {} ranks share one, its time and its memory", most);
  return note;
}

DeviceChoice on_processor(std::string note) {
  return {.placement = model::on_processor(), .note = std::move(note)};
}

}  // namespace

DeviceChoice choose_device(const config::RunConfig& config, std::span<const RankDevices> ranks,
                           Rank own) {
  const bool automatic = config.device == config::Device::automatic;
  if (config.device == config::Device::cpu) return on_processor({});
  if (const std::string key = config::processor_only(config); automatic && !key.empty())
    return on_processor(fmt::format("device auto: on the processors, because of {}", key));
  const std::string obstacle = first_obstacle(ranks);
  if (obstacle.empty())
    return {.placement = model::on_cuda(device_of(ranks[static_cast<std::size_t>(own)])),
            .note = note_on_devices(ranks)};
  if (automatic) return on_processor(fmt::format("device auto: on the processors; {}", obstacle));
  fail(Kind::usage,
       "device: expected an NVIDIA device for every rank with \"cuda\", found none for {}; or set "
       "device to \"auto\" or \"cpu\"",
       obstacle);
}

DeviceChoice choose_device(const config::RunConfig& config, comm::Communicator& comm) {
  const auto local = comm.ranks_on_this_host();
  model::CudaDevices found;
  if (config.device != config::Device::cpu) found = model::cuda_devices();
  const auto hosts = comm.allgather(comm::host_name());
  const auto firsts = comm.allgather(static_cast<std::uint64_t>(local.front()));
  const auto places = comm.allgather(
      static_cast<std::uint64_t>(std::ranges::find(local, comm.rank()) - local.begin()));
  const auto counts = comm.allgather(static_cast<std::uint64_t>(found.count));
  const auto obstacles = comm.allgather(found.obstacle);
  std::vector<RankDevices> ranks;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    ranks.push_back({.host = hosts[r],
                     .first = static_cast<Rank>(firsts[r]),
                     .local = static_cast<int>(places[r]),
                     .count = static_cast<int>(counts[r]),
                     .obstacle = obstacles[r]});
  DeviceChoice choice;
  comm.agree_after([&] { choice = choose_device(config, ranks, comm.rank()); });
  return choice;
}

}  // namespace eqt::setup
