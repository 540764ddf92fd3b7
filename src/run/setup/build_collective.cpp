// SPDX-License-Identifier: Apache-2.0
#include "setup/build_collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "collective/cost.hpp"
#include "core/error.hpp"
#include "setup/step_model.hpp"

namespace eqt::setup {
namespace {

using collective::Candidate;
using collective::CollectiveCost;
using collective::CollectiveRow;
using pipeline::FusionBucket;
using Plan = std::vector<FusionBucket>;

// Collectives differ in the bits of their means, and a run must repeat: no clock has a say. Hosts
// are joined as slowly as where compression is needed.
constexpr double kMegabits = 100;
constexpr double kTie = 0.10;
constexpr int kMaxQuantisations = 2;

/// Holds that on which the choice depends.
struct Job {
  const codec::Compressor& compressor;
  const Plan& plan;
  int ranks = 1, hosts = 1;
  bool equal = true;  // as many ranks on each host

  int equal_hosts() const { return equal ? hosts : 0; }
};

/// One way to run this plan.
struct CostedCollective {
  Entry<CollectiveRow> collective;
  CollectiveCost cost;
  std::size_t slots = 1;
  double seconds = 0;  // for the whole plan, on the reference machine
};

config::RunConfig with_collective(const config::RunConfig& config, const CollectiveRow& row) {
  config::RunConfig other = config;
  other.synchronization.collective = row;
  return other;
}

/// The collective, or null if it refuses this config. Constructors do not communicate.
std::unique_ptr<collective::Collective> try_to_make(const config::RunConfig& config,
                                                    comm::Communicator& comm,
                                                    const codec::Compressor& compressor,
                                                    bool remembers, const Plan& plan) {
  try {
    return make_collective(config, comm, compressor, remembers, plan);
  } catch (const Error& error) {
    if (error.kind() != Kind::usage) throw;
    return nullptr;
  }
}

bool has_int8_segments(const Plan& plan) {
  return std::ranges::any_of(plan, [](const FusionBucket& bucket) {
    return std::ranges::any_of(bucket.segments, &codec::Segment::int8);
  });
}

/// Leaves out a candidate if another one quantises less often and sends no more bytes, in total and
/// between hosts: two ranks send each other as much by allgather as by scatter-reduce, which
/// quantises twice.
void drop_dominated(std::vector<CostedCollective>& all, const Job& job) {
  std::vector<CostedCollective> kept;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const CollectiveCost& cost = all[i].cost;
    const bool dominated = std::ranges::any_of(all, [&](const CostedCollective& other) {
      return other.cost.quantisations < cost.quantisations &&
             other.cost.sent_bytes <= cost.sent_bytes &&
             collective::between_hosts_bytes(other.cost, job.ranks, job.hosts) <=
                 collective::between_hosts_bytes(cost, job.ranks, job.hosts);
    });
    // Equal candidates cannot be distinguished: for two ranks, recursive doubling is allgather.
    const bool repeated = std::any_of(kept.begin(), kept.end(), [&](const CostedCollective& other) {
      return other.cost == cost;
    });
    if (!dominated && !repeated) kept.push_back(all[i]);
  }
  all = std::move(kept);
}

/// In the order of preference: the static choice, then fewer quantisations and rounds first.
/// @param slots_of of a collective, nothing if it refuses the config
template <typename SlotsOf>
std::vector<CostedCollective> costed_collectives(const Job& job, const SlotsOf& slots_of) {
  const collective::Volume volume =
      collective::volume_of(job.compressor, job.plan, job.ranks, job.equal_hosts());
  const bool lossless = job.compressor.properties().lossless;
  std::vector<CostedCollective> found;
  for (const Entry<CollectiveRow> row : CollectiveRow::all()) {
    if (row->is_candidate != nullptr && !row->is_candidate(job.ranks, job.equal_hosts())) continue;
    if (has_int8_segments(job.plan) && !row->carries_int8_segments) continue;
    const auto cost = collective::collective_cost(*row, volume);
    if (!cost || (!lossless && cost->quantisations > kMaxQuantisations)) continue;
    if (const std::optional<std::size_t> slots = slots_of(*row))
      found.push_back({.collective = row, .cost = *cost, .slots = *slots});
  }
  drop_dominated(found, job);
  const Entry<CollectiveRow> first =
      collective::choose_collective(job.compressor, job.plan.front().end, job.ranks);
  std::ranges::stable_sort(found, {}, [&](const CostedCollective& c) {
    return std::tuple(!(c.collective == first), c.cost.quantisations, c.cost.rounds);
  });
  return found;
}

forecast::Link within_host() {
  return {.name = "host", .bytes_per_second = 1e10, .latency_seconds = 1e-6};
}

/// The plan on the reference machine, all buckets ready at once: how long a board computes is not
/// known, and collectives differ where that does not hide them.
StepModel reference_model(const Job& job) {
  StepModel model{
      .ranks = job.ranks,
      .hosts = job.hosts,
      .link = job.hosts > 1 ? fixed_link(kMegabits) : within_host(),
      .communication = job.hosts > 1 ? collective::kTcpCosts : collective::kMemoryCosts,
      .fixed = StepModel::Fixed{.codec_seconds = {fixed_codec_seconds(job.compressor)}}};
  for (const collective::Volume& volume :
       collective::bucket_volumes(job.compressor, job.plan, job.ranks, job.equal_hosts()))
    model.buckets.push_back(
        {.volume = volume, .shares = {{.slice = model.buckets.size(), .part = 1}}});
  return model;
}

/// The place of the one that `auto` takes. Sets the seconds of all.
std::size_t choose(std::vector<CostedCollective>& found, const Job& job) {
  StepModel model = reference_model(job);
  std::vector<adaptation::SliceLoad> loads;
  for (const StepModel::Bucket& bucket : model.buckets)
    loads.push_back({.values = bucket.volume.values, .bytes = bucket.volume.message_bytes});
  std::vector<Candidate> candidates;
  for (CostedCollective& c : found) {
    model.collective = &*c.collective;
    model.slots = c.slots;
    c.seconds = predict_step(model, loads, {});
    candidates.push_back({std::string(c.collective->name), c.seconds});
  }
  // Within one host no link is slow, so the static choice is taken.
  return job.hosts <= 1 ? 0 : collective::choose_first_fast(candidates, kTie);
}

std::string note_on(std::span<const CostedCollective> all, std::size_t chosen, const Job& job) {
  std::string others;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i == chosen) continue;
    others += fmt::format("{}{} {:.2f}", others.empty() ? "" : ", ", all[i].collective->name,
                          all[i].seconds / all[chosen].seconds);
  }
  return fmt::format("auto takes the collective {}; times its seconds as simulated {}: {}",
                     all[chosen].collective->name,
                     job.hosts > 1 ? fmt::format("on links of {:.0f} Mb/s", kMegabits)
                                   : std::string("within one host"),
                     others);
}

}  // namespace

