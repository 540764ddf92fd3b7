// SPDX-License-Identifier: Apache-2.0
// The scratch arrays of the sparse codecs. Arrays that one call uses at the same time have
// different slots.

#pragma once

#include <cstddef>
#include <cstdint>

#include "core/workspace.hpp"

namespace eqt::codec {

// A Selection: the values that are sent, and their indices.
inline constexpr ScratchArray<std::uint32_t> kSelectedIndices{0};
inline constexpr ScratchArray<float> kSelectedValues{1};
// choose(): a bit for each value, instead of indices.
inline constexpr ScratchArray<std::uint64_t> kChosenBits{0};

// rank_bin(): the values of the bin that is divided next.
inline constexpr ScratchArray<float> kBinValues{2};
// deal_entries(): where each part's next entry goes.
inline constexpr ScratchArray<std::size_t> kNextOfPart{2};

// sampled_bound(), as_float32() and write_sparse() never run at the same time.
inline constexpr ScratchArray<float> kSample{3};
inline constexpr ScratchArray<float> kFloat32Values{3};
inline constexpr ScratchArray<std::uint32_t> kAbsentIndices{3};

// sent_entries(): the entries of a payload.
inline constexpr ScratchArray<std::uint32_t> kSentIndices{4};
inline constexpr ScratchArray<float> kSentValues{5};

}  // namespace eqt::codec
