// SPDX-License-Identifier: Apache-2.0
// Compressors by their rows, for tests that run over all of them.

#pragma once

#include <memory>
#include <utility>

#include "codec/catalogue.hpp"

namespace eqt::test {

/// As from a config with only these options; all others have the compressor's defaults.
inline std::unique_ptr<codec::Compressor> made_by_default(const codec::CompressorRow& row,
                                                          codec::CompressorOptions options = {}) {
  if (row.choose_defaults != nullptr) row.choose_defaults(options);
  return codec::make_compressor(row, options);
}

}  // namespace eqt::test
