// From config keys to a compressor.

#pragma once

#include <memory>

#include "app/config/run_config.hpp"
#include "codec/compressor.hpp"

namespace eqt::app {

std::unique_ptr<codec::Compressor> make_compressor(const RunConfig::Compressor& config);

}  // namespace eqt::app
