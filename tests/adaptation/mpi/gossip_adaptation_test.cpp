// SPDX-License-Identifier: Apache-2.0
// Gossip with adapted levels: ranks with different models agree on one table, and mixing with it
// keeps the mean of the models.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "adaptation/adaptation.hpp"
#include "codec/catalogue.hpp"
#include "support/catch.hpp"
#include "support/gaussian.hpp"
#include "support/mpi_world.hpp"
#include "sync/gossip/gossip_averaging.hpp"
#include "topology/topology.hpp"

using namespace eqt;

namespace {

constexpr std::size_t kCount = 12020;

Layout test_layout() {
  return {{"a", {100, 100}, 0, 10000}, {"b", {20}, 10000, 20}, {"c", {40, 50}, 10020, 2000}};
}

std::unique_ptr<sync::Mixer> make_mixer(const std::string& name, const sync::MixerParts& parts) {
  if (name == "choco") return sync::make_choco_mixer(parts, kCount, {.resync_every = 3});
  if (name == "squeeze") return sync::make_squeeze_mixer(parts, kCount);
  return sync::make_plain_mixer(parts);
}

std::vector<double> sums_over_ranks(comm::Communicator& comm, const std::vector<float>& model) {
  std::vector<double> sums(model.begin(), model.end());
  comm.allreduce_sum(sums);
  return sums;
}

/// Six steps without updates; every second one adapts.
void check_mixing(comm::Communicator& comm, const std::string& mixer_name, bool combine_first) {
  const auto compressor = codec::make_compressor("alq", {.bits = 4, .bucket_size = 512});
  codec::AdaptiveLevelCodec& adaptive = *compressor->adaptive_levels();
  const auto adaptation = adaptation::make_level_adaptation(comm, adaptive, 2);
  const auto ring = topology::make_topology({}, comm.size());
  const auto plan = pipeline::plan_buckets(test_layout(), *compressor, {.bucket_bytes = 8000});
  const auto mixer = make_mixer(mixer_name, {comm, *compressor, *ring, plan});
  std::vector<float> model =
      test::gaussian(kCount, {.run_seed = 5, .rank = static_cast<std::uint32_t>(comm.rank())});
  for (float& v : model) v *= std::abs(v) * static_cast<float>(1 + comm.rank());
  std::vector<float> gradient(kCount);
  sync::GossipAveragingOptions options;
  options.consensus_step = 0.3f;
  options.damping = 0.8f;
  options.combine_first = combine_first;
  options.adaptation = adaptation.get();
  const auto synchronizer = sync::make_gossip_averaging(
      {.comm = comm, .mixer = *mixer, .plan = plan, .parameters = model, .gradient = gradient},
      options);
  const auto start = sums_over_ranks(comm, model);
  std::uint32_t table = adaptive.fingerprint();
  for (StepId step = 0; step < 6; ++step) {
    synchronizer->begin(step, 0);
    (void)synchronizer->finish();
    const sync::SyncResult result = synchronizer->after_update(0.1f);
    CHECK_NOTHROW(comm.require_same(adaptive.fingerprint(), "level table"));
    CHECK((adaptive.fingerprint() != table) == (step % 2 == 0));
    CHECK(result.note.has_value() == (step % 2 == 0 && comm.rank() == 0));
    table = adaptive.fingerprint();
  }
  const auto end = sums_over_ranks(comm, model);
  double apart = 0, size = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    apart += (end[i] - start[i]) * (end[i] - start[i]);
    size += start[i] * start[i];
  }
  CHECK(std::sqrt(apart / size) < 1e-6);
}

}  // namespace

TEST_CASE("levels adapt in the same way on all ranks to the values that gossip encodes",
          "[gossip_adaptation]") {
  comm::Communicator comm(test::session(), 30);
  for (const std::string mixer : {"plain", "choco", "squeeze"}) {
    for (const bool combine_first : {false, true}) {
      INFO(mixer << (combine_first ? ", combine first" : ", adapt first"));
      check_mixing(comm, mixer, combine_first);
    }
  }
}
