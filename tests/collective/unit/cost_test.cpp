// SPDX-License-Identifier: Apache-2.0
#include "collective/cost.hpp"

#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::collective;

namespace {

constexpr double kValues = 1'000'000, kMessage = 500'000;

double sent(const CollectiveRow& collective, int ranks) {
  const auto cost =
      collective_cost(collective, {.ranks = ranks, .values = kValues, .message_bytes = kMessage});
  REQUIRE(cost);
  return cost->sent_bytes;
}

}  // namespace

TEST_CASE("cost formulas give the bytes of docs/collectives.md", "[cost]") {
  // 2 * 4d (n-1)/n, m (n-1), 2m (n-1)/n, for d = 10^6 and m = 5 * 10^5.
  CHECK(sent(kDense, 2) == 4e6);
  CHECK(sent(kDense, 4) == 6e6);
  CHECK(sent(kMpiAllreduce, 4) == 6e6);
  CHECK(sent(kAllgather, 2) == 5e5);
  CHECK(sent(kAllgather, 8) == 35e5);
  CHECK(sent(kScatterReduce, 2) == 5e5);
  CHECK(sent(kScatterReduce, 8) == 875e3);
  CHECK(sent(kPowerSgd, 8) == 875e3);
  CHECK(sent(kRing, 8) == 875e3);
  CHECK(sent(kAllgather, 1) == 0);
  // m log2(n); of three ranks the extra one sends m, its partner and the partner's each 2m.
  CHECK(sent(kRecursiveDoubling, 8) == 15e5);
  CHECK(sent(kRecursiveDoubling, 3) == Approx(5 * 5e5 / 3));
  CHECK_FALSE(collective_cost(kAutomatic, {.ranks = 2}));
  // Three scales of four bytes to each of two peers.
  CHECK(collective_cost(kAllgather, {.ranks = 3, .scales = 3})->sent_bytes == 24);
}

TEST_CASE("ranks of one host share memory, others do not", "[cost]") {
  const auto codec = codec::make_compressor("none");
  const Layout layout = {{"matrix", {128, 512}, 0, 65536}};
  const auto plan = pipeline::plan_buckets(layout, *codec, {});
  CHECK(volume_of(*codec, plan, 4, 1).shares_memory);
  CHECK_FALSE(volume_of(*codec, plan, 4, 2).shares_memory);
  CHECK_FALSE(volume_of(*codec, plan, 4, 0).shares_memory);
  CHECK_FALSE(volume_of(*codec, plan, 1, 1).shares_memory);
}

TEST_CASE("the cost of integer counts bits of codes and of sums", "[cost]") {
  // qsgd-v of 4 bits: codes -7 ... 7 need 4 bits, sums of 4 ranks -28 ... 28 need 6.
  const auto codec = codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512});
  const Layout layout = {{"matrix", {128, 512}, 0, 65536}};
  const Volume volume = volume_of(*codec, pipeline::plan_buckets(layout, *codec, {}), 4, 1);
  CHECK(volume.code_bits == 4);
  CHECK(volume.sum_bits == 6);
  CHECK(volume.shared_scales == 128);
  const auto cost = collective_cost(kInteger, volume);
  REQUIRE(cost);
  CHECK(cost->sent_bytes == Approx(4 * 128 * 3 + 65536 * (4 + 6) / 8.0 * 3 / 4));
  CHECK_FALSE(collective_cost(kInteger, volume_of(*codec::make_compressor("none"), {}, 4, 1)));
}

TEST_CASE("hierarchical sends few bytes between hosts and float32 within a host", "[cost]") {
  // Two hosts of four: each rank's lane is a quarter; 8 d (L-1)/L within a host, m/L (H-1) between
  // hosts.
  const auto cost = collective_cost(
      kHierarchical, {.ranks = 8, .hosts = 2, .values = kValues, .message_bytes = kMessage});
  REQUIRE(cost);
  CHECK(cost->between_hosts_bytes == 125e3);
  CHECK(cost->sent_bytes == 6e6 + 125e3);
  CHECK_FALSE(collective_cost(kHierarchical, {.ranks = 3, .hosts = 0}));
}

