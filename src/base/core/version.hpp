// SPDX-License-Identifier: Apache-2.0
// The program's version.

#pragma once

#include <string>

namespace eqt {

/// "0.2.0+abc1234": the version and, if it was built from a git checkout, the revision.
std::string version();

}  // namespace eqt
