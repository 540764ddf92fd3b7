// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "doctor/findings.hpp"

namespace eqt::doctor {
namespace {

using Json = nlohmann::ordered_json;

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
  document["warnings"] = Json::array();
  for (const Warning& warning : warnings) {
    document["warnings"].push_back({{"id", warning.id}, {"text", warning.text}});
  }
  if (!facts.recommendation.empty()) document["recommendation"] = facts.recommendation;
  return document.dump(2) + '\n';
}

}  // namespace eqt::doctor
