// SPDX-License-Identifier: Apache-2.0
// ATOMO's two kinds of atoms, each a compressor; the row of atomo chooses one.

#pragma once

#include <memory>

#include "codec/catalogue.hpp"

namespace eqt::codec {

std::unique_ptr<Compressor> make_atomo_spectral(const CompressorOptions& options);
std::unique_ptr<Compressor> make_atomo_entrywise(const CompressorOptions& options);

}  // namespace eqt::codec
