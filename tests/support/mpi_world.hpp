// SPDX-License-Identifier: Apache-2.0
// The MPI session of a test program.

#pragma once

#include "comm/session.hpp"

namespace eqt::test {

const comm::Session& session();

}  // namespace eqt::test
