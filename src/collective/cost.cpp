#include "collective/cost.hpp"

#include <algorithm>
#include <bit>

#include "codec/frame.hpp"
#include "codec/integer/integer_codec.hpp"
#include "collective/collective.hpp"
#include "core/error.hpp"

namespace eqt::collective {
namespace {

CostCard dense(const Volume& v) {
  const double n = v.ranks;
  return {.rounds = v.ranks <= 2 ? 1 : 2,
          .sent_bytes = 2 * 4 * v.values * (n - 1) / n,
          // Two ranks add everything both; more of them add one n-th, n - 1 times.
          .added_values = v.ranks == 2 ? v.values : v.values * (n - 1) / n};
}

CostCard mpi_allreduce(const Volume& v) {
  const double n = v.ranks;
  return {.rounds = 2 * (v.ranks - 1),
          .sent_bytes = 2 * 4 * v.values * (n - 1) / n,
          .added_values = v.values * (n - 1) / n};
}

CostCard allgather(const Volume& v) {
  const double n = v.ranks;
  return {.rounds = v.scales > 0 ? 2 : 1,
          .sent_bytes = (v.message_bytes + 4 * v.scales) * (n - 1),
          .encoded_values = v.values,
          .decoded_values = n * v.values,
          .quantisations = 1};
}

CostCard scatter_reduce(const Volume& v) {
  const double n = v.ranks;
  return {.rounds = 2,
          .sent_bytes = 2 * v.message_bytes * (n - 1) / n,
          .encoded_values = v.values,
          .decoded_values = v.values * (n - 1) / n + v.values,
          .quantisations = 2};
}

CostCard ring(const Volume& v) {
  CostCard card = scatter_reduce(v);
  card.rounds = 2 * (v.ranks - 1);
  card.quantisations = v.ranks;
  return card;
}

/// n = 2^T + x ranks: x extra ones hand their values over first and are sent both messages of the
/// last round.
CostCard recursive_doubling(const Volume& v) {
  const auto n = static_cast<unsigned>(v.ranks);
  const int doublings = static_cast<int>(std::bit_width(n)) - 1;
  const double power = std::bit_floor(n), extra = n - power, ranks = n;
  return {.rounds = doublings + (extra > 0 ? 1 : 0),
          .sent_bytes = v.message_bytes * (doublings * power + 3 * extra) / ranks,
          .encoded_values = v.values * (doublings * power + extra) / ranks,
          .decoded_values = v.values * (2 * doublings * power + 3 * extra) / ranks,
          .quantisations = doublings + (extra > 0 ? 1 : 0)};
}

/// As many survivors go back as came: of each other rank's part, an n-th.
CostCard sparse(const Volume& v) {
  CostCard card = scatter_reduce(v);
  card.added_values = v.values / v.ranks;
  return card;
}

/// Without the frames' headers.
std::optional<CostCard> integer(const Volume& v) {
  if (v.code_bits == 0) return {};
  const double n = v.ranks, coded = v.values - v.raw_values;
  CostCard card{.rounds = v.ranks == 2 ? 2 : 3,
                .encoded_values = v.values,
                .decoded_values = v.values,
                .added_values = v.ranks == 2 ? v.values : v.values * (n - 1) / n,
                .quantisations = 1};
  const double there = coded * v.code_bits / 8 + 4 * v.raw_values;
  const double back = coded * v.sum_bits / 8 + 4 * v.raw_values;
  card.sent_bytes =
      4 * v.shared_scales * (n - 1) + (v.ranks == 2 ? there : (there + back) * (n - 1) / n);
  return card;
}

/// Every rank has a lane: L = k = n/H.
std::optional<CostCard> hierarchical(const Volume& v) {
  if (v.hosts == 0) return {};
  const double hosts = v.hosts, lanes = static_cast<double>(v.ranks) / hosts;
  const double message = v.message_bytes / lanes, values = v.values / lanes;
  CostCard card{.rounds = lanes > 1 ? 2 : 0, .added_values = values * (lanes - 1)};
  card.sent_bytes = 2 * 4 * values * (lanes - 1);
  card.abroad_bytes = 0;
  if (v.hosts == 1) return card;
  card.encoded_values = values;
  card.rounds += v.host_sums_scatter ? 2 : 1;
  card.quantisations = v.host_sums_scatter ? 2 : 1;
  card.abroad_bytes =
      v.host_sums_scatter ? 2 * message * (hosts - 1) / hosts : message * (hosts - 1);
  card.decoded_values = v.host_sums_scatter ? 2 * values : hosts * values;
  card.sent_bytes += *card.abroad_bytes;
  return card;
}

CostCard power_sgd(const Volume& v) {
  const double n = v.ranks;
  return {.rounds = v.ranks <= 2 ? 2 : 4,
          .sent_bytes = 2 * v.message_bytes * (n - 1) / n,
          .encoded_values = v.values,
          .decoded_values = v.values,
          .added_values = v.message_bytes / 4,
          .quantisations = 1};
}

}  // namespace

std::optional<CostCard> cost_card(std::string_view collective, const Volume& volume) {
  if (volume.ranks <= 1) return CostCard{};
  if (collective == "dense") return dense(volume);
  if (collective == "mpi-allreduce") return mpi_allreduce(volume);
  if (collective == "allgather") return allgather(volume);
  if (collective == "scatter-reduce") return scatter_reduce(volume);
  if (collective == "ring") return ring(volume);
  if (collective == "recursive-doubling") return recursive_doubling(volume);
  if (collective == "sparse") return sparse(volume);
  if (collective == "integer") return integer(volume);
  if (collective == "hierarchical") return hierarchical(volume);
  if (collective == "power-sgd") return power_sgd(volume);
  return {};
}

Volume volume_of(const codec::Compressor& compressor, std::span<const FusionBucket> plan, int ranks,
                 int hosts) {
  Volume volume{
      .ranks = ranks, .hosts = hosts, .message_bytes = expected_message_bytes(compressor, plan)};
  const auto codes = compressor.integer_codec();
  if (codes != nullptr) {
    const auto largest = static_cast<unsigned>(codes->largest_code());
    volume.code_bits = static_cast<int>(std::bit_width(2 * largest));
    volume.sum_bits = static_cast<int>(std::bit_width(2 * largest * static_cast<unsigned>(ranks)));
  }
  for (const FusionBucket& bucket : plan) {
    if (compressor.properties().shared_scale)
      volume.scales += static_cast<double>(bucket.segments.size());
    for (const codec::Segment& segment : bucket.segments) {
      volume.values += static_cast<double>(segment.count);
      if (!segment.compressed) volume.raw_values += static_cast<double>(segment.count);
      if (codes == nullptr || !segment.compressed) continue;
      const std::size_t each = codes->bucket_size() > 0 ? codes->bucket_size() : segment.count;
      volume.shared_scales += static_cast<double>((segment.count + each - 1) / each);
    }
  }
  if (hosts > 0) {
    const auto lane = static_cast<std::size_t>(volume.values * hosts / ranks);
    volume.host_sums_scatter = scatter_pays(compressor, lane, static_cast<std::size_t>(hosts));
  }
  return volume;
}

double abroad_bytes(const CostCard& card, const Machine& machine) {
  if (card.abroad_bytes) return *card.abroad_bytes;
  if (machine.hosts <= 1) return 0;
  const double mates = static_cast<double>(machine.ranks) / machine.hosts;
  return card.sent_bytes * (machine.ranks - mates) / (machine.ranks - 1.0);
}

double predict_seconds(const CostCard& card, const Machine& machine, std::size_t pieces,
                       std::size_t slots) {
  EQT_CHECK(pieces > 0 && slots > 0, "a prediction for {} pieces in {} slots", pieces, slots);
  const double mates = static_cast<double>(machine.ranks) / machine.hosts;
  const auto seconds_of = [](double bytes, const Machine::Wire& wire) {
    return bytes > 0 && wire.bytes_per_second > 0 ? bytes / wire.bytes_per_second : 0;
  };
  const double abroad = abroad_bytes(card, machine);
  const double wire = seconds_of(abroad * mates, machine.between_hosts);
  const double cpu = card.encoded_values * machine.encode_seconds +
                     card.decoded_values * machine.decode_seconds +
                     card.added_values * machine.add_seconds +
                     seconds_of(card.sent_bytes - abroad, machine.within_host);
  const double latency = machine.hosts > 1 ? machine.between_hosts.latency_seconds
                                           : machine.within_host.latency_seconds;
  const auto turns = static_cast<double>((pieces + slots - 1) / slots);
  return std::max(cpu, wire) + std::min(cpu, wire) / static_cast<double>(pieces) +
         card.rounds * latency * turns;
}

std::size_t choose_first_fast(std::span<const Candidate> candidates, double tie) {
  EQT_CHECK(!candidates.empty(), "a choice among nothing");
  const double best = std::ranges::min(candidates, {}, &Candidate::seconds).seconds;
  const auto found = std::ranges::find_if(
      candidates, [&](const Candidate& c) { return c.seconds <= (1 + tie) * best; });
  return static_cast<std::size_t>(found - candidates.begin());
}

double bytes_per_value(const codec::Compressor& compressor) {
  constexpr std::size_t kCount = 8192;
  const RandomStream stream({.run_seed = 1});
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto n = static_cast<std::uint32_t>(4 * i);
    // The sum of four uniform draws is Gaussian enough to estimate a length.
    values[i] = stream.uniform(n) + stream.uniform(n + 1) + stream.uniform(n + 2) +
                stream.uniform(n + 3) - 2.0f;
  }
  Workspace workspace;
  std::vector<std::byte> payload(compressor.max_payload_bytes(kCount));
  const std::size_t bytes = compressor.encode(values, {}, workspace, payload);
  return static_cast<double>(bytes) / static_cast<double>(kCount);
}

double expected_message_bytes(const codec::Compressor& compressor,
                              std::span<const FusionBucket> plan) {
  const double each = bytes_per_value(compressor);
  double bytes = 0;
  for (const FusionBucket& bucket : plan) {
    bytes += static_cast<double>(codec::kFrameHeaderBytes);
    for (const codec::Segment& segment : bucket.segments) {
      const auto count = static_cast<double>(segment.count);
      bytes += segment.compressed ? sizeof(std::uint32_t) + each * count : sizeof(float) * count;
    }
  }
  return bytes;
}

}  // namespace eqt::collective
