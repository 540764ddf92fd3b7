// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "codec/entropy/rans_kernels.hpp"

namespace eqt::codec {

RansEncoderTables rans_encoder_tables(std::span<const std::uint16_t> frequencies, int precision) {
  RansEncoderTables t;
  t.precision = precision;
  std::uint32_t start = 0;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const std::uint32_t f = frequencies[i];
    if (f == 0) continue;
    t.frequency[i] = f;
    t.start[i] = start;
    t.reciprocal40[i] = ((std::uint64_t{1} << 40) + f - 1) / f;
    if (i < kRansVectorSymbols) {
      t.limit[i] = f << (kRansHighBits - 8);
      t.reciprocal32[i] =
          f == 1 ? 0xFFFFFFFFu : static_cast<std::uint32_t>(((std::uint64_t{1} << 32) + f - 1) / f);
      t.bias[i] = f == 1 ? start + 255 : start;
      t.complement[i] = 256 - f;
    }
    start += f;
  }
  return t;
}

void rans_decoder_tables(std::span<const std::uint16_t> frequencies, int precision,
                         RansDecoderTables& t) {
  t.precision = precision;
  t.symbols = frequencies.size();
  std::uint32_t slot = 0;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const std::uint32_t f = frequencies[i];
    if (precision == 8) {
      t.starts[i] = static_cast<std::int32_t>(slot);
      t.frequencies[i] = f;
      std::memset(t.frequency.data() + slot, static_cast<int>(f), f);
      std::memset(t.index.data() + slot, static_cast<int>(i), f);
      for (std::uint32_t k = 0; k < f; ++k) {
        t.offset[slot + k] = static_cast<std::uint8_t>(k);
      }
    } else {
      const std::uint32_t entry = static_cast<std::uint32_t>(i) << 24 | f << 12;
      for (std::uint32_t k = 0; k < f; ++k) t.packed[slot + k] = entry | k;
    }
    slot += f;
  }
}

}  // namespace eqt::codec
