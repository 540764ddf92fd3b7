// SPDX-License-Identifier: Apache-2.0
// Container W1: the nonzero level codes and the gaps between them, in Elias omega words.
//
// Source   Alistarh et al. 2017, with a count of nonzeros, so that the decoder knows the end
// Payload  omega(nonzeros + 1); per nonzero: omega(gap) sign omega(index), gap = i - (index of the
//          previous nonzero, first -1)

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/entropy/bit_stream.hpp"
#include "codec/entropy/code_kernels.hpp"

namespace eqt::codec {

class GapCode {
 public:
  /// @param symbols number of indices, 2 ... 128
  explicit GapCode(std::size_t symbols);

  /// Length without the words of gaps, gap_bits() [bits].
  std::uint64_t bits_without_gaps(const IndexCounts& counts) const;

  /// @param nonzeros the number of nonzero codes
  void write(std::span<const LevelCode> codes, std::uint64_t nonzeros, BitWriter& to) const;

  /// @throws Error{wire}. The caller checks from.overrun().
  void read(BitReader& from, std::span<LevelCode> codes) const;

 private:
  /// One or two nonzeros at the start of a window; if there is one, the second entry repeats it.
  struct Entry {
    std::uint8_t gap[2] = {};  // the second is 0 if there is none
    LevelCode code[2] = {};
    std::uint8_t count = 0;  // 0: longer than the window, or wrong
    std::uint8_t length = 0;
  };
  static constexpr int kWindowBits = 11;
  static constexpr std::size_t kShortGaps = 8;  // gaps that have a joint word with the code after
                                                // them

  void add_entries(std::size_t gap, LevelCode code);
  void pair_entries();
  // @return position after the nonzero
  std::size_t read_one(BitReader& reader, std::size_t next, std::span<LevelCode> codes) const;

  std::size_t symbols_;
  // omega(gap) sign omega(index) by gap and level code; entry 0 is without a gap. The length is
  // above the bits.
  std::array<std::array<std::uint32_t, 256>, kShortGaps> words_{};
  std::vector<Entry> entries_;  // by the first bits of the window
};

}  // namespace eqt::codec
