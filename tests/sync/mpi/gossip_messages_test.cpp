// SPDX-License-Identifier: Apache-2.0
// Unexpected messages of neighbours, and allocations.

#include <string>

#include "codec/message.hpp"
#include "pipeline/messages.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/gossip_cases.hpp"
#include "support/gossip_rank.hpp"
#include "support/mpi_world.hpp"

using namespace eqt;
using namespace eqt::test;

namespace {

constexpr StepId kStep = 6;

/// What rank 1 sends instead of its message.
enum class Wrong { nothing, step, bucket, codec, byte, shorter, longer, scale, list };

std::vector<std::byte> message_of(const codec::Compressor& compressor,
                                  const pipeline::FusionBucket& bucket, Wrong wrong,
                                  std::uint32_t index, bool lists) {
  auto segments = bucket.segments;
  for (codec::Segment& s : segments) s.begin -= bucket.begin;
  const auto fp16 = codec::make_compressor("fp16");
  const codec::Compressor& sender = wrong == Wrong::codec ? *fp16 : compressor;
  const std::size_t list = lists ? codec::segment_list_bytes(segments.size()) : 0;
  const std::vector<std::uint8_t> all(segments.size(), 1);
  std::vector<std::byte> frame(list + codec::max_message_bytes(sender, segments));
  Workspace workspace;
  const auto values = gaussian(bucket.count(), {.run_seed = 60});
  const codec::MessageContext context = {
      .run_seed = 1,
      .id = {wrong == Wrong::step ? kStep + 1 : kStep, index + (wrong == Wrong::bucket ? 1 : 0)},
      .rank = 1,
      .present = lists ? std::span(all) : std::span(all).first(0)};
  frame.resize(codec::MessageCodec(sender, segments, workspace).encode(values, context, frame));
  if (wrong == Wrong::byte) frame[9] ^= std::byte{0x10};
  // After header, list and length: the first bucket's norm. An infinite norm would destroy the
  // model.
  if (wrong == Wrong::scale)
    for (std::size_t i = 36 + list; i < 40 + list; ++i) frame[i] = std::byte{0xFF};
  if (wrong == Wrong::list) frame[32] = lists ? std::byte{0x03} : std::byte{0xFF};
  if (wrong == Wrong::shorter) frame.pop_back();
  if (wrong == Wrong::longer) frame.back() = frame.at(frame.size() - 2), frame.push_back({});
  return frame;
}

/// Rank 1: receives rank 0's message and sends a wrong one in the first bucket.
void answer(comm::Communicator& comm, const codec::Compressor& compressor,
            const pipeline::FusionBucket& bucket, Wrong wrong, std::uint32_t index, bool lists) {
  const auto frame = message_of(compressor, bucket, wrong, index, lists);
  std::vector<std::byte> buffer(codec::segment_list_bytes(bucket.segments.size()) +
                                codec::max_message_bytes(compressor, bucket.segments));
  const comm::Outgoing outgoing = {.to = 0, .bytes = frame};
  comm::Incoming incoming = {.from = 0, .buffer = buffer};
  comm::Exchange exchange{.outgoing = std::span(&outgoing, 1),
                          .incoming = std::span(&incoming, 1),
                          .route = pipeline::route_of(bucket),
                          .operation = "a test"};
  comm.transfers().start(exchange);
  comm.transfers().wait(exchange);
}

/// The error of rank 0's mixer; "" if there is none.
std::string refusal_of(comm::Communicator& comm, Mixing mixing, Wrong wrong, bool lists = false) {
  const auto compressor = codec::make_compressor("qsgd", {.bucket_size = 512});
  const Layout layout = layout_of({{30, 40}});
  const auto plan = pipeline::plan_buckets(layout, *compressor, {.skip_below = 1});
  const auto ring = make(topology::GraphKind::ring, 2);
  std::string sentence;
  if (comm.rank() == 1) answer(comm, *compressor, plan[0], wrong, 0, lists);
  if (comm.rank() == 0) {
    const sync::MixerParts parts{comm, *compressor, *ring, plan};
    const sync::MixerOptions options = {.events = {.threshold = lists ? 2.0 : 0.0}};
    const auto mixer =
        mixing == Mixing::choco     ? sync::make_choco_mixer(parts, total_count(layout), options)
        : mixing == Mixing::squeeze ? sync::make_squeeze_mixer(parts, total_count(layout))
                                    : sync::make_plain_mixer(parts);
    std::vector<float> model = gaussian(total_count(layout), {.run_seed = 61});
    sync::MixResult result;
    const sync::MixContext context{.run_seed = 1, .step = kStep, .density = {}};
    try {
      mixer->prepare(context, model);
      pipeline::complete(mixer->mix(plan[0], context, model, result), comm);
    } catch (const Error& error) {
      CHECK(error.kind() == Kind::wire);
      sentence = error.what();
      CHECK(says(sentence, "step 6"));
      CHECK(says(sentence, "from rank 1"));
      CHECK(says(sentence, std::string(mixer->name())));
    }
  }
  return comm.broadcast(sentence, 0);
}

}  // namespace

