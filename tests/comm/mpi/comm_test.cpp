// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.hpp"
#include "support/mpi_world.hpp"
#include "support/payload_bytes.hpp"

using namespace eqt;
using comm::Communicator;

TEST_CASE("a broadcast text arrives completely", "[comm]") {
  Communicator comm(test::session(), 30);
  const Rank last = comm.size() - 1;
  for (const std::string& text : {std::string(), std::string("x"), std::string(100000, 'y')}) {
    CHECK(comm.broadcast(comm.rank() == last ? text : std::string("wrong"), last) == text);
  }
}

TEST_CASE("lists of numbers of different lengths arrive on all ranks, by rank", "[comm]") {
  Communicator comm(test::session(), 30);
  const auto list_of = [](Rank rank) {
    std::vector<double> list(static_cast<std::size_t>(rank));  // rank 0 has none
    std::iota(list.begin(), list.end(), 0.1 + rank);
    return list;
  };
  const auto lists = comm.allgather_lists<double>(list_of(comm.rank()));
  REQUIRE(std::ssize(lists) == comm.size());
  for (Rank r = 0; r < comm.size(); ++r) CHECK(lists[static_cast<std::size_t>(r)] == list_of(r));
}

TEST_CASE("reductions equal their definition", "[comm]") {
  Communicator comm(test::session(), 30);
  const double n = comm.size(), r = comm.rank();
  std::vector<double> sums = {r, 1.0, -r};
  comm.allreduce_sum(sums);
  CHECK(sums == std::vector<double>{n * (n - 1) / 2, n, -n * (n - 1) / 2});
  std::vector<double> maxima = {r, -r};
  comm.allreduce_max(maxima);
  CHECK(maxima == std::vector<double>{n - 1, 0.0});
}

TEST_CASE("exchange delivers messages of every length, shorter than their buffers", "[comm]") {
  Communicator comm(test::session(), 30);
  for (const std::size_t length : {0u, 1u, 7u, 4096u, 300000u}) {
    const auto before = comm.byte_count();
    // Each pair has a length and content of its own.
    const auto length_of = [&](Rank from, Rank to) {
      return length == 0 ? 0 : length + static_cast<std::size_t>(from * 10 + to);
    };
    std::vector<std::vector<std::byte>> sent, buffer;
    std::vector<comm::Outgoing> outgoing;
    std::vector<comm::Incoming> incoming;
    sent.reserve(8);
    buffer.reserve(8);
    for (Rank peer = 0; peer < comm.size(); ++peer) {
      if (peer == comm.rank()) continue;
      sent.emplace_back(length_of(comm.rank(), peer), std::byte(17 * comm.rank() + peer));
      buffer.emplace_back(length + 1000);
      outgoing.push_back({peer, sent.back()});
      incoming.push_back({peer, buffer.back(), 0});
    }
    comm.exchange(outgoing, incoming, "test exchange");
    std::size_t received = 0;
    for (const comm::Incoming& in : incoming) {
      CHECK(in.bytes == length_of(in.from, comm.rank()));
      bool equal = true;
      for (const std::byte b : in.buffer.first(in.bytes)) {
        equal &= b == std::byte(17 * in.from + comm.rank());
      }
      CHECK(equal);
      received += in.bytes;
    }
    CHECK(test::payload_between(before, comm.byte_count()).received == received);
    const auto peers = static_cast<std::uint64_t>(comm.size() - 1);
    CHECK(comm.byte_count().received_bytes - before.received_bytes == received + 8 * peers);
  }
}

TEST_CASE("agree brings one rank's error to all", "[comm]") {
  Communicator comm(test::session(), 30);
  CHECK_NOTHROW(comm.agree({}));
  const Rank failing = comm.size() - 1;
  std::optional<Error> mine;
  if (comm.rank() == failing) mine.emplace(Kind::data, "cannot open x");
  try {
    comm.agree(mine);
    FAIL_CHECK("agree did not throw");
  } catch (const comm::AgreedError& error) {
    CHECK(error.kind() == Kind::data);
    CHECK(std::string(error.what()).find("cannot open x") != std::string::npos);
    // An error of some ranks names the first of them.
    if (comm.size() > 1) {
      CHECK(std::string(error.what()).find("rank " + std::to_string(failing)) != std::string::npos);
    }
  }
}

