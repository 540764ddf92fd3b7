// SPDX-License-Identifier: Apache-2.0
// make_parallel(): several threads for long inputs, with the same bytes and the same decoded bits.

#pragma once

#include <cstddef>
#include <memory>

#include "codec/compressor.hpp"

namespace eqt::codec {

/// Values from which a second thread pays, by measurement: encoding them takes several times as
/// long as waking a thread.
inline constexpr std::size_t kLeastParallelValues = std::size_t{1} << 18;

/// `inner`, with encode(), encode_with_feedback(), decode_add() and decode_add_all() of at least
/// `least_values` values (decoding is faster: four times as many, of all payloads together) shared
/// between `threads` threads; all else is inner's. Each thread takes one run
/// of whole granules. The payload is that of `inner` by Properties::concatenates, whatever the
/// number of threads; where Compressor::prefix_bytes() does not know where the runs' bytes begin,
/// and for whatever is malformed, one thread decodes. Errors are inner's, word for word.
///
/// The threads belong to the object, because their number does, and sleep between calls. The object
/// may be used from any thread; of callers at the same time one has the threads, and the others
/// compute alone.
/// @return `inner` itself if `threads` is below 2 or its payloads do not concatenate
std::unique_ptr<Compressor> make_parallel(std::unique_ptr<Compressor> inner, int threads,
                                          std::size_t least_values = kLeastParallelValues);

}  // namespace eqt::codec
