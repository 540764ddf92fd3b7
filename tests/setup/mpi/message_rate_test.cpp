// SPDX-License-Identifier: Apache-2.0
// With compressor.rate all that a rank sends has this rate, small tensors and headers included.

#include <cmath>

#include "codec/message.hpp"
#include "setup/build_messages.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/layouts.hpp"
#include "support/mpi_world.hpp"
#include "support/refusal.hpp"

using namespace eqt;

namespace {

/// Matrices of 51,200 values, and tensors of 1864 that are too small to be compressed.
Layout mixed_layout() {
  return test::layout_of({{64, 32, 3, 3}, {64}, {128, 256}, {900}, {30, 30}});
}

setup::MessageParts messages_at(comm::Communicator& comm, const std::string& rate,
                                const std::string& small_tensors) {
  const config::RunConfig config = config::parse_config(
      "{}", "a.json",
      {"compressor.name=e-elastiquant", "compressor.rate=" + rate,
       "compressor.small_tensors=" + small_tensors, "synchronization.collective=allgather"});
  return setup::build_messages(config, mixed_layout(), 1, false, comm);
}

/// Returns the bits per value of all messages of one step.
double sent_bits(const setup::MessageParts& parts) {
  const std::size_t count = total_count(mixed_layout());
  const auto values = test::gaussian(count, {.run_seed = 3});
  Workspace workspace;
  std::size_t bytes = 0;
  for (const pipeline::FusionBucket& bucket : parts.buckets) {
    std::vector<std::byte> frame(codec::max_message_bytes(*parts.compressor, bucket.segments));
    bytes += codec::MessageCodec(*parts.compressor, bucket.segments, workspace)
                 .encode(values, {.run_seed = 1, .id = {.index = bucket.index}}, frame);
  }
  return 8 * static_cast<double>(bytes) / static_cast<double>(count);
}

}  // namespace

TEST_CASE("messages have the rate that was asked for", "[rate]") {
  comm::Communicator comm(test::session(), 30);
  for (const std::string small : {"float32", "int8"})
    for (const std::string rate : {"1.5", "2", "4"}) {
      const double bits = sent_bits(messages_at(comm, rate, small));
      INFO(small << ", rate " << rate << ", found " << bits);
      CHECK(std::abs(bits / std::stod(rate) - 1) < 0.03);
    }
  const double bits = sent_bits(messages_at(comm, "0.5", "int8"));
  INFO(bits);
  CHECK(std::abs(bits / 0.5 - 1) < 0.03);
}

TEST_CASE("a rate that small tensors alone exceed is refused", "[rate]") {
  comm::Communicator comm(test::session(), 30);
  const auto refused = [&](const std::string& rate, const std::string& small) {
    const std::string found =
        test::refusal(Kind::usage, [&] { (void)messages_at(comm, rate, small); });
    test::says(found, "compressor.rate");
    test::says(found, "found " + rate);
    test::says(found, small);
    CHECK((found.find("compressor.small_tensors") != std::string::npos) == (small == "float32"));
  };
  // Of 53,064 values 1864 are sent in 32 bits, which is 1.12 bits of each value; or in 8 bits and
  // one step for each of three tensors, 0.28. To that come up to 0.02 for compressed values and the
  // headers of a few messages.
  refused("1.1", "float32");
  CHECK_NOTHROW(messages_at(comm, "1.2", "float32"));
  refused("0.28", "int8");
  CHECK_NOTHROW(messages_at(comm, "0.35", "int8"));
}