TEST_CASE("allgather sends more bytes than scatter-reduce from three ranks on", "[cost]") {
  CHECK(sent(kAllgather, 2) == sent(kScatterReduce, 2));
  for (int ranks = 3; ranks <= 16; ++ranks) {
    INFO(ranks);
    CHECK(sent(kAllgather, ranks) > sent(kScatterReduce, ranks));
  }
}

TEST_CASE("bytes go to other hosts in proportion to the peers there", "[cost]") {
  const CollectiveCost cost{.sent_bytes = 6e5};
  CHECK(between_hosts_bytes(cost, 4, 4) == 6e5);
  // Two hosts of two: two of a rank's three peers are on the other host.
  CHECK(between_hosts_bytes(cost, 4, 2) == Approx(4e5));
  CHECK(between_hosts_bytes(cost, 4, 1) == 0);
  CHECK(between_hosts_bytes({.sent_bytes = 6e5, .between_hosts_bytes = 1e5}, 4, 2) == 1e5);
}

TEST_CASE("hierarchical sends buckets between hosts as it sends the whole plan", "[cost]") {
  const auto codec = codec::make_compressor("qsgd", {.bits = 4, .bucket_size = 8192});
  // 16 tensors, each a bucket: 64 KiB of messages are saved by all together alone.
  Layout layout;
  for (std::size_t i = 0; i < 16; ++i) layout.push_back({"matrix", {128, 512}, i * 65536, 65536});
  const auto plan = pipeline::plan_buckets(layout, *codec, {.bucket_bytes = 65536 * 4});
  REQUIRE(plan.size() == 16);
  CHECK_FALSE(volume_of(*codec, std::span(&plan[0], std::size_t{1}), 8, 4).host_sums_scatter);
  REQUIRE(volume_of(*codec, plan, 8, 4).host_sums_scatter);
  double bytes = 0;
  for (const Volume& volume : bucket_volumes(*codec, plan, 8, 4)) {
    CHECK(volume.host_sums_scatter);
    bytes += volume.message_bytes;
  }
  CHECK(bytes == Approx(volume_of(*codec, plan, 8, 4).message_bytes));
}

TEST_CASE("the first of equals is taken, and a clearly faster one before it", "[cost]") {
  const std::vector<Candidate> close = {{"a", 1.09}, {"b", 1.0}, {"c", 1.05}};
  CHECK(choose_first_fast(close, 0.1) == 0);
  CHECK(choose_first_fast(close, 0.06) == 1);
  const std::vector<Candidate> far = {{"a", 3.0}, {"b", 1.2}, {"c", 1.0}};
  CHECK(choose_first_fast(far, 0.1) == 2);
  CHECK(choose_first_fast(far, 0.3) == 1);
}

TEST_CASE("message bytes are computed from the plan", "[cost]") {
  const auto qsgd = codec::make_compressor("qsgd", {.bits = 4, .bucket_size = 8192});
  const Layout layout = {{"matrix", {128, 512}, 0, 65536}, {"bias", {10}, 65536, 10}};
  const auto plan = pipeline::plan_buckets(layout, *qsgd, {});
  std::size_t segments = 0;  // of the matrix
  for (const pipeline::FusionBucket& bucket : plan) {
    for (const codec::Segment& segment : bucket.segments) segments += segment.compressed ? 1 : 0;
  }
  // Half a byte a value and a norm for each bucket of 8192, a length for each segment, ten raw
  // values, a header for each message.
  CHECK(expected_message_bytes(*qsgd, plan) ==
        Approx(32768.0 + 8 * 4 + 40 + 4.0 * static_cast<double>(segments) +
               32.0 * static_cast<double>(plan.size())));
}
