// SPDX-License-Identifier: Apache-2.0
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "doctor/findings.hpp"
#include "support/catch.hpp"

using namespace eqt;
using doctor::DoctorFacts;

namespace {

constexpr double kGigabit = 117e6;  // what TCP moves over 1 Gb/s [bytes/s]

comm::Link make_link(Rank first, Rank second, bool same_host = false) {
  comm::Link link;
  link.first = first;
  link.second = second;
  link.same_host = same_host;
  link.forward = link.backward = {50e-6, kGigabit, kGigabit};
  return link;
}

/// Three machines of four cores and 8 GiB, one rank each with all cores, 1 Gb/s between them.
DoctorFacts healthy() {
  DoctorFacts facts;
  for (Rank r = 0; r < 3; ++r) {
    doctor::RankFacts rank;
    rank.first_on_host = r;
    rank.host = "node" + std::to_string(r);
    rank.machine = "boot" + std::to_string(r);
    rank.host_cores = 4;
    rank.cores = {0, 1, 2, 3};
    rank.threads = 4;
    rank.memory_bytes = std::uint64_t{8} << 30;
    rank.available_bytes = std::uint64_t{6} << 30;
    rank.version = "1.0";
    rank.simd = "AVX2";
    rank.mpi = "Open MPI v4.1.4";
    rank.thread_level = "multiple";
    rank.torch = "1.13.1";
    rank.torch_kernels = "AVX2";
    rank.blas_library = "/usr/lib/libopenblas.so.0";
    rank.blas_vendor = "OpenBLAS";
    rank.bf16 = "bf16 products, float32 sums";
    rank.cuda_devices = 0;
    rank.cuda_obstacle = "there is no NVIDIA driver; install one";
    rank.matmul_flops = 100e9;
    for (Rank peer = 0; peer < 3; ++peer) {
      if (peer == r) continue;
      doctor::LinkInterfaces link;
      link.peer = peer;
      link.interfaces = {{"eth0", 1000000, 1000000}};
      link.megabits = 1000;
      rank.link_interfaces.push_back(link);
    }
    facts.ranks.push_back(rank);
  }
  facts.links = {make_link(0, 1), make_link(0, 2), make_link(1, 2)};
  return facts;
}

/// Puts every rank on rank 0's host, with a neighbour link each.
DoctorFacts on_one_host() {
  DoctorFacts facts = healthy();
  for (auto& rank : facts.ranks) {
    rank.first_on_host = 0;
    rank.host = "node0";
    rank.machine = "boot0";
    rank.threads = 1;
    rank.single_copy = "cma";
    rank.link_interfaces.clear();
  }
  facts.links = {make_link(0, 1, true), make_link(0, 2, true)};
  return facts;
}

std::multiset<std::string> ids(const DoctorFacts& facts) {
  std::multiset<std::string> found;
  for (const auto& warning : doctor::diagnose(facts)) found.insert(warning.id);
  return found;
}

using Ids = std::multiset<std::string>;

/// The warnings about healthy hosts after `change`.
Ids after(const std::function<void(DoctorFacts&)>& change) {
  DoctorFacts facts = healthy();
  change(facts);
  return ids(facts);
}

Ids on_one_host_after(const std::function<void(DoctorFacts&)>& change) {
  DoctorFacts facts = on_one_host();
  change(facts);
  return ids(facts);
}

}  // namespace

TEST_CASE("healthy hosts get no warning", "[doctor]") {
  CHECK(ids(healthy()).empty());
  CHECK(ids(on_one_host()).empty());
  DoctorFacts alone = healthy();
  alone.ranks.resize(1);
  alone.ranks[0].link_interfaces.clear();
  alone.links.clear();
  CHECK(ids(alone).empty());
}

TEST_CASE("cores: too many ranks, shared bindings, idle cores, too many threads", "[doctor]") {
  CHECK(on_one_host_after([](auto& f) {
          for (auto& rank : f.ranks) rank.cores = {0, 1}, rank.host_cores = 2;
        }) == Ids{"oversubscribed"});
  CHECK(on_one_host_after([](auto& f) {
          for (auto& rank : f.ranks) rank.core_quota = 2.5;
        }) == Ids{"oversubscribed"});
  CHECK(on_one_host_after([](auto& f) {  // core 0 has two ranks, core 3 none
          f.ranks[0].cores = {0};
          f.ranks[1].cores = {0};
          f.ranks[2].cores = {1, 2, 3};
        }) == Ids{"bound-to-same-cores"});
  CHECK(on_one_host_after([](auto& f) {  // each a core of its own
          for (int r = 0; r < 3; ++r) f.ranks[static_cast<std::size_t>(r)].cores = {r};
        })
            .empty());
  CHECK(on_one_host_after([](auto& f) {
          for (auto& rank : f.ranks) rank.threads = 2;
        }) == Ids{"too-many-threads"});
  CHECK(after([](auto& f) { f.ranks[1].cores = {2}, f.ranks[1].threads = 1; }) ==
        Ids{"bound-too-tightly"});
  CHECK(on_one_host_after([](auto& f) {  // one core each, two threads each
          for (int r = 0; r < 3; ++r) {
            f.ranks[static_cast<std::size_t>(r)].cores = {r};
            f.ranks[static_cast<std::size_t>(r)].threads = 2;
          }
        }) == Ids{"too-many-threads", "bound-too-tightly"});
}

