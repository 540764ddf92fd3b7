// SPDX-License-Identifier: Apache-2.0
// Which rank sums which values in the collective `sparse`. Private to the room.

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codec/sparse/deal.hpp"
#include "pipeline/plan.hpp"

namespace eqt::collective {

/// A segment of a fusion bucket and the owners of its parts. Piece p of a compressed segment is
/// part p of the deal, of a raw one its range p of kRawRun values.
struct SparseCut {
  codec::Segment whole;
  codec::Deal deal;                    // compressed segments only
  std::vector<std::size_t> owners;     // by piece
  std::vector<std::size_t> sums_from;  // by piece: where its sums begin in the owner's buffer
};

/// One piece of a cut.
struct SparsePiece {
  std::size_t cut = 0, piece = 0;
};

/// The cuts of one fusion bucket and the parts that each rank owns.
struct SparseShares {
  std::vector<SparseCut> cuts;  // one for each segment of the bucket, in its order
  // By rank: its pieces in the order of the cuts, and the segments that carry them in messages.
  // Compressed ones begin where the sums stand in the owner's buffer, raw ones in the flat buffer.
  std::vector<std::vector<SparsePiece>> pieces_of;
  std::vector<std::vector<codec::Segment>> segments_of;
};

/// Values of a raw run.
inline constexpr std::size_t kRawRun = 8192;
/// A compressed segment is dealt to as many ranks as get at least this many of its values: at a
/// density of 1 % the 9 bytes in front of a payload are then below a twentieth of it.
inline constexpr std::size_t kLeastPart = 4096;

/// Deals from the model's last value to the first, as buckets travel; so the owner of a value
/// depends neither on where fusion buckets are cut nor on the values.
/// @param sums_of  by rank: set to the number of sums that the rank keeps
std::vector<SparseShares> deal_shares(std::span<const pipeline::FusionBucket> plan,
                                      std::size_t ranks, std::vector<std::size_t>& sums_of);

}  // namespace eqt::collective
