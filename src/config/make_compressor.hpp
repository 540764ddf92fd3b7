// From config keys to a compressor.

#pragma once

#include <memory>

#include "codec/compressor.hpp"
#include "config/run_config.hpp"

namespace eqt::config {

std::unique_ptr<codec::Compressor> make_compressor(const RunConfig::Compressor& config);

}  // namespace eqt::config
