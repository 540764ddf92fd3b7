// ATOMO's two kinds of atoms, each a compressor; make_atomo() chooses.

#pragma once

#include <memory>

#include "codec/codecs.hpp"

namespace eqt::codec {

std::unique_ptr<Compressor> make_atomo_spectral(const AtomoOptions& options);
std::unique_ptr<Compressor> make_atomo_entrywise(const AtomoOptions& options);

}  // namespace eqt::codec
