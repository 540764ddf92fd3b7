// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "doctor/findings.hpp"

namespace eqt::doctor {
namespace {

/// "0-3,8"
template <typename Number>
std::string ranges(const std::vector<Number>& sorted) {
  std::vector<std::string> runs;
  for (std::size_t begin = 0; begin < sorted.size();) {
    std::size_t end = begin + 1;
    while (end < sorted.size() && sorted[end] == sorted[end - 1] + 1) ++end;
    runs.push_back(end - begin == 1 ? fmt::format("{}", sorted[begin])
                                    : fmt::format("{}-{}", sorted[begin], sorted[end - 1]));
    begin = end;
  }
  return runs.empty() ? "none" : fmt::format("{}", fmt::join(runs, ","));
}

std::string devices(const RankFacts& rank) {
  if (rank.cuda_devices > 0)
    return fmt::format(
        "{} devices; training on them (device \"cuda\") was never run by its authors",
        rank.cuda_devices);
  return "none: " + rank.cuda_obstacle.substr(0, rank.cuda_obstacle.find(';'));
}

std::string bit_rate(double bytes_per_second) {
  const double megabits = bytes_per_second * 8e-6;
  return megabits < 1000 ? fmt::format("{:.1f} Mb/s", megabits)
                         : fmt::format("{:.2f} Gb/s", megabits * 1e-3);
}

std::string microseconds(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6)
                        : fmt::format("{:.2f} ms", seconds * 1e3);
}

double gibibytes(std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

/// Cores that each rank of a host may use: "0-3 each" or "0 | 1 | 2".
std::string binding(const DoctorFacts& facts, const HostRanks& host) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> sets;
  for (const Rank rank : host.ranks) {
    sets.push_back(ranges(facts.ranks[static_cast<std::size_t>(rank)].cores));
  }
  if (std::all_of(sets.begin(), sets.end(), [&](const auto& set) { return set == sets[0]; })) {
    return sets.size() == 1 ? sets[0] : sets[0] + " each";
  }
  if (sets.size() > kShown) {
    sets.resize(kShown);
    sets.back() = "...";
  }
  return fmt::format("{}", fmt::join(sets, " | "));
}

std::string host_rows(const DoctorFacts& facts) {
  std::string text =
      fmt::format("{:<16} {:<8} {:>5}  {:<14} {:>7}  {:<10} {:>17}  {:>9}\n", "host", "ranks",
                  "cores", "ranks may use", "threads", "SIMD", "memory free, GiB", "GFLOP/s");
  for (const HostRanks& host : hosts_of(facts)) {
    const RankFacts& first = facts.ranks[static_cast<std::size_t>(host.ranks.front())];
    text += fmt::format("{:<16} {:<8} {:>5}  {:<14} {:>7}  {:<10} {:>17}  {:>9}\n", host.name,
                        ranges(host.ranks), first.host_cores, binding(facts, host), first.threads,
                        first.simd,
                        fmt::format("{:.1f} of {:.1f}", gibibytes(first.available_bytes),
                                    gibibytes(first.memory_bytes)),
                        first.has_torch() ? fmt::format("{:.1f}", first.matmul_flops * 1e-9) : "-");
  }
  return text;
}

std::string through(const DoctorFacts& facts, const comm::Link& link) {
  if (link.same_host) return "one host";
  const std::string first = interface_between(facts, link.first, link.second);
  const std::string second = interface_between(facts, link.second, link.first);
  if (first.empty() && second.empty()) return "no interface";
  return first == second ? first : fmt::format("{}, {}", first, second);
}

std::string link_rows(const DoctorFacts& facts) {
  if (facts.links.empty()) return "";
  std::string text =
      fmt::format("\n{:<11} {:<16} {:>10}  {:>12} {:>12}  {:>12} {:>12}\n", "link a-b", "through",
                  "latency", "a to b", "b to a", "both: a to b", "b to a");
  for (const comm::Link& link : facts.links) {
    text += fmt::format(
        "{:<11} {:<16} {:>10}  {:>12} {:>12}  {:>12} {:>12}\n",
        fmt::format("{}-{}", link.first, link.second), through(facts, link),
        microseconds(link.forward.latency_seconds), bit_rate(link.forward.bytes_per_second),
        bit_rate(link.backward.bytes_per_second), bit_rate(link.forward.duplex_bytes_per_second),
        bit_rate(link.backward.duplex_bytes_per_second));
  }
  return text;
}

}  // namespace

std::string doctor_text(const DoctorFacts& facts, const std::vector<Warning>& warnings) {
  const RankFacts& first = facts.ranks.front();
  const auto plural = [](std::size_t n, const char* one) {
    return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s");
  };
  std::string text = fmt::format(
      "equant-train {}, {} on {}\nMPI          {}{}, thread level {}{}\n", first.version,
      plural(facts.ranks.size(), "rank"), plural(hosts_of(facts).size(), "host"), first.mpi,
      first.mpi_runtime.empty() ? "" : ", runtime " + first.mpi_runtime, first.thread_level,
      first.single_copy.empty() ? "" : ", single copy within a host: " + first.single_copy);
  text += first.has_torch()
              ? fmt::format(
                    "LibTorch     {} ({} kernels)\nBLAS         {} ({})\nbf16         {}\n"
                    "NVIDIA       {}\n\n",
                    first.torch, first.torch_kernels, first.blas_vendor, first.blas_library,
                    first.bf16, devices(first))
              : fmt::format("LibTorch     {}: our own kernels train, in fp32 and int8\n\n",
                            first.torch);
  text += host_rows(facts) + link_rows(facts) + '\n';
  for (const Warning& warning : warnings) {
    text += fmt::format("warning: {}: {}\n", warning.id, warning.text);
  }
  if (warnings.empty()) text += "no warnings\n";
  return text + (facts.recommendation.empty() ? "" : facts.recommendation + "\n");
}

}  // namespace eqt::doctor