int equal_hosts(comm::Communicator& comm) {
  const auto per_host = comm.allgather(std::uint64_t{comm.ranks_on_this_host().size()});
  const bool equal =
      std::ranges::all_of(per_host, [&](auto count) { return count == per_host[0]; });
  return equal ? comm.size() / static_cast<int>(per_host[0]) : 0;
}

std::optional<CostedChoice> choose_by_cost(const config::RunConfig& config,
                                           comm::Communicator& comm,
                                           const codec::Compressor& compressor, bool remembers,
                                           const Plan& plan) {
  if (!(config.synchronization.collective == collective::kAutomatic) || comm.size() == 1) return {};
  const Job job = {.compressor = compressor,
                   .plan = plan,
                   .ranks = comm.size(),
                   .hosts = comm.host_count(),
                   .equal = equal_hosts(comm) > 0};
  std::optional<CostedChoice> choice;
  comm.agree_after([&] {
    std::vector<CostedCollective> found = costed_collectives(job, [&](const CollectiveRow& row) {
      const auto made =
          try_to_make(with_collective(config, row), comm, compressor, remembers, plan);
      return made == nullptr ? std::optional<std::size_t>() : made->row().slots;
    });
    if (found.size() < 2) return;
    const std::size_t chosen = choose(found, job);
    choice = CostedChoice{found[chosen].collective, note_on(found, chosen, job)};
  });
  return choice;
}

Entry<CollectiveRow> collective_on_paper(const codec::Compressor& compressor, const Plan& plan,
                                         int ranks, int hosts, bool equal_hosts) {
  const Entry<CollectiveRow> usual =
      collective::choose_collective(compressor, plan.front().end, ranks);
  if (ranks == 1 || compressor.properties().averages_itself) return usual;
  const Job job = {
      .compressor = compressor, .plan = plan, .ranks = ranks, .hosts = hosts, .equal = equal_hosts};
  std::vector<CostedCollective> found = costed_collectives(job, [&](const CollectiveRow& row) {
    const bool takes = collective::why_not(row, compressor).empty();
    return takes ? std::optional(collective::Collective::kMaxSlots) : std::nullopt;
  });
  return found.empty() ? usual : found[choose(found, job)].collective;
}

std::unique_ptr<collective::Collective> make_collective(
    const config::RunConfig& config, comm::Communicator& comm, const codec::Compressor& compressor,
    bool remembers, const std::vector<pipeline::FusionBucket>& plan) {
  return config.synchronization.collective->make(
      {.comm = comm,
       .compressor = compressor,
       .plan = plan,
       .reducer_feedback = remembers,
       .feedback_decay = static_cast<float>(config.synchronization.feedback_decay),
       .power_sgd = {.rank = static_cast<std::size_t>(config.compressor.rank),
                     .run_seed = config.seed}});
}

}  // namespace eqt::setup
