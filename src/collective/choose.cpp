#include "collective/collective.hpp"
#include "collective/cost.hpp"

namespace eqt::collective {

bool scatter_pays(const codec::Compressor& compressor, std::size_t values, std::size_t parties) {
  if (parties <= 2 || pipeline::needs_whole_slices(compressor)) return false;
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
