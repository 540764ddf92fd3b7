// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "codec/simd.hpp"
#include "comm/communicator.hpp"
#include "comm/host_facts.hpp"
#include "comm/link_probe.hpp"
#include "comm/session.hpp"
#include "core/clock.hpp"
#include "core/version.hpp"
#include "doctor/findings.hpp"
#include "model/arithmetic.hpp"
#include "model/compute_device.hpp"
#include "model/replica.hpp"
#include "planner/cluster_file.hpp"
#include "planner/goodput.hpp"
#include "planner/machine_costs.hpp"
#include "planner/plan.hpp"
#include "setup/same_everywhere.hpp"

namespace eqt::doctor {
namespace {

constexpr double kTimeoutSeconds = 300;  // a slow link or a host that starts late is no error
constexpr double kMatmulSeconds = 0.2;

/// All ranks multiply at once, as they do in training.
void measure_matmul(comm::Communicator& comm, RankFacts& facts) {
  // More threads than cores would measure their quarrel.
  model::set_threads(
      std::clamp(facts.threads, 1, std::max(1, static_cast<int>(facts.cores.size()))));
  comm.allgather(std::uint64_t{0});
  facts.matmul_flops = model::matmul_flops(kMatmulSeconds);
  comm.allgather(std::uint64_t{0});
}

RankFacts look_around(const DoctorCommand& command, comm::Communicator& comm) {
  const comm::Memory memory = comm::memory();
  const comm::MpiFacts mpi = comm::mpi_facts();
  const auto algebra = model::linear_algebra();
  RankFacts facts;
  facts.first_on_host = comm.ranks_on_this_host().front();
  facts.host = comm::host_name();
  facts.machine = comm::machine_id();
  facts.host_cores = comm::online_cores();
  facts.cores = comm::allowed_cores();
  facts.core_quota = comm::core_quota();
  facts.threads = command.threads > 0
                      ? command.threads
                      : comm::fair_threads(static_cast<int>(comm.ranks_on_this_host().size()));
  facts.memory_bytes = memory.total_bytes;
  facts.available_bytes = memory.available_bytes;
  facts.version = version();
  facts.simd = codec::simd_target();
  facts.mpi = mpi.library;
  facts.mpi_runtime = mpi.runtime;
  facts.thread_level = mpi.thread_level;
  facts.single_copy = mpi.single_copy;
  facts.torch = kNoTorch;
  if (algebra) {
    facts.torch = algebra->torch_version;
    facts.torch_kernels = algebra->kernels;
    facts.blas_library = algebra->blas_library;
    facts.blas_vendor = algebra->blas_vendor;
    facts.bf16 = model::describe(model::bf16_arithmetic());
  }
  const model::CudaDevices devices = model::cuda_devices();
  facts.cuda_devices = devices.count;
  facts.cuda_obstacle = devices.obstacle;
  return facts;
}

/// Watches this host's interfaces while this rank measures a link: nothing else of the job speaks
/// at that time, for pairs of a round have no host in common.
std::vector<comm::Link> measure_links(comm::Communicator& comm, double budget_seconds,
                                      RankFacts& facts) {
  std::vector<comm::InterfaceCount> before;
  comm::ProbeOptions options{.budget_seconds = budget_seconds, .timeout_seconds = kTimeoutSeconds};
  options.before_pair = [&](Rank) { before = comm::interface_counts(); };
  options.after_pair = [&](Rank peer) {
    LinkInterfaces link{.peer = peer, .interfaces = {}};
    link.interfaces = comm::carried_between(before, comm::interface_counts());
    if (!link.interfaces.empty()) {
      link.megabits = comm::interface_megabits(link.interfaces.front().name);
    }
    facts.link_interfaces.push_back(std::move(link));
  };
  return comm::probe_links(comm, options);
}

/// Hosts as boards, each with the rate of its slowest link while both directions are busy.
std::string recommendation_for(const DoctorFacts& facts) {
  const std::vector<HostRanks> hosts = hosts_of(facts);
  if (hosts.size() == 1)
    return "All ranks are on one host, whose memory carries their messages: compression gains "
           "nothing here.";
  planner::ClusterFile cluster;
  for (const HostRanks& host : hosts) {
    const RankFacts& first = facts.ranks[static_cast<std::size_t>(host.ranks.front())];
    if (!(first.matmul_flops > 0)) return "";
    double rate = 0, latency = 0;
    for (const comm::Link& link : facts.links) {
      const auto is_here = [&](Rank rank) {
        return std::ranges::find(host.ranks, rank) != host.ranks.end();
      };
      if (link.same_host || !(is_here(link.first) || is_here(link.second))) continue;
      for (const comm::LinkSpeed& way : {link.forward, link.backward}) {
        const double found = way.duplex_bytes_per_second;
        rate = rate == 0 ? found : std::min(rate, found);
        latency = std::max(latency, way.latency_seconds);
      }
    }
    if (!(rate > 0)) return "";
    cluster.cluster.links.push_back(
        {.name = host.name, .bytes_per_second = rate, .latency_seconds = latency});
    cluster.cluster.boards.push_back({.name = host.name,
                                      .ranks = static_cast<int>(host.ranks.size()),
                                      .update_seconds = -1,
                                      .speed = {},
                                      .link = cluster.cluster.links.size() - 1});
    cluster.facts.push_back({.flops = first.matmul_flops});
  }
  planner::CodecSpeeds measured_here;
  return planner::recommend(cluster, measured_here).sentence;
}

/// Moments of this rank's start. The launcher's age is known where mpirun is the rank's parent.
struct Started {
  std::optional<double> load_seconds, start_seconds;
};

int examine(const DoctorCommand& command, const comm::Session& session, const Started& started) {
  comm::Communicator comm(session, kTimeoutSeconds);
  setup::require_same_command({{"verb", "doctor"}}, comm);
  RankFacts mine = look_around(command, comm);
  mine.load_seconds = started.load_seconds;
  mine.start_seconds = started.start_seconds;
  DoctorFacts facts;
  facts.memory_seconds = planner::interval_in_memory({});  // of states that are copied in no time
  const Stopwatch probe;
  facts.links = measure_links(comm, command.seconds, mine);
  facts.probe_seconds = probe.seconds();
  measure_matmul(comm, mine);
  const auto messages = comm.allgather(to_message(mine));
  comm.agree_after([&] {
    for (const std::string& message : messages) facts.ranks.push_back(from_message(message));
  });
  comm.agree_after([&] {
    if (comm.rank() == 0 && comm.size() > 1) facts.recommendation = recommendation_for(facts);
  });
  if (comm.rank() != 0) return 0;
  const auto warnings = diagnose(facts);
  fmt::print("{}", command.json ? doctor_json(facts, warnings) : doctor_text(facts, warnings));
  return 0;
}

}  // namespace

int run_doctor(const DoctorCommand& command, int argc, char** argv) {
  Started started;
  started.load_seconds = comm::age_of_process(getpid());
  const comm::Session session(&argc, &argv);
  started.start_seconds = std::max(comm::age_of_process(getpid()), comm::age_of_mpirun());
  return comm::run_guarded(session, [&] { return examine(command, session, started); });
}

}  // namespace eqt::doctor
