// SPDX-License-Identifier: Apache-2.0
// CRC-32C: the checksum of TFRecord files, by ISA-L.
//
// Source   G. Castagnoli, S. Braeuer, M. Herrmann, IEEE Transactions on Communications 41, 1993;
//          parameters as in RFC 3720, appendix B.4: polynomial 0x1EDC6F41, bits reflected, all ones
//          before and after

#pragma once

#include <cstdint>
#include <string_view>

namespace eqt::metrics {

/// The CRC-32C of `bytes`; 0xE3069283 for "123456789".
std::uint32_t crc32c(std::string_view bytes);

}  // namespace eqt::metrics
