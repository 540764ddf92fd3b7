// SPDX-License-Identifier: Apache-2.0
#include "comm/host_memory.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "codec/mixed/mixed_grades.hpp"
#include "collective/collective.hpp"
#include "collective/exact_grades.hpp"
#include "collective/rank_order_mean.hpp"
#include "support/catch.hpp"
#include "support/mpi_world.hpp"

using namespace eqt;
using comm::Communicator;
using comm::HostMemory;

namespace {

constexpr std::size_t kPage = 1024;  // [floats] of a memory page

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

/// @pre the memory is shared
std::vector<float> by_memory(Communicator& comm, FlatBuffer& array,
                             const std::vector<float>& values) {
  const auto part = array.span().first(values.size());
  std::ranges::copy(values, part.begin());
  pipeline::complete(collective::mean_in_host_memory(comm, part), comm);
  return {part.begin(), part.end()};
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

TEST_CASE("a mean in the host's memory has the bits of one by messages", "[host_memory]") {
  Communicator comm(test::session(), 30);
  FlatBuffer array(300 * kPage);
  comm.share_memory(&array);
  REQUIRE((comm.host_memory() != nullptr) == (comm.size() > 1));
  if (comm.size() == 1) return;
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{2}, std::size_t{3},
                                  kPage, 2 * kPage + 1, 300 * kPage - 5, 300 * kPage}) {
    const auto values = values_of(comm.rank(), count);
    const auto before = comm.byte_count();
    const auto expected = by_messages(comm, values);
    const auto between = comm.byte_count();
    const auto found = by_memory(comm, array, values);
    const auto after = comm.byte_count();
    INFO(count << " values");
    CHECK(same_bits(found, expected));
    const auto equal = [&](std::uint64_t comm::ByteCount::*bytes) {
      return after.*bytes - between.*bytes == between.*bytes - before.*bytes;
    };
    CHECK(equal(&comm::ByteCount::sent_bytes));
    CHECK(equal(&comm::ByteCount::received_bytes));
    CHECK(equal(&comm::ByteCount::sent_on_host_bytes));
    CHECK(equal(&comm::ByteCount::sent_checksum_bytes));
    CHECK(equal(&comm::ByteCount::received_checksum_bytes));
  }
}

TEST_CASE("NaN and infinity pass through the host's memory", "[host_memory]") {
  Communicator comm(test::session(), 30);
  FlatBuffer array(kPage);
  comm.share_memory(&array);
  if (comm.size() == 1) return;
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(300, 1.0f);
  if (comm.rank() == comm.size() - 1) {
    values[7] = std::numeric_limits<float>::quiet_NaN();
    values[120] = infinity;
    values[299] = -infinity;
  }
  const auto found = by_memory(comm, array, values);
  CHECK(std::isnan(found[7]));
  CHECK(found[120] == infinity);
  CHECK(found[299] == -infinity);
  CHECK(found[8] == 1.0f);
}

