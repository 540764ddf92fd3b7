// SPDX-License-Identifier: Apache-2.0
#include "comm/host_memory.hpp"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <thread>
#include <vector>

#include "collective/collective.hpp"
#include "collective/host_mean.hpp"
#include "collective/rank_order_mean.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"
#include "support/payload_bytes.hpp"

using namespace eqt;
using comm::Communicator;
using comm::HostMemory;

namespace {

constexpr std::size_t kBuffer = HostMemory::kBufferBytes / sizeof(float);

/// Values of many magnitudes, whose sum depends on the order of additions.
std::vector<float> values_of(Rank rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto x = static_cast<std::uint32_t>(i * 2654435761u + static_cast<unsigned>(rank) * 97u);
    values[i] = std::ldexp(static_cast<float>(x % 20011) - 10000.0f, static_cast<int>(x % 37) - 18);
  }
  return values;
}

std::vector<float> by_messages(Communicator& comm, std::vector<float> values) {
  collective::RankOrderMean mean;
  pipeline::complete(mean(comm, values, {}), comm);
  return values;
}

std::vector<float> by_memory(Communicator& comm, std::vector<float> values) {
  collective::HostMean mean;
  pipeline::complete(mean(comm, values), comm);
  return values;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("a mean through the host's memory has the bits of one by messages", "[host_memory]") {
  Communicator comm(test::session(), 30);
  comm.share_memory();
  REQUIRE((comm.host_memory() != nullptr) == (comm.size() > 1));
  for (const std::size_t count :
       {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{1000},
        kBuffer - 1, kBuffer, kBuffer + 1, 5 * kBuffer + 7}) {
    const auto values = values_of(comm.rank(), count);
    const auto before = comm.byte_count();
    const auto expected = by_messages(comm, values);
    const auto messages = test::payload_between(before, comm.byte_count());
    const auto between = comm.byte_count();
    const auto found = by_memory(comm, values);
    const auto after = comm.byte_count();
    INFO(count << " values");
    CHECK(same_bits(found, expected));
    // Each buffer is divided among the ranks, so a part may be one value longer or shorter there.
    const double rounding = 8.0 * comm.size() * static_cast<double>(1 + count / kBuffer);
    CHECK(std::abs(static_cast<double>(after.sent_bytes - between.sent_bytes) -
                   static_cast<double>(messages.sent)) <= rounding);
    CHECK(after.sent_on_host_bytes - between.sent_on_host_bytes ==
          after.sent_bytes - between.sent_bytes);
    CHECK(after.sent_checksum_bytes == between.sent_checksum_bytes);
  }
}

TEST_CASE("NaN and infinity pass through the host's memory", "[host_memory]") {
  Communicator comm(test::session(), 30);
  comm.share_memory();
  if (comm.size() == 1) return;
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(300, 1.0f);
  if (comm.rank() == comm.size() - 1) {
    values[7] = std::numeric_limits<float>::quiet_NaN();
    values[120] = infinity;
    values[299] = -infinity;
  }
  const auto found = by_memory(comm, values);
  CHECK(std::isnan(found[7]));
  CHECK(found[120] == infinity);
  CHECK(found[299] == -infinity);
  CHECK(found[8] == 1.0f);
}

TEST_CASE("ranks that come late get the same mean", "[host_memory]") {
  Communicator comm(test::session(), 30);
  comm.share_memory();
  if (comm.size() == 1) return;
  for (Rank late = 0; late < comm.size(); ++late) {
    const auto values = values_of(comm.rank() + late, 3 * kBuffer + 11);
    const auto expected = by_messages(comm, values);
    if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK(same_bits(by_memory(comm, values), expected));
  }
}

TEST_CASE("dense on one host sends nothing and has the same bits", "[host_memory]") {
  Communicator plain(test::session(), 30), sharing(test::session(), 30);
  sharing.share_memory();
  const auto values = values_of(plain.rank(), 2 * kBuffer + 5);
  const auto mean_by = [&](Communicator& comm) {
    auto mean = values;
    const auto dense = collective::make_dense(comm);
    for (std::uint32_t index = 0; index < 3; ++index) {
      const std::size_t begin = values.size() * index / 3, end = values.size() * (index + 1) / 3;
      collective::mean_of(*dense, comm,
                          {.index = index, .begin = begin, .end = end, .segments = {}}, {}, mean);
    }
    return mean;
  };
  CHECK(same_bits(mean_by(sharing), mean_by(plain)));
  CHECK((sharing.host_memory() == nullptr) == (plain.size() == 1));
}

TEST_CASE("memory is shared by all ranks or by none", "[host_memory]") {
  {
    Communicator comm(test::session(), 30);
    comm.share_memory(comm.rank() != comm.size() - 1);
    CHECK(comm.host_memory() == nullptr);
  }
  if (test::session().size() < 2) return;
  std::vector<int> hosts(static_cast<std::size_t>(test::session().size()), 0);
  hosts.back() = 1;
  Communicator comm(test::session(), 30, hosts);
  comm.share_memory();
  CHECK(comm.host_memory() == nullptr);
}

TEST_CASE("the memory has a name only until all ranks have it", "[host_memory]") {
  Communicator comm(test::session(), 30);
  comm.share_memory();
  comm.blocking_barrier();
  const std::string prefix = "equant-train." + std::to_string(getpid()) + ".";
  for (const auto& file : std::filesystem::directory_iterator("/dev/shm"))
    CHECK(file.path().filename().string().rfind(prefix, 0) != 0);
}

TEST_CASE("memory of another size or name is not opened", "[host_memory]") {
  CHECK(HostMemory::open("/equant-train.no-such-name", 1, 2) == nullptr);
  const auto memory = HostMemory::make(0, 2);
  REQUIRE(memory != nullptr);
  CHECK(HostMemory::open(memory->name(), 1, 3) == nullptr);
  const auto other = HostMemory::open(memory->name(), 1, 2);
  REQUIRE(other != nullptr);
  CHECK(memory->behind(0) == HostMemory::kNobody);
  CHECK(memory->behind(1) == 1);
  memory->buffer(0, 1)[5] = std::byte{42};
  memory->advance();
  CHECK(other->steps(0) == 1);
  CHECK(other->buffer(0, 3)[5] == std::byte{42});
  CHECK(other->buffer(0, 0)[5] == std::byte{0});
  other->advance();
  CHECK(memory->behind(1) == HostMemory::kNobody);
}
