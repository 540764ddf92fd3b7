// SPDX-License-Identifier: Apache-2.0
// WholeBits: rounding to nearest with a dead zone and centroids, with the same whole number of bits
// for every value, for runs whose error feedback keeps what is lost. ElastiQuant with
// compressor.rounding "nearest". Without entropy coding it is the faster one where links are fast.
//
// Source   J. Max, IRE Trans. Inf. Theory 6 (1960): the uniform quantizer of least squared error;
//          S. P. Karimireddy et al., ICML 2019, arXiv:1901.09847: error feedback
// Symbols  b bits per value, sign included; n = 2^(b-1) - 1 indices above 0; a block is bucket_size
//          values; D step, z D dead zone, c centroids
// Method   each block gets the step of least squared error by a histogram of its magnitudes
//          (magnitude_histogram.hpp). Index j >= 1 has the magnitudes from (z + j - 1) D to
//          (z + j) D, and n all larger ones; j = 1 is decoded as c_1 D, j >= 2 as (c_2 + j - 2) D
// Payload  per block: D as the upper half of a float32; if it is 0, nothing else: all values are 0.
//          Else 64 c_1 and 64 c_2, one byte each; the codes, by fixed_coding.hpp
// Size     b bits per value, and 32 per block
// Error    |out - in| <= |in| for every value, with less for the largest of each block
// Differs from the sources: two centroids, of which the second serves all indices from 2 on

#pragma once

#include "codec/catalogue.hpp"
#include "codec/rate/nearest_blocks.hpp"

namespace eqt::codec {

class WholeBits final : public NearestBlocks {
 public:
  /// @pre options.bits is 2 to 8
  WholeBits(const CompressorRow& row, const CompressorOptions& options);

  std::uint8_t format_version() const noexcept override;

 private:
  std::size_t max_block_bytes(std::size_t count) const override;
  std::size_t encode_block(std::span<const float> values, std::uint64_t first_index, float largest,
                           Workspace& workspace, std::span<std::byte> to) const override;
  void subtract_block(std::span<const std::byte> block, Workspace& workspace,
                      std::span<float> values) const override;
  std::size_t decode_block(std::span<const std::byte> from, float scale, Workspace& workspace,
                           std::span<float> sum) const override;

  int bits_;
};

}  // namespace eqt::codec
