// SPDX-License-Identifier: Apache-2.0
// What limits of the system leave of a process's addresses.

#pragma once

#include <cstddef>

namespace eqt {

/// Returns true if the process may have so many bytes more, as far as addresses and limits go. It
/// allocates nothing, and may run before main().
bool has_addresses(std::size_t bytes) noexcept;

}  // namespace eqt
