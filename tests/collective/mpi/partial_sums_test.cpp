// SPDX-License-Identifier: Apache-2.0
// Ring and recursive doubling: bits, bytes, order of additions, refusals.

#include <cmath>
#include <cstring>

#include "codec/catalogue.hpp"
#include "codec/frame.hpp"
#include "support/catch.hpp"
#include "support/compressors.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/partial_sums.hpp"
#include "support/payload_bytes.hpp"

using namespace eqt;
using namespace eqt::collective;
using test::average;
using test::both;
using test::gradient_of;

namespace {

/// Tensors around every width that matters: one value, one-dimensional, below and above a segment.
Layout test_layout() {
  return test::layout_of(
      {{16, 3, 3, 3}, {16}, {1}, {64, 40}, {64}, {130, 129}, {3, 7}, {10, 64}, {20000}, {10}});
}

/// Every compressor whose sums can be encoded once more.
std::vector<std::unique_ptr<codec::Compressor>> sum_codecs() {
  std::vector<std::unique_ptr<codec::Compressor>> all;
  for (const Entry<codec::CompressorRow> row : codec::CompressorRow::all()) {
    auto compressor = test::made_by_default(*row, {.bucket_size = 512, .density = 0.05});
    const codec::Properties p = compressor->properties();
    if (p.votes || p.shared_scale || p.forgets_sent || p.scales_up || p.averages_itself) continue;
    all.push_back(std::move(compressor));
  }
  all.push_back(codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 3000}));
  all.push_back(codec::make_compressor("threshold", {.density = 0.05, .value_bits = 16}));
  return all;
}

bool is_refused(test::MakeCollective make, comm::Communicator& comm, const codec::Compressor& c) {
  const auto plan = pipeline::plan_buckets(test_layout(), c, {});
  try {
    (void)make(comm, c, plan);
    return false;
  } catch (const Error& error) {
    CHECK(error.kind() == Kind::usage);
    CHECK(std::string(error.what()).find(codec::codec_name(c.id())) != std::string::npos);
    return true;
  }
}

/// The documented order: segments are assigned from the last one on; segment u starts at rank u mod
/// n and passes all ranks.
std::vector<float> sum_round_the_ring(int n, std::size_t count) {
  std::vector<float> sum(count);
  for (std::size_t s = 0; s < count / 8192; ++s) {
    const std::size_t first = count - 8192 * (s + 1);
    for (int k = 0; k < n; ++k) {
      const int rank =
          static_cast<int>(s % static_cast<std::size_t>(n) + static_cast<std::size_t>(k)) % n;
      const auto g = gradient_of(rank, count);
      for (std::size_t i = first; i < first + 8192; ++i) sum[i] += g[i];
    }
  }
  return sum;
}

/// A binary tree over the positions; extra ranks are first added to their partners.
std::vector<float> sum_by_doubling(int n, std::size_t count) {
  const test::Places places(n);
  std::vector<std::vector<float>> sums;
  for (std::size_t p = 0; p < places.rank.size(); ++p) {
    sums.push_back(gradient_of(places.rank[p], count));
    if (places.extra[p] < 0) continue;
    const auto extra = gradient_of(places.extra[p], count);
    for (std::size_t i = 0; i < count; ++i) sums[p][i] += extra[i];
  }
  for (std::size_t width = 1; width < sums.size(); width *= 2) {
    for (std::size_t p = 0; p < sums.size(); p += 2 * width) {
      for (std::size_t i = 0; i < count; ++i) sums[p][i] += sums[p + width][i];
    }
  }
  return sums[0];
}

}  // namespace

TEST_CASE("all ranks have the same bits, for any buckets", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test_layout();
  for (const auto& compressor : sum_codecs()) {
    for (const auto& [name, make] : both()) {
      if (name == "ring" && pipeline::needs_whole_slices(*compressor)) continue;
      std::vector<std::uint64_t> hashes;
      for (const std::size_t bytes : {std::size_t{1}, std::size_t{20000}, std::size_t{1} << 22}) {
        const auto plan = pipeline::plan_buckets(layout, *compressor,
                                                 {.bucket_bytes = bytes, .split_bytes = bytes});
        const auto collective = make(comm, *compressor, plan);
        auto values = gradient_of(comm.rank(), total_count(layout));
        average(comm, *collective, plan, 3, values);
        hashes.push_back(test::hash_of(values));
      }
      INFO(name << " " << codec::codec_name(compressor->id()));
      CHECK_NOTHROW(comm.require_same(hashes[0], "mean"));
      CHECK(hashes[0] == hashes[1]);
      CHECK(hashes[0] == hashes[2]);
    }
  }
}

TEST_CASE("float32 sums are added in the documented order", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const auto n = static_cast<std::size_t>(comm.size());
  const Layout layout = test::one_tensor(n + 2);
  const auto none = codec::make_compressor("none");
  const auto plan =
      pipeline::plan_buckets(layout, *none, {.split_bytes = 3 * 8192 * sizeof(float)});
  for (const auto& [name, make] : both()) {
    const auto collective = make(comm, *none, plan);
    auto values = gradient_of(comm.rank(), layout[0].count);
    average(comm, *collective, plan, 3, values);
    auto expected = name == "ring" ? sum_round_the_ring(comm.size(), values.size())
                                   : sum_by_doubling(comm.size(), values.size());
    const float share = 1.0f / static_cast<float>(n);
    for (float& value : expected) value *= share;
    INFO(name);
    CHECK(values == expected);
  }
}

