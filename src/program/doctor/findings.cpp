// SPDX-License-Identifier: Apache-2.0
#include "doctor/findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/error.hpp"

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

using Json = nlohmann::ordered_json;

constexpr const char* kNotMeasured =
    "the end of the other ranks, reading data, building the network, the first step";

/// The lines have at most 100 columns, whatever the numbers are.
std::string failure_text(const DoctorFacts& facts) {
  const std::optional<FailureCost> cost = failure_cost_of(facts);
  if (!cost) return "";
  return fmt::format(
      "A failure costs about {:.1f} s with run_hosts.sh --elastic: {:.1f} s of silence until a "
      "lost host\n"
      "counts as gone (a killed process: {:.1f} s), {:.1f} s until all ranks have started{},\n"
      "and up to {:.1f} s of work since the last state in memory.\nNot measured: {}.\n\n",
      cost->total(), cost->silence, cost->end_after_kill, cost->start,
      cost->slowest ? fmt::format(" (slowest: rank {})", *cost->slowest) : "", cost->lost_work,
      kNotMeasured);
}

Json failure_json(const DoctorFacts& facts) {
  const std::optional<FailureCost> cost = failure_cost_of(facts);
  if (!cost) return nullptr;
  return {{"seconds", cost->total()},
          {"detection_seconds", cost->silence},
          {"detection_of_a_killed_process_seconds", cost->end_after_kill},
          {"start_seconds", cost->start},
          {"slowest_rank", cost->slowest ? Json(*cost->slowest) : Json()},
          {"lost_work_seconds", cost->lost_work},
          {"not_measured", kNotMeasured}};
}

Json seconds_json(const std::optional<double>& seconds) {
  return seconds ? Json(*seconds) : Json();
}

std::optional<double> seconds_in(const Json& json, const char* key) {
  if (!json.contains(key) || json[key].is_null()) return {};  // not in those of earlier versions
  return json[key].get<double>();
}

Json to_json(const LinkInterfaces& link) {
  Json interfaces = Json::array();
  for (const auto& interface : link.interfaces) {
    interfaces.push_back({{"name", interface.name},
                          {"received_bytes", interface.received_bytes},
                          {"sent_bytes", interface.sent_bytes}});
  }
  return {{"peer", link.peer},
          {"interfaces", std::move(interfaces)},
          {"nominal_megabits", link.megabits}};
}

Json to_json(const RankFacts& rank) {
  Json link_interfaces = Json::array();
  for (const LinkInterfaces& link : rank.link_interfaces) link_interfaces.push_back(to_json(link));
  return {{"first_on_host", rank.first_on_host},
          {"host", rank.host},
          {"machine", rank.machine},
          {"host_cores", rank.host_cores},
          {"cores", rank.cores},
          {"core_quota", rank.core_quota},
          {"threads", rank.threads},
          {"memory_bytes", rank.memory_bytes},
          {"available_bytes", rank.available_bytes},
          {"version", rank.version},
          {"simd", rank.simd},
          {"mpi", rank.mpi},
          {"mpi_runtime", rank.mpi_runtime},
          {"thread_level", rank.thread_level},
          {"single_copy", rank.single_copy},
          {"torch", rank.torch},
          {"torch_kernels", rank.torch_kernels},
          {"blas_library", rank.blas_library},
          {"blas_vendor", rank.blas_vendor},
          {"bf16", rank.bf16},
          {"cuda_devices", rank.cuda_devices},
          {"cuda_obstacle", rank.cuda_obstacle},
          {"matmul_flops", rank.matmul_flops},
          {"load_seconds", seconds_json(rank.load_seconds)},
          {"start_seconds", seconds_json(rank.start_seconds)},
          {"carriers", std::move(link_interfaces)}};
}

LinkInterfaces link_interfaces_from(const Json& json) {
  LinkInterfaces link{
      .peer = json.at("peer"), .interfaces = {}, .megabits = json.at("nominal_megabits")};
  for (const Json& interface : json.at("interfaces")) {
    link.interfaces.push_back({.name = interface.at("name"),
                               .received_bytes = interface.at("received_bytes"),
                               .sent_bytes = interface.at("sent_bytes")});
  }
  return link;
}

RankFacts rank_from(const Json& json) {
  RankFacts rank;
  json.at("first_on_host").get_to(rank.first_on_host);
  json.at("host").get_to(rank.host);
  json.at("machine").get_to(rank.machine);
  json.at("host_cores").get_to(rank.host_cores);
  json.at("cores").get_to(rank.cores);
  json.at("core_quota").get_to(rank.core_quota);
  json.at("threads").get_to(rank.threads);
  json.at("memory_bytes").get_to(rank.memory_bytes);
  json.at("available_bytes").get_to(rank.available_bytes);
  json.at("version").get_to(rank.version);
  json.at("simd").get_to(rank.simd);
  json.at("mpi").get_to(rank.mpi);
  rank.mpi_runtime = json.value("mpi_runtime", "");  // not in those of earlier versions
  json.at("thread_level").get_to(rank.thread_level);
  json.at("single_copy").get_to(rank.single_copy);
  json.at("torch").get_to(rank.torch);
  json.at("torch_kernels").get_to(rank.torch_kernels);
  json.at("blas_library").get_to(rank.blas_library);
  json.at("blas_vendor").get_to(rank.blas_vendor);
  json.at("bf16").get_to(rank.bf16);
  json.at("cuda_devices").get_to(rank.cuda_devices);
  json.at("cuda_obstacle").get_to(rank.cuda_obstacle);
  json.at("matmul_flops").get_to(rank.matmul_flops);
  rank.load_seconds = seconds_in(json, "load_seconds");
  rank.start_seconds = seconds_in(json, "start_seconds");
  for (const Json& link : json.at("carriers"))
    rank.link_interfaces.push_back(link_interfaces_from(link));
  return rank;
}

