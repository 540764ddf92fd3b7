#include "collective/collective.hpp"
#include "collective/cost.hpp"

namespace eqt::collective {

std::string_view choose_collective(const codec::Compressor& compressor, std::size_t values,
                                   int ranks) {
  if (compressor.id() == codec::CodecId::none) return "dense";
  if (compressor.id() == codec::CodecId::powersgd) return "power-sgd";
  if (ranks <= 2 || needs_whole_slices(compressor)) return "allgather";
  // What the second round costs in waiting, as bytes that a 1 Gb/s link carries meanwhile (0.5 ms).
  constexpr double kRoundBytes = 64 * 1024;
  const double message = bytes_per_value(compressor) * static_cast<double>(values);
  const double n = ranks;
  const double saved = message * (n - 1) * (1 - 2 / n);
  return saved > kRoundBytes ? "scatter-reduce" : "allgather";
}

}  // namespace eqt::collective
