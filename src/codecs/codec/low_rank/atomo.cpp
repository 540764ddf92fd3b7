// SPDX-License-Identifier: Apache-2.0
#include "codec/low_rank/atomo.hpp"

namespace eqt::codec {

const CompressorRow kAtomo = {
    .name = "atomo",
    .about = "singular triples or values at random, large ones more often",
    .id = CodecId::atomo,
    .make =
        [](const CompressorRow&, const CompressorOptions& options) {
          return options.atoms == Atoms::spectral ? make_atomo_spectral(options)
                                                  : make_atomo_entrywise(options);
        },
    .reads = {Option::atoms, Option::rank, Option::density},
    .title = "ATOMO",
    .colour = "#c35aff"};

}  // namespace eqt::codec
