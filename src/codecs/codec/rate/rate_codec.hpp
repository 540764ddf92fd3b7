// SPDX-License-Identifier: Apache-2.0
// RateCodec: rounding to nearest with a dead zone and centroids, in a given number of bits a value,
// for runs whose error feedback keeps what is lost. ElastiQuant and E-ElastiQuant with
// compressor.rate.
//
// Source   G. J. Sullivan, IEEE Trans. Inf. Theory 42 (1996): dead-zone quantizers with centroids
//          and entropy coding; S. P. Karimireddy et al., ICML 2019, arXiv:1901.09847: feedback
// Symbols  R bits per value; a block is bucket_size values; D step, z D dead zone, c centroids
// Method   each block gets the step with which its bits are expected to be R of a value, the
//          header included (magnitude_histogram.hpp), and the first of a slice slice_bits more.
//          Index j >= 1 has the magnitudes from (z + j - 1) D to (z + j) D; j = 1 is decoded as
//          c_1 D, j >= 2 as (c_2 + j - 2) D. Rates above 4 split an index in an upper part, which
//          is coded, and lower bits, which are sent as they are
// Payload  per block: D as the upper half of a float32; if it is 0, nothing else: all values are 0.
//          Else 64 c_1 and 64 c_2, one byte each; a form byte; the codes, by entropy_coding.hpp or
//          nested_gaps.hpp; planes of the lower bits; float32 values of the last index, the escape
// Size     R bits a value on average; at least the largest value of a block is sent
// Error    |out - in| <= |in| for every value, with less for the largest of each block
// Differs from the sources: the step follows from a sample of the values, and the second centroid
//          serves all indices from 2 on

#pragma once

#include "codec/catalogue.hpp"
#include "codec/entropy/entropy_coding.hpp"
#include "codec/message.hpp"
#include "codec/rate/magnitude_histogram.hpp"
#include "codec/rate/nearest_blocks.hpp"

namespace eqt::codec {

struct RateDivision {
  double rate = 0;        // CompressorOptions::rate, at least kLeastRate
  double slice_bits = 0;  // CompressorOptions::slice_bits
};
/// Divides the bits of a message among its slices. Small tensors mostly have the larger gradients,
/// and their headers are as long as those of large ones, so a part of the bits is the same for each
/// slice, and the rest by its values. Steps that are the same for all slices have the least error
/// (reverse water-filling), but leave nothing to slices of small gradients.
/// @param bits for all of them, at least kLeastRate a value
/// @pre there are values
RateDivision divide_bits(double bits, std::span<const Segment> slices);

class RateCodec final : public NearestBlocks {
 public:
  /// @pre options.rate is set
  RateCodec(const CompressorRow& row, const CompressorOptions& options);

  std::uint8_t format_version() const noexcept override;

 private:
  struct Block;

  std::size_t max_block_bytes(std::size_t count) const override;
  std::size_t encode_block(std::span<const float> values, std::uint64_t first_index, float largest,
                           Workspace& workspace, std::span<std::byte> to) const override;
  void subtract_block(std::span<const std::byte> block, Workspace& workspace,
                      std::span<float> values) const override;
  std::size_t decode_block(std::span<const std::byte> from, float scale, Workspace& workspace,
                           std::span<float> sum) const override;

  double budget(std::size_t count, std::uint64_t first_index) const;
  std::size_t write_block(std::span<const float> values, float largest, const DeadZone& zone,
                          Workspace& workspace, std::span<std::byte> to) const;
  std::size_t write_codes(std::span<const LevelCode> codes, const IndexCounts& counts,
                          Workspace& workspace, Block& block, std::span<std::byte> to) const;

  double rate_, slice_bits_;
  EntropyCoding entropy_;
};

}  // namespace eqt::codec