TEST_CASE("require_same names the rank that differs", "[comm]") {
  Communicator comm(test::session(), 30);
  CHECK_NOTHROW(comm.require_same(42, "value"));
  if (comm.size() > 1) {
    CHECK_THROWS_WITH(comm.require_same(comm.rank() == 1 ? 43 : 42, "value"),
                      Catch::Matchers::ContainsSubstring("rank 1"));
  }
}

TEST_CASE("cancel ends a wait that would never end", "[comm]") {
  Communicator comm(test::session(), 30);
  if (comm.size() == 1) return;
  comm.cancel();
  std::vector<std::byte> buffer(8);
  std::vector<comm::Incoming> incoming = {{(comm.rank() + 1) % comm.size(), buffer, 0}};
  CHECK_THROWS_AS(comm.exchange({}, incoming, "test exchange"), Error);
}

TEST_CASE("a message that may come at any time has no deadline", "[comm]") {
  constexpr double kDeadline = 0.3;
  comm::Communicator comm(test::session(), kDeadline);
  if (comm.size() == 1 || comm.rank() > 1) return;
  std::vector<std::byte> buffer(10), message(7, std::byte{42});
  if (comm.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::duration<double>(3 * kDeadline));
    const std::array<comm::Outgoing, 1> outgoing = {{{0, message}}};
    comm.exchange(outgoing, {}, "test");
    return;
  }
  std::array<comm::Incoming, 1> incoming = {{{1, buffer, 0}}};
  comm::Exchange listening{
      .outgoing = {}, .incoming = incoming, .route = {}, .operation = "test", .at_any_time = true};
  comm.transfers().start(listening);
  while (!listening.done()) comm.transfers().progress_or_pause();
  CHECK(incoming[0].bytes == message.size());
  CHECK(buffer[6] == std::byte{42});
}

TEST_CASE("bytes of MPI's own collectives are counted, and marked as estimated", "[comm]") {
  Communicator comm(test::session(), 30);
  const auto n = static_cast<double>(comm.size());
  const auto of_all_ranks = [&](const auto& work) {
    const auto before = comm.byte_count();
    work();
    const auto now = comm.byte_count();
    std::vector<double> sums = {static_cast<double>(now.sent_bytes - before.sent_bytes),
                                static_cast<double>(now.received_bytes - before.received_bytes),
                                static_cast<double>(now.estimated_bytes - before.estimated_bytes)};
    comm.allreduce_sum(std::span<double>(sums));
    CHECK(sums[0] == sums[1]);
    CHECK(sums[0] == sums[2]);
    return sums[0];
  };
  // Each rank but the root receives 1000 bytes and their checksum of 8, through any tree.
  std::vector<std::byte> bytes(1000);
  CHECK(of_all_ranks([&] { comm.broadcast(bytes, 0); }) == (n - 1) * 1008);
  // A number and its checksum from each rank to each other one.
  CHECK(of_all_ranks([&] { comm.allgather(std::uint64_t{7}); }) == n * (n - 1) * 16);
  // A reduction to one rank and back, or a ring: n - 1 times the values there, and back. 12 doubles
  // divide by 1 ... 4 ranks.
  std::vector<double> values(12);
  const double there_and_back = 2 * (n - 1) * 12 * 8;
  CHECK(of_all_ranks([&] { comm.allreduce_sum(std::span<double>(values)); }) == there_and_back);
  CHECK(of_all_ranks([&] {
          comm.start_max(values);
          comm.finish_max();
        }) == there_and_back);
}

TEST_CASE("MPI errors outside of our communicators are returned as codes", "[comm]") {
  test::session();
  int rank = 0;
  // Raised on MPI_COMM_WORLD, whose default handler ends the job.
  CHECK(MPI_Comm_rank(MPI_COMM_NULL, &rank) != MPI_SUCCESS);
}