TEST_CASE("ranks that come late get the same mean", "[host_memory]") {
  Communicator comm(test::session(), 30);
  FlatBuffer array(40 * kPage);
  comm.share_memory(&array);
  if (comm.size() == 1) return;
  for (Rank late = 0; late < comm.size(); ++late) {
    const auto values = values_of(comm.rank() + late, 39 * kPage + 11);
    const auto expected = by_messages(comm, values);
    if (comm.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    CHECK(same_bits(by_memory(comm, array, values), expected));
  }
}

TEST_CASE("dense has the same bits in shared memory and by messages", "[host_memory]") {
  Communicator plain(test::session(), 30), sharing(test::session(), 30);
  FlatBuffer array(5 * kPage);
  const auto values = values_of(plain.rank(), array.span().size());
  std::ranges::copy(values, array.span().begin());
  sharing.share_memory(&array);
  CHECK(same_bits({array.span().begin(), array.span().end()}, values));
  const auto average = [&](Communicator& comm, std::span<float> mean) {
    const auto dense = collective::make_dense(comm);
    for (std::uint32_t index = 0; index < 3; ++index) {
      const std::size_t begin = values.size() * index / 3, end = values.size() * (index + 1) / 3;
      collective::mean_of(*dense, comm,
                          {.index = index, .begin = begin, .end = end, .segments = {}}, {}, mean);
    }
  };
  auto expected = values;
  average(plain, expected);
  CHECK(collective::in_host_memory(sharing, array.span()) == (plain.size() > 1));
  average(sharing, array.span());
  CHECK(same_bits({array.span().begin(), array.span().end()}, expected));
  // Other values than those that are shared go by messages.
  auto elsewhere = values;
  CHECK_FALSE(collective::in_host_memory(sharing, elsewhere));
  average(sharing, elsewhere);
  CHECK(same_bits(elsewhere, expected));
}

TEST_CASE("grades that lose nothing have the mean of dense, others their own", "[host_memory]") {
  Communicator comm(test::session(), 30);
  codec::MixedGrades grades(codec::CompressorOptions{.menu = {"none", "bf16"}});
  const Layout layout = {{"first", {4, kPage}, 0, 4 * kPage},
                         {"second", {kPage}, 4 * kPage, kPage}};
  const auto plan = pipeline::plan_buckets(layout, grades, {.bucket_bytes = 4 * kPage});
  REQUIRE(plan.size() > 1);
  FlatBuffer array(5 * kPage);
  comm.share_memory(&array);
  const auto values = values_of(comm.rank(), array.span().size());
  const auto average = [&](collective::Collective& collective) {
    std::ranges::copy(values, array.span().begin());
    for (const auto& bucket : plan) collective::mean_of(collective, comm, bucket, {}, array.span());
    return std::vector<float>(array.span().begin(), array.span().end());
  };
  const auto dense = collective::make_dense(comm),
             plain = collective::make_allgather(comm, grades, plan),
             both = collective::dense_if_exact(comm, grades,
                                               collective::make_allgather(comm, grades, plan));
  const std::vector<std::uint32_t> slices = {0, 1};
  const std::vector<codec::GradeIndex> exact = {0, 0}, one_cast = {0, 1};
  grades.set_table(slices, exact);
  const auto sent = comm.byte_count().sent_bytes;
  CHECK(same_bits(average(*both), average(*dense)));
  CHECK(both->slots() == dense->slots());
  CHECK((comm.byte_count().sent_bytes > sent) == (comm.size() > 1));
  grades.set_table(slices, one_cast);
  CHECK(same_bits(average(*both), average(*plain)));
  CHECK(both->slots() == plain->slots());
}

TEST_CASE("memory is shared by all ranks or by none", "[host_memory]") {
  const int ranks = test::session().size();
  FlatBuffer array(kPage), small(kPage - 1);
  {
    Communicator comm(test::session(), 30);
    comm.share_memory(comm.rank() == ranks - 1 ? nullptr : &array);
    CHECK(comm.host_memory() == nullptr);
    comm.share_memory(&small);
    CHECK(comm.host_memory() == nullptr);
    comm.share_memory(&array);
    CHECK((comm.host_memory() == nullptr) == (ranks == 1));
    comm.share_memory(nullptr);
    CHECK(comm.host_memory() == nullptr);
  }
  if (ranks == 1) return;
  std::vector<int> hosts(static_cast<std::size_t>(ranks), 0);
  hosts.back() = 1;
  Communicator comm(test::session(), 30, hosts);
  comm.share_memory(&array);
  CHECK(comm.host_memory() == nullptr);
}

TEST_CASE("ranks whose messages are delayed share no memory", "[host_memory]") {
  Communicator comm(test::session(), 30);
  FlatBuffer array(kPage);
  comm.transfers().set_link_delay(comm::LinkDelay{.latency_seconds = 0.001, .rank = 0});
  comm.share_memory(&array);
  CHECK(comm.host_memory() == nullptr);
}

TEST_CASE("an array of another address or length is not found", "[host_memory]") {
  FlatBuffer first(3 * kPage), second(3 * kPage), longer(4 * kPage);
  first.span()[5] = 42;
  const auto memory = HostMemory::of(first, 0, 2), other = HostMemory::of(second, 1, 2),
             unlike = HostMemory::of(longer, 1, 2);
  REQUIRE(memory != nullptr);
  REQUIRE(other != nullptr);
  REQUIRE(unlike != nullptr);
  auto address = memory->address();
  ++address[2];
  CHECK_FALSE(other->find(0, address));
  CHECK_FALSE(other->find(0, {address[0], 1u << 20, address[2]}));
  CHECK_FALSE(other->find(0, {address[0], 0, address[2]}));  // standard input
  CHECK_FALSE(unlike->find(0, memory->address()));
  REQUIRE(other->find(0, memory->address()));
  REQUIRE(memory->find(1, other->address()));
  CHECK(other->array(0)[5] == 42.0f);
  other->array(0)[6] = 43;
  CHECK(first.span()[6] == 43.0f);
  CHECK(memory->behind(0) == HostMemory::kNobody);
  CHECK(memory->behind(1) == 1);
  other->advance();
  CHECK(memory->steps(1) == 1);
  CHECK(memory->behind(1) == HostMemory::kNobody);
}
