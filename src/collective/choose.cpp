#include <array>
#include <cmath>

#include "collective/collective.hpp"

namespace eqt::collective {
namespace {

/// Payload bytes per value of Gaussian-like values, measured once: codecs need not know their own
/// mean length.
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

}  // namespace

bool scatter_pays(const codec::Compressor& compressor, std::size_t values, std::size_t parties) {
  if (parties <= 2 || needs_whole_slices(compressor)) return false;
  // What the second round costs in waiting, as bytes that a 1 Gb/s link carries meanwhile (0.5 ms).
  constexpr double kRoundBytes = 64 * 1024;
  const double message = bytes_per_value(compressor) * static_cast<double>(values);
  const auto n = static_cast<double>(parties);
  return message * (n - 1) * (1 - 2 / n) > kRoundBytes;
}

std::string_view choose_collective(const codec::Compressor& compressor, std::size_t values,
                                   int ranks) {
  if (compressor.id() == codec::CodecId::none) return "dense";
  if (compressor.id() == codec::CodecId::powersgd) return "power-sgd";
  const bool scatters = scatter_pays(compressor, values, static_cast<std::size_t>(ranks));
  return scatters ? "scatter-reduce" : "allgather";
}

}  // namespace eqt::collective
