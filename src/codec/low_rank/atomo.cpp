#include "codec/low_rank/atomo.hpp"

namespace eqt::codec {

std::unique_ptr<Compressor> make_atomo(const AtomoOptions& options) {
  return options.atoms == Atoms::spectral ? make_atomo_spectral(options)
                                          : make_atomo_entrywise(options);
}

}  // namespace eqt::codec
