// SPDX-License-Identifier: Apache-2.0
// Damaged payloads: several threads give the same errors and the same decoded bits as one thread.
// Under the sanitizers it finds reads and writes outside.

#include <cstring>

#include "codec/parallel.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/parallel_cases.hpp"

using namespace eqt;
using namespace eqt::test;

namespace {

using Bytes = std::vector<std::byte>;

struct Outcome {
  std::string refusal;  // empty: decoded
  std::vector<float> sum;
};

Outcome outcome_of(const codec::Compressor& compressor, const Bytes& damaged, const Bytes& intact,
                   std::size_t count) {
  Workspace workspace;
  Outcome outcome{{}, std::vector<float>(count)};
  const std::span<const std::byte> payloads[] = {intact, damaged};
  try {
    compressor.decode_add_all(payloads, 0.5f, workspace, outcome.sum);
  } catch (const Error& error) {
    outcome.refusal = std::string(kind_name(error.kind())) + ": " + error.what();
  }
  return outcome;
}

/// Damage number `round`: bits flipped, a word overwritten, bytes lost or gained.
Bytes damaged(Bytes bytes, std::uint64_t round) {
  constexpr std::uint32_t kWords[] = {0,          0x7F800000, 0x7FC00000,
                                      0x80000000, 0xFFFFFFFF, 0x3F800000};
  const RandomStream stream({1, round, 0, 0});
  const std::size_t at = static_cast<std::size_t>(stream.bounded(1, bytes.size()));
  switch (round % 5) {
    case 0:
      bytes[at] ^= static_cast<std::byte>(1u << stream.bounded(2, 8));
      break;
    case 1:
    case 2: {
      const std::uint32_t word = kWords[stream.bounded(2, std::size(kWords))];
      const std::size_t start = at < 4 ? 0 : at / 4 * 4 - 4;
      std::memcpy(bytes.data() + start, &word, std::min<std::size_t>(4, bytes.size() - start));
      break;
    }
    case 3:
      bytes.resize(at);
      break;
    default:
      bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at), 1 + at % 7,
                   static_cast<std::byte>(stream.bits(3)));
  }
  bytes.shrink_to_fit();
  return bytes;
}

}  // namespace

TEST_CASE("damaged payloads are refused or decoded as by one thread", "[parallel]") {
  for (const ParallelCase& parallel : parallel_cases()) {
    for (const std::size_t bucket : {std::size_t{16}, std::size_t{256}}) {
      const std::size_t count = 9 * std::max<std::size_t>(bucket, 64) + 7;
      const auto inner = parallel.make(bucket);
      const auto compressor = codec::make_parallel(parallel.make(bucket), 3, 0);
      const Bytes intact = payload_of(*inner, values_for(parallel, count, bucket));
      std::size_t refused = 0;
      for (std::uint64_t round = 0; round < 500; ++round) {
        const Bytes bytes = damaged(intact, round);
        const Outcome expected = outcome_of(*inner, bytes, intact, count);
        const Outcome found = outcome_of(*compressor, bytes, intact, count);
        INFO(parallel.name << ", buckets of " << bucket << ", damage " << round);
        CHECK(found.refusal == expected.refusal);
        const bool is_refused = !expected.refusal.empty();
        refused += is_refused;
        if (is_refused) continue;
        CHECK(std::memcmp(found.sum.data(), expected.sum.data(), count * sizeof(float)) == 0);
      }
      CHECK(refused > 100);
      CHECK(refused < 500);
    }
  }
}
