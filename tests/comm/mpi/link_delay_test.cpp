// SPDX-License-Identifier: Apache-2.0
// Messages that are held at their receiver. Ranks of a host share the steady clock, so a message
// can contain the moment at which it was sent.

#include <array>
#include <chrono>
#include <cstring>
#include <vector>

#include "comm/communicator.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"

using namespace eqt;
using comm::Communicator;
using comm::LinkDelay;

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::rep sent) {
  return std::chrono::duration<double>(Clock::now() - Clock::time_point(Clock::duration(sent)))
      .count();
}

/// Messages of every rank to every other, each with the moment of sending in its first bytes.
class ToAll {
 public:
  ToAll(Communicator& comm, std::size_t bytes) : comm_(comm) {
    for (Rank peer = 0; peer < comm.size(); ++peer) {
      sent_.emplace_back(bytes, std::byte(7 * comm.rank() + peer));
      got_.emplace_back(bytes + 9);
    }
    for (Rank peer = 0; peer < comm.size(); ++peer) {
      if (peer == comm.rank()) continue;
      outgoing_.push_back({peer, sent_[static_cast<std::size_t>(peer)]});
      incoming_.push_back({peer, got_[static_cast<std::size_t>(peer)], 0});
    }
  }

  void run() {
    const Clock::rep now = Clock::now().time_since_epoch().count();
    for (auto& message : sent_) std::memcpy(message.data(), &now, sizeof now);
    comm_.exchange(outgoing_, incoming_, "test");
  }

  /// Of the message of `from`, right after run(); checks its other bytes.
  double seconds_from(Rank from) const {
    const auto& in = *std::ranges::find(incoming_, from, &comm::Incoming::from);
    CHECK(in.bytes == in.buffer.size() - 9);
    bool equal = true;
    for (const std::byte b : in.buffer.subspan(sizeof(Clock::rep), in.bytes - sizeof(Clock::rep)))
      equal &= b == std::byte(7 * from + comm_.rank());
    CHECK(equal);
    Clock::rep sent = 0;
    std::memcpy(&sent, in.buffer.data(), sizeof sent);
    return since(sent);
  }

 private:
  Communicator& comm_;
  std::vector<std::vector<std::byte>> sent_, got_;
  std::vector<comm::Outgoing> outgoing_;
  std::vector<comm::Incoming> incoming_;
};

}  // namespace

TEST_CASE("a message arrives no earlier than the latency after it was sent", "[link]") {
  Communicator comm(test::session(), 60);
  const LinkDelay delay = {.latency_seconds = 0.05, .jitter_seconds = 0.05, .seed = 3};
  comm.transfers().set_link_delay(delay);
  // Whole messages are held, those of many fragments, too.
  for (const std::size_t bytes : {8u, 300000u}) {
    ToAll messages(comm, bytes);
    for (std::uint64_t number = 0; number < 4; ++number) {
      messages.run();
      const std::uint64_t of_channel = number + (bytes == 8 ? 0 : 4);
      for (Rank peer = 0; peer < comm.size(); ++peer)
        if (peer != comm.rank())
          CHECK(messages.seconds_from(peer) >=
                comm::seconds_held(delay, peer, comm.rank(), 0, of_channel));
    }
  }
}

TEST_CASE("bytes and their count do not depend on a delay", "[link]") {
  Communicator plain(test::session(), 60), delayed(test::session(), 60);
  delayed.transfers().set_link_delay(LinkDelay{.latency_seconds = 0.01, .jitter_seconds = 0.02});
  for (Communicator* comm : {&plain, &delayed}) {
    ToAll messages(*comm, 100000);
    messages.run();
    for (Rank peer = 0; peer < comm->size(); ++peer)
      if (peer != comm->rank()) CHECK(messages.seconds_from(peer) >= 0);
  }
  const comm::ByteCount a = plain.byte_count(), b = delayed.byte_count();
  CHECK(a.sent_bytes == b.sent_bytes);
  CHECK(a.received_bytes == b.received_bytes);
  CHECK(a.messages == b.messages);
}

TEST_CASE("the delay of one rank leaves the others as they are", "[link]") {
  Communicator comm(test::session(), 60);
  comm.transfers().set_link_delay(LinkDelay{.latency_seconds = 0.3, .rank = comm.size() - 1});
  if (comm.size() == 1) return;
  ToAll messages(comm, 8);
  messages.run();
  if (comm.rank() == comm.size() - 1) CHECK(messages.seconds_from(0) >= 0.3);
  // A wait of the others would be seen only by the clock: what is held is tested below.
}

TEST_CASE("a held message blocks no other", "[link]") {
  Communicator comm(test::session(), 600);
  if (comm.size() == 1 || comm.rank() > 1) return;
  // The jitter of one of two channels is more than half a minute, of the other next to none.
  LinkDelay delay = {.latency_seconds = 0, .jitter_seconds = 60, .seed = 0};
  std::uint32_t held = 0, passes = 0;
  for (std::uint32_t channel = 1; channel < 20000 && (held == 0 || passes == 0); ++channel) {
    const double seconds = comm::seconds_held(delay, 1, 0, channel, 0);
    if (held == 0 && seconds > 50) held = channel;
    if (passes == 0 && seconds < 0.02) passes = channel;
  }
  REQUIRE((held > 0 && passes > 0));
  std::vector<std::byte> message(100, std::byte{42});
  if (comm.rank() == 1) {
    const std::array<comm::Outgoing, 1> outgoing = {{{0, message}}};
    comm::Exchange first{outgoing, {}, {.channel = held}, "test"};
    comm::Exchange second{outgoing, {}, {.channel = passes}, "test"};
    comm.transfers().start(first);
    comm.transfers().start(second);
    comm.transfers().wait(first);
    comm.transfers().wait(second);
    return;
  }
  comm.transfers().set_link_delay(delay);
  std::vector<std::byte> late(100), early(100);
  std::array<comm::Incoming, 1> first_in = {{{1, late, 0}}}, second_in = {{{1, early, 0}}};
  comm::Exchange first{{}, first_in, {.channel = held}, "test"};
  comm::Exchange second{{}, second_in, {.channel = passes}, "test"};
  comm.transfers().start(first);
  comm.transfers().start(second);
  comm.transfers().wait(second);
  CHECK(early == message);
  CHECK_FALSE(first.done());
  comm.transfers().abandon();
}