TEST_CASE("a neighbour's wrong message is refused with its sender", "[gossip]") {
  comm::Communicator comm(session(), 30);
  if (comm.size() != 2) return;
  for (const Mixing mixing : {Mixing::plain, Mixing::choco, Mixing::squeeze}) {
    INFO("mixing " << static_cast<int>(mixing));
    CHECK(refusal_of(comm, mixing, Wrong::nothing).empty());
    for (const Wrong wrong : {Wrong::step, Wrong::bucket, Wrong::codec, Wrong::byte, Wrong::shorter,
                              Wrong::longer, Wrong::scale}) {
      INFO("wrong " << static_cast<int>(wrong));
      CHECK(!refusal_of(comm, mixing, wrong).empty());
    }
    CHECK(says(refusal_of(comm, mixing, Wrong::step), "7"));
  }
  CHECK(refusal_of(comm, Mixing::choco, Wrong::nothing, true).empty());
  for (const Wrong wrong : {Wrong::step, Wrong::bucket, Wrong::codec, Wrong::byte, Wrong::shorter,
                            Wrong::longer, Wrong::scale, Wrong::list}) {
    INFO("with a list, wrong " << static_cast<int>(wrong));
    CHECK(!refusal_of(comm, Mixing::choco, wrong, true).empty());
  }
}

TEST_CASE("after the first steps no step of gossip allocates", "[gossip]") {
  comm::Communicator comm(session(), 30);
  const Layout layout = layout_of({{64, 300}, {300}, {100, 100}, {10}});
  const std::size_t count = total_count(layout);
  const Quadratic loss = quadratic_of(count, static_cast<std::size_t>(comm.rank()));
  const auto topologies = all_topologies(comm.size());
  std::size_t turn = 0;
  for (const auto& [name, compressor] : all_compressors()) {
    for (const GossipScheme& scheme : all_schemes()) {
      for (const NamedTopology& topology : topologies) {
        const bool looked_at = topology.name == "ring" || topology.name == "one-peer-exponential" ||
                               topology.name == "directed ring with a chord";
        // Every codec in one case, a few codecs in all cases.
        const bool usual = name == "none" || name == "qsgd" || name == "topk";
        if (!looked_at || !fits(scheme, topology)) continue;
        if (!usual && (scheme.name != "choco-sgd" || topology.name != "ring")) continue;
        const double events = ++turn % 2 == 0 && scheme.mixing == Mixing::choco ? 1 : 0;
        GossipRank rank(comm, scheme, {.gamma = 0.02, .damping = 0.1}, *topology.made, *compressor,
                        layout,
                        {.plan = {.bucket_bytes = 20000},
                         .overlap = true,
                         .mixer = {.resync_every = 3, .events = {.threshold = events}}});
        std::size_t before = 0;
        for (StepId step = 0; step < 14; ++step) {
          if (step == 9) before = allocations();  // 8: what measuring needs
          rank.step(0.05f, [&](auto z, auto g) { gradient_at(loss, z, g); });
        }
        const std::size_t allocated = allocations() - before;
        INFO(scheme.name << " on " << topology.name << " with " << name);
        CHECK(allocated == 0);
      }
    }
  }
}
