// SPDX-License-Identifier: Apache-2.0
// Which program this is.

#pragma once

#include <string>

namespace eqt {

/// "0.1.0+abc1234": the version and, where it was built from a git checkout, the revision.
std::string version();

}  // namespace eqt
