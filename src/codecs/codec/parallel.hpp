// SPDX-License-Identifier: Apache-2.0
// make_parallel(): encodes and decodes long inputs with several threads, to the same bits.

#pragma once

#include <cstddef>
#include <memory>

#include "codec/compressor.hpp"

namespace eqt::codec {

/// From this many values on a second thread is faster (measured): encoding them takes several times
/// as long as waking a thread.
inline constexpr std::size_t kMinParallelValues = std::size_t{1} << 18;

/// Wraps `inner`: encode(), encode_with_feedback(), decode_add() and decode_add_all() use `threads`
/// threads from `least_values` values on (for decoding, which is faster, four times as many in all
/// payloads together). All else is inner's. Each thread has one range of whole granules. Because of
/// Properties::concatenates the payload is that of `inner` for any number of threads. One thread
/// decodes if Compressor::prefix_bytes() does not know where the ranges' bytes begin, and if a
/// payload is malformed. Errors are inner's, word for word.
///
/// The object owns the threads, which sleep between calls. It may be used from any thread; if
/// several call at the same time, one uses the threads and the others compute alone.
/// @return `inner` itself if `threads` is below 2 or its payloads do not concatenate
std::unique_ptr<Compressor> make_parallel(std::unique_ptr<Compressor> inner, int threads,
                                          std::size_t least_values = kMinParallelValues);

}  // namespace eqt::codec
