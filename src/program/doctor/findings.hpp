// SPDX-License-Identifier: Apache-2.0
// The findings of `doctor`, and conclusions from them. Plain data and pure functions.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/host_facts.hpp"
#include "comm/link_probe.hpp"

namespace eqt::doctor {

/// In place of a version, in a build without LibTorch.
inline constexpr const char* kNoTorch = "none";

/// Interfaces of this rank's host that carried the bytes of a measurement, the busiest first.
struct LinkInterfaces {
  Rank peer = 0;
  std::vector<comm::InterfaceCount> interfaces;  // bytes of this measurement
  int megabits = 0;                              // nominal speed of the busiest [Mb/s]; 0 = unknown
};

/// One rank, and the host as it sees it.
struct RankFacts {
  Rank first_on_host = 0;  // names the host
  std::string host;        // its own name, which another host may bear too
  std::string machine;     // the same on hosts that are parts of one machine
  int host_cores = 0;
  std::vector<int> cores;  // that the rank may use
  double core_quota = 0;   // 0 = none
  int threads = 0;         // that a training run would use
  std::uint64_t memory_bytes = 0, available_bytes = 0;
  std::string version;  // of equant-train
  std::string simd;
  std::string mpi, mpi_runtime, thread_level, single_copy;
  std::string torch;  // its version; kNoTorch, and what follows is empty, in a build without it
  std::string torch_kernels, blas_library, blas_vendor;
  std::string bf16;           // what model.precision bf16 computes with
  int cuda_devices = 0;       // that LibTorch sees
  std::string cuda_obstacle;  // why it sees none
  double matmul_flops = 0;    // [1/s] while all ranks multiply
  // The seconds until the program and its libraries are loaded, since the process was started; and
  // until MPI has started on all ranks, since then or, where the rank sees mpirun, since mpirun was
  // started. None: the system does not say it.
  std::optional<double> load_seconds = {}, start_seconds = {};
  std::vector<LinkInterfaces> link_interfaces;
  bool has_torch() const { return torch != kNoTorch; }
};

struct DoctorFacts {
  std::vector<RankFacts> ranks;
  std::vector<comm::Link> links;
  double probe_seconds = 0;         // that measuring them took
  std::string recommendation = {};  // of a scheme, one sentence; "" = one rank
  double memory_seconds = 0;        // between states in the hosts' memory [seconds]
};

/// The ranks of one host, ascending.
struct HostRanks {
  std::string name;  // "node3"; with "#2" behind the second of that name
  std::vector<Rank> ranks;
};
std::vector<HostRanks> hosts_of(const DoctorFacts& facts);

/// The interface that carried what rank `from` measured with `to`: "eth0", "bond0+eth0", "" if no
/// interface counted it.
std::string interface_between(const DoctorFacts& facts, Rank from, Rank to);

/// A failure costs so much under run_hosts.sh --elastic [seconds]. Only the start is measured; the
/// others follow from defaults of that script. A run adds what no doctor can know: reading its data
/// and building its network.
struct FailureCost {
  double silence = 0;           // of a host, until it counts as gone
  double end_after_kill = 0;    // instead, from the end of a rank's process to that of the job
  double start = 0;             // from mpirun's start until MPI has started on all ranks
  std::optional<Rank> slowest;  // to load its libraries; none of a single rank
  double lost_work = 0;         // at most, of steps since the last state in memory

  double total() const { return silence + start + lost_work; }
};
/// None if no rank knows when it was started.
std::optional<FailureCost> failure_cost_of(const DoctorFacts& facts);

struct Warning {
  std::string id;    // "reference-blas"
  std::string text;  // what was found, what it costs, what to do
};
/// Every rule over the facts, in the order of what usually costs most.
std::vector<Warning> diagnose(const DoctorFacts& facts);

/// Writes the facts for people, in lines of at most 100 columns, except for warnings.
std::string doctor_text(const DoctorFacts& facts, const std::vector<Warning>& warnings);
/// One document; seconds, bytes and bytes per second.
std::string doctor_json(const DoctorFacts& facts, const std::vector<Warning>& warnings);

/// A rank's facts on their way to rank 0.
std::string to_message(const RankFacts& facts);
/// @throws Error{wire}
RankFacts from_message(const std::string& message);

}  // namespace eqt::doctor