TEST_CASE("hosts that are parts of one machine share its cores and memory", "[doctor]") {
  CHECK(after([](auto& f) {
          for (auto& rank : f.ranks) rank.machine = "boot0", rank.threads = 1;
        }) == Ids{"one-machine"});
  CHECK(after([](auto& f) {
          for (auto& rank : f.ranks) {
            rank.machine = "boot0";
            rank.threads = 1;
            rank.cores = {0, 1};
            rank.host_cores = 2;
          }
        }) == Ids{"one-machine", "oversubscribed"});
  CHECK(after([](auto& f) {  // hosts without this fact are no common machine
          for (auto& rank : f.ranks) rank.machine = "";
        })
            .empty());
}

TEST_CASE("libraries: reference BLAS, MPI without threads, mixtures", "[doctor]") {
  CHECK(after([](auto& f) { f.ranks[2].blas_vendor = "reference"; }) == Ids{"reference-blas"});
  CHECK(after([](auto& f) { f.ranks[2].blas_vendor = "unknown"; }).empty());
  for (const char* level : {"single", "funneled"}) {
    CHECK(after([&](auto& f) {
            for (auto& rank : f.ranks) rank.thread_level = level;
          }) == Ids{"mpi-threads"});
  }
  CHECK(after([](auto& f) {
          for (auto& rank : f.ranks) rank.thread_level = "serialized";
        }).empty());
  CHECK(after([](auto& f) { f.ranks[0].simd = "SSE4"; }) == Ids{"mixed-simd"});
  CHECK(after([](auto& f) { f.ranks[0].version = "1.1"; }) == Ids{"mixed-versions"});
  CHECK(after([](auto& f) { f.ranks[0].mpi = "Open MPI v5.0.0"; }) == Ids{"mixed-mpi"});
  CHECK(after([](auto& f) { f.ranks[0].torch = "2.1.0"; }) == Ids{"mixed-libtorch"});
}

TEST_CASE("links: half duplex, slow, uneven", "[doctor]") {
  const auto duplex = [](double share) {
    return after([&](auto& f) {
      f.links[0].forward.duplex_bytes_per_second = share * kGigabit;
      f.links[0].backward.duplex_bytes_per_second = share * kGigabit;
    });
  };
  CHECK(duplex(0.50) == Ids{"half-duplex"});
  CHECK(duplex(0.64) == Ids{"half-duplex"});  // 1.28 of one way
  CHECK(duplex(0.66).empty());                // 1.32
  const auto speeds = [](double forward, double backward) {
    return after([&](auto& f) {
      f.links[1].forward = {50e-6, forward * kGigabit, forward * kGigabit};
      f.links[1].backward = {50e-6, backward * kGigabit, backward * kGigabit};
    });
  };
  CHECK(speeds(0.1, 0.1) == Ids{"slow-link"});
  CHECK(speeds(0.49, 1.0) == Ids{"slow-link"});
  CHECK(speeds(0.51, 0.51).empty());
  CHECK(speeds(1.0, 2.1) == Ids{"uneven-link"});
  // Of two hosts there is no other link to compare with.
  CHECK(after([](auto& f) {
          f.ranks.resize(2);
          f.links.resize(1);
          f.links[0].forward = {50e-6, 0.1 * kGigabit, 0.1 * kGigabit};
        }) == Ids{"uneven-link"});
  // A pair of ranks on one host is no network link.
  CHECK(on_one_host_after([](auto& f) {
          f.links[0].forward = {1e-6, 1e9, 1e8};
          f.links[0].backward = {1e-6, 1e10, 1e8};
        }).empty());
}

TEST_CASE("interfaces: loopback, container bridges, slow ports; one warning per host", "[doctor]") {
  const auto through = [](const char* name, int megabits) {
    return after([&](auto& f) {
      for (auto& link : f.ranks[1].link_interfaces) {
        link.interfaces[0].name = name;
        link.megabits = megabits;
      }
    });
  };
  CHECK(through("lo", 0) == Ids{"wrong-interface"});
  CHECK(through("docker0", 10000) == Ids{"wrong-interface"});
  CHECK(through("br-5fa3c6", 0) == Ids{"wrong-interface"});
  CHECK(through("bond0", 0).empty());
  CHECK(through("eth0", 100) == Ids{"slow-interface"});
  CHECK(after([](auto& f) {
          f.ranks[1].link_interfaces[0].interfaces.clear();  // unknown
        }).empty());
}

