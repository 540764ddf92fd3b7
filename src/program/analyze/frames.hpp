// SPDX-License-Identifier: Apache-2.0
// The bytes of the messages of one step.

#pragma once

#include <cstdint>

#include "config/run_config.hpp"
#include "core/layout.hpp"

namespace eqt::analyze {

/// The bytes that a node gives to MPI for one out-edge in one step.
struct Frames {
  std::uint64_t count = 0;
  std::uint64_t payload_bytes = 0;
  std::uint64_t header_bytes = 0;  // of frames, and the lengths of compressed tensors in them
  std::uint64_t bytes() const { return payload_bytes + header_bytes; }
};

/// Encodes normal values as a run with this config would. A sparse message's length depends on
/// where its values stand: another step's differs by a fraction of a percent.
Frames frames_of(const Layout& layout, const config::RunConfig& config);

}  // namespace eqt::analyze