Json to_json(const DoctorFacts& facts, Rank from, Rank to, bool same_host,
             const comm::LinkSpeed& speed) {
  return {{"from", from},
          {"to", to},
          {"same_host", same_host},
          {"interface", interface_between(facts, from, to)},
          {"latency_seconds", speed.latency_seconds},
          {"bytes_per_second", speed.bytes_per_second},
          {"duplex_bytes_per_second", speed.duplex_bytes_per_second}};
}

}  // namespace

std::vector<HostRanks> hosts_of(const DoctorFacts& facts) {
  std::map<Rank, std::vector<Rank>> by_first;
  for (std::size_t r = 0; r < facts.ranks.size(); ++r) {
    by_first[facts.ranks[r].first_on_host].push_back(static_cast<Rank>(r));
  }
  std::vector<HostRanks> hosts;
  std::map<std::string, int> seen;
  for (auto& [first, ranks] : by_first) {
    const std::string& name = facts.ranks[static_cast<std::size_t>(first)].host;
    const int count = ++seen[name];
    hosts.push_back({count == 1 ? name : fmt::format("{}#{}", name, count), std::move(ranks)});
  }
  return hosts;
}

std::string interface_between(const DoctorFacts& facts, Rank from, Rank to) {
  const auto& link_interfaces = facts.ranks[static_cast<std::size_t>(from)].link_interfaces;
  const auto found = std::find_if(link_interfaces.begin(), link_interfaces.end(),
                                  [&](const LinkInterfaces& link) { return link.peer == to; });
  if (found == link_interfaces.end()) return "";
  std::vector<std::string> names;
  for (const auto& interface : found->interfaces) names.push_back(interface.name);
  return fmt::format("{}", fmt::join(names, "+"));
}

std::optional<FailureCost> failure_cost_of(const DoctorFacts& facts) {
  FailureCost cost;
  cost.silence = 3;           // --silence of run_hosts.sh --elastic
  cost.end_after_kill = 0.5;  // docs/rack.md: 0.2 to 0.7 s were measured until mpirun had ended
  // Ranks tell each other twice a second which states are complete; until then it is the last one.
  constexpr double kUntilAllKnow = 0.5;
  cost.lost_work = facts.memory_seconds + kUntilAllKnow;
  double longest = -1;
  bool known = false;
  for (std::size_t r = 0; r < facts.ranks.size(); ++r) {
    const RankFacts& rank = facts.ranks[r];
    if (!rank.start_seconds) continue;
    known = true;
    cost.start = std::max(cost.start, *rank.start_seconds);
    // MPI starts everywhere at once, when the last rank has come: the one that loads longest.
    if (facts.ranks.size() < 2 || rank.load_seconds.value_or(-1) <= longest) continue;
    longest = *rank.load_seconds;
    cost.slowest = static_cast<Rank>(r);
  }
  if (!known) return {};
  return cost;
}

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
  text += host_rows(facts) + link_rows(facts) + '\n' + failure_text(facts);
  for (const Warning& warning : warnings) {
    text += fmt::format("warning: {}: {}\n", warning.id, warning.text);
  }
  if (warnings.empty()) text += "no warnings\n";
  return text + (facts.recommendation.empty() ? "" : facts.recommendation + "\n");
}

std::string to_message(const RankFacts& facts) { return to_json(facts).dump(); }

RankFacts from_message(const std::string& message) {
  try {
    return rank_from(Json::parse(message));
  } catch (const Json::exception& error) {
    fail(Kind::wire, "doctor: expected a rank's facts, found {}; run one version on all hosts",
         error.what());
  }
}

std::string doctor_json(const DoctorFacts& facts, const std::vector<Warning>& warnings) {
  Json document = {{"version", facts.ranks.front().version}, {"size", facts.ranks.size()}};
  for (const HostRanks& host : hosts_of(facts)) {
    document["hosts"].push_back({{"name", host.name}, {"ranks", host.ranks}});
  }
  for (std::size_t r = 0; r < facts.ranks.size(); ++r) {
    Json rank = {{"rank", r}};
    rank.update(to_json(facts.ranks[r]));
    document["ranks"].push_back(std::move(rank));
  }
  document["probe_seconds"] = facts.probe_seconds;
  document["links"] = Json::array();
  for (const comm::Link& link : facts.links) {
    document["links"].push_back(
        to_json(facts, link.first, link.second, link.same_host, link.forward));
    document["links"].push_back(
        to_json(facts, link.second, link.first, link.same_host, link.backward));
  }
  document["failure"] = failure_json(facts);
  document["warnings"] = Json::array();
  for (const Warning& warning : warnings) {
    document["warnings"].push_back({{"id", warning.id}, {"text", warning.text}});
  }
  if (!facts.recommendation.empty()) document["recommendation"] = facts.recommendation;
  return document.dump(2) + '\n';
}

}  // namespace eqt::doctor