TEST_CASE("the ring sends the bytes of its cost formula", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const auto n = static_cast<std::uint64_t>(comm.size());
  const Layout layout = test::one_tensor(4 * n);
  const auto compressor = codec::make_compressor("bf16");
  const auto plan =
      pipeline::plan_buckets(layout, *compressor, {.split_bytes = std::size_t{1} << 30});
  const auto ring = make_ring(comm, *compressor, plan);
  auto values = gradient_of(comm.rank(), layout[0].count);
  Traffic traffic;
  const auto before = comm.byte_count();
  average(comm, *ring, plan, 3, values, &traffic);
  const auto after = comm.byte_count();
  const std::uint64_t chunk = codec::kFrameHeaderBytes + 4 * (4 + 2 * 8192);
  CHECK(test::payload_between(before, after).sent == 2 * (n - 1) * chunk);
  CHECK(test::payload_between(before, after).received == 2 * (n - 1) * chunk);
  CHECK(traffic.encoded_bytes == n * chunk);
  CHECK(traffic.encoded_values == layout[0].count);
}

TEST_CASE("recursive doubling sends the bytes of its cost formula", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test::one_tensor(2);
  const auto compressor = codec::make_compressor("bf16");
  const auto plan = pipeline::plan_buckets(layout, *compressor, {});
  const auto doubling = make_recursive_doubling(comm, *compressor, plan);
  auto values = gradient_of(comm.rank(), layout[0].count);
  const auto before = comm.byte_count();
  average(comm, *doubling, plan, 3, values);
  const auto after = comm.byte_count();

  const test::Places places(comm.size());
  std::uint64_t sent = 1, received = 2;  // messages of an extra rank
  for (std::size_t p = 0; p < places.rank.size(); ++p) {
    if (places.rank[p] != comm.rank()) continue;
    sent = received = static_cast<std::uint64_t>(places.rounds);
    if (places.rounds == 0) continue;
    const std::size_t last = p ^ (places.rank.size() / 2);
    if (places.extra[p] >= 0) ++sent, ++received;
    if (places.extra[last] >= 0) ++sent;
  }
  const std::uint64_t message = codec::kFrameHeaderBytes + 4 + 2 * layout[0].count;
  CHECK(test::payload_between(before, after).sent == sent * message);
  CHECK(test::payload_between(before, after).received == received * message);
}

TEST_CASE("random-k sums are exact at the chosen indices", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test::one_tensor(1);
  const auto compressor = codec::make_compressor("randomk", {.density = 0.1});
  const auto plan = pipeline::plan_buckets(layout, *compressor, {});
  const auto doubling = make_recursive_doubling(comm, *compressor, plan);
  auto values = gradient_of(comm.rank(), layout[0].count);
  average(comm, *doubling, plan, 3, values);
  auto sum = sum_by_doubling(comm.size(), values.size());
  const float share = 1.0f / static_cast<float>(comm.size());
  std::size_t kept = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] == 0) continue;
    ++kept;
    CHECK(std::abs(values[i] - sum[i] * share) < 1e-6f);
  }
  CHECK(kept == (comm.size() == 1 ? 8192u : 819u));  // a single rank sends nothing
}

TEST_CASE("compressors whose sums cannot be encoded again are refused", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  for (const auto& [name, make] : both()) {
    INFO(name);
    CHECK(is_refused(make, comm, *codec::make_compressor("signsgd")));
    CHECK(is_refused(make, comm, *codec::make_compressor("terngrad")));
    CHECK(is_refused(make, comm, *codec::make_compressor("dgc")));
    CHECK(is_refused(make, comm, *codec::make_compressor("powersgd")));
    CHECK(is_refused(make, comm, *codec::make_compressor("randomk", {.unbiased = true})));
    CHECK(is_refused(make, comm,
                     *codec::make_compressor("randomk", {.value_bits = 16, .unbiased = true})));
    CHECK(is_refused(make, comm, *codec::make_compressor("topk")) == (name == "ring"));
    CHECK(is_refused(make, comm, *codec::make_compressor("onebit")) == (name == "ring"));
    CHECK_FALSE(is_refused(make, comm, *codec::make_compressor("int8")));
  }
}

TEST_CASE("a partial sum of another step is refused with its sender", "[partial-sums]") {
  comm::Communicator comm(test::session(), 30);
  const Layout layout = test::one_tensor(16);
  const auto compressor = codec::make_compressor("qsgd", {.bucket_size = 512});
  const auto plan =
      pipeline::plan_buckets(layout, *compressor, {.split_bytes = std::size_t{1} << 30});
  for (const auto& [name, make] : both()) {
    // With extra ranks some would wait for the rank that stopped.
    const bool powers_only = name != "ring";
    if (comm.size() == 1 || (powers_only && (comm.size() & (comm.size() - 1)) != 0)) continue;
    const auto collective = make(comm, *compressor, plan);
    auto values = gradient_of(comm.rank(), layout[0].count);
    try {
      average(comm, *collective, plan, static_cast<StepId>(7 + comm.rank()), values);
      FAIL_CHECK("ranks out of step were not noticed");
    } catch (const Error& error) {
      const std::string sentence = error.what();
      INFO(sentence);
      CHECK(error.kind() == Kind::wire);
      CHECK(sentence.find("step") != std::string::npos);
      CHECK(sentence.find("from rank") != std::string::npos);
    }
  }
}
