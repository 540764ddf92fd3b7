// SPDX-License-Identifier: Apache-2.0
// Lossless coding: the values of `none` or `bf16` in fewer bytes, by entropy coding of exponents.
//
// Source   T. Zhang et al., arXiv:2504.11651 (DFloat11): exponents of bfloat16 weights are coded,
//          signs and mantissas are left as they are
// Payload  blocks of 8192 values, the last one has the rest. A block: form, u8; 0: the values as
//          `none` or `bf16` sends them; 1 and 2: number of further bytes, u16; the largest exponent
//          with a code, u8; the number w of such exponents, u8; the exponents' codes by rANS
//          (entropy/rans.hpp), which hold the first bytes of the upper plane instead of signs; the
//          rest of the upper plane; the lower plane (lossless/float_planes.hpp); the exponents of
//          escapes, a byte each
// Codes    0 is +0 in form 2; the w exponents downwards; the escape
// Size     8 bits (bf16) or 24 (none) and the entropy of the exponents; at most a byte in a block
//          more than without coding
// Differs  from DFloat11: rANS with frequencies for each block, not one Huffman code; +0 takes no
//          mantissa where it is frequent; float32 as well

#pragma once

#include <memory>

#include "codec/compressor.hpp"
#include "codec/options.hpp"

namespace eqt::codec {

/// Values that are coded together.
inline constexpr std::size_t kLosslessBlock = 8192;

/// Returns `plain` with coding `fixed`; with `lossless` a compressor of the same values.
/// @pre `plain` is `none` or `bf16`
std::unique_ptr<Compressor> with_coding(Coding coding, std::unique_ptr<Compressor> plain);

}  // namespace eqt::codec