TEST_CASE("memory and copies within a host", "[doctor]") {
  CHECK(after([](auto& f) { f.ranks[0].available_bytes = 1000u << 20; }) == Ids{"little-memory"});
  CHECK(on_one_host_after([](auto& f) {  // 2.9 GiB for three ranks
          for (auto& rank : f.ranks) rank.available_bytes = std::uint64_t{2970} << 20;
        }) == Ids{"little-memory"});
  CHECK(on_one_host_after([](auto& f) {
          for (auto& rank : f.ranks) rank.single_copy = "none";
        }) == Ids{"two-copies"});
  CHECK(after([](auto& f) {  // no shared host
          for (auto& rank : f.ranks) rank.single_copy = "none";
        })
            .empty());
}

TEST_CASE("a failure costs silence, the longest start and work since the last state", "[doctor]") {
  DoctorFacts facts = healthy();
  facts.memory_seconds = 1;
  CHECK_FALSE(doctor::failure_cost_of(facts));
  const auto document = [&] { return nlohmann::json::parse(doctor::doctor_json(facts, {})); };
  CHECK(document().at("failure").is_null());
  CHECK(doctor::doctor_text(facts, {}).find("A failure") == std::string::npos);
  // Rank 0 sees mpirun, which was there before; rank 2 loads longest; rank 1 knows nothing.
  facts.ranks[0].load_seconds = 0.25;
  facts.ranks[0].start_seconds = 2.5;
  facts.ranks[2].load_seconds = 0.75;
  facts.ranks[2].start_seconds = 1.25;
  const auto cost = doctor::failure_cost_of(facts);
  REQUIRE(cost);
  CHECK(cost->start == 2.5);
  CHECK(cost->slowest == 2);
  CHECK(cost->lost_work == 1.5);  // a second, and half of one until all ranks know of the state
  CHECK(cost->total() == 3 + 2.5 + 1.5);
  const nlohmann::json failure = document().at("failure");
  CHECK(failure.at("seconds") == 7.0);
  CHECK(failure.at("detection_seconds") == 3.0);
  CHECK(failure.at("start_seconds") == 2.5);
  CHECK(failure.at("slowest_rank") == 2);
  CHECK(failure.at("lost_work_seconds") == 1.5);
  CHECK(document().at("ranks")[2].at("load_seconds") == 0.75);
  CHECK(document().at("ranks")[1].at("load_seconds").is_null());
  const std::string text = doctor::doctor_text(facts, {});
  for (const char* part : {"about 7.0 s", "3.0 s of silence", "2.5 s until all ranks", "rank 2",
                           "up to 1.5 s of work", "Not measured: "}) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
  const auto received = doctor::from_message(doctor::to_message(facts.ranks[2]));
  CHECK(received.load_seconds == 0.75);
  CHECK(received.start_seconds == 1.25);
  CHECK_FALSE(doctor::from_message(doctor::to_message(facts.ranks[1])).start_seconds);
  // A single rank is not the slowest of several.
  facts.ranks.erase(facts.ranks.begin(), facts.ranks.begin() + 2);
  facts.links.clear();
  CHECK_FALSE(doctor::failure_cost_of(facts)->slowest);
}

TEST_CASE("facts are sent completely, and other messages are refused", "[doctor]") {
  const auto sent = healthy().ranks[1];
  const auto received = doctor::from_message(doctor::to_message(sent));
  CHECK(doctor::to_message(received) == doctor::to_message(sent));
  CHECK(received.cores == sent.cores);
  CHECK(received.link_interfaces[1].interfaces[0].name == "eth0");
  CHECK(received.available_bytes == sent.available_bytes);
  CHECK(received.matmul_flops == sent.matmul_flops);
  CHECK(received.cuda_obstacle == sent.cuda_obstacle);
  for (const char* wrong : {"", "{}", "[1]", "{\"host\": 1}", "\xff"}) {
    CHECK_THROWS_AS(doctor::from_message(wrong), Error);
  }
}

TEST_CASE("the document has every link in both directions, and every warning", "[doctor]") {
  DoctorFacts facts = healthy();
  facts.links[0].forward.bytes_per_second = 12345;
  const auto warnings = doctor::diagnose(facts);
  const auto json = nlohmann::json::parse(doctor::doctor_json(facts, warnings));
  CHECK(json.at("size") == 3);
  CHECK(json.at("hosts").size() == 3);
  CHECK(json.at("ranks").size() == 3);
  CHECK(json.at("links").size() == 6);
  CHECK(json.at("links")[0].at("bytes_per_second") == 12345);
  CHECK(json.at("links")[1].at("from") == 1);
  CHECK(json.at("links")[1].at("interface") == "eth0");
  REQUIRE(json.at("warnings").size() == 1);
  CHECK(json.at("warnings")[0].at("id") == "slow-link");
}

TEST_CASE("the text distinguishes hosts of the same name and has at most 100 columns", "[doctor]") {
  DoctorFacts facts = healthy();
  for (auto& rank : facts.ranks) rank.host = "board";
  const std::string text = doctor::doctor_text(facts, doctor::diagnose(facts));
  for (const char* part :
       {"board ", "board#2", "board#3", "3 ranks on 3 hosts", "936.0 Mb/s", "50.0 us", "eth0",
        "no warnings", "NVIDIA       none: there is no NVIDIA driver\n"}) {
    INFO(part);
    CHECK(text.find(part) != std::string::npos);
  }
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
}
