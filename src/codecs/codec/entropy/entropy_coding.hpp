// SPDX-License-Identifier: Apache-2.0
// One bucket's codes as a bit stream: the cheapest of the containers W1 ... W4 that are allowed.
//
// Source   W1, W2: Alistarh et al. 2017 (with a count of nonzeros, so that the decoder knows the
//          end); W3: Faghri et al. 2020
//          W4: Duda 2013 (rans.hpp)
// Payload  mode 2 bits, most significant first in everything, then
//          0 rANS     see rans.hpp
//          1 sparse   omega(nonzeros + 1); per nonzero: omega(gap) sign omega(index)
//          2 dense    per value: omega(index + 1), sign if index > 0
//          3 huffman  4 bits per index 0 ... n: word length, 0 for none; per value: word, sign if
//                     index > 0. Canonical words, at most 12 bits
//          and zero bits up to a whole byte. gap = i - (index of the previous nonzero, first -1)
// Size     exactly the least of the allowed containers

#pragma once

#include <cstddef>
#include <span>

#include "codec/entropy/code_kernels.hpp"
#include "codec/entropy/dense_code.hpp"
#include "codec/entropy/gap_code.hpp"
#include "codec/options.hpp"
#include "core/workspace.hpp"

namespace eqt::codec {

class EntropyCoding {
 public:
  /// @pre coding is not Coding::fixed
  EntropyCoding(Coding coding, int level_count);

  /// Upper bound of encode()'s result for a bucket of `count` values, `bits` each in W0 [bytes].
  std::size_t max_bytes(std::size_t count) const noexcept;

  /// Writes the bucket's stream.
  /// @return bytes written
  std::size_t encode(std::span<const LevelCode> codes, std::span<std::byte> to) const;
  /// @param counts those of the codes' indices
  std::size_t encode(std::span<const LevelCode> codes, const IndexCounts& counts,
                     std::span<std::byte> to) const;

  /// Reads codes.size() codes from the start of `from`.
  /// @return bytes read
  /// @throws Error{wire}
  std::size_t decode(std::span<const std::byte> from, std::span<LevelCode> codes) const;

 private:
  /// The shortest of W1, W2 and W3 for these codes.
  struct Plan {
    std::uint64_t mode;
    std::uint64_t bits;                            // mode included; huge if none of them is allowed
    std::array<std::uint8_t, kMaxLevels> lengths;  // of Huffman words
  };

  bool allows(Coding coding) const noexcept {
    return coding_ == coding || coding_ == Coding::automatic;
  }
  bool allows_elias() const noexcept { return allows(Coding::elias); }
  bool allows_huffman() const noexcept { return allows(Coding::huffman); }
  bool allows_rans() const noexcept { return allows(Coding::rans); }
  Plan cheapest(std::span<const LevelCode> codes, const IndexCounts& counts) const;

  Coding coding_;
  std::size_t symbols_;  // n + 1
  DenseCode omega_;
  DenseEncoder omega_encoder_;
  DenseDecoder omega_decoder_;
  GapCode gaps_;
};

}  // namespace eqt::codec
