// SPDX-License-Identifier: Apache-2.0
#include "core/version.hpp"

namespace eqt {

std::string version() { return EQT_VERSION; }

}  // namespace eqt
