// SPDX-License-Identifier: Apache-2.0
// Who encodes the gradients of a network that computes on a device: the device or the host.

#pragma once

#include <memory>
#include <string>

#include "collective/collective.hpp"
#include "config/run_config.hpp"
#include "device/gradient_encoder.hpp"

namespace eqt::setup {

struct SyncBase;

struct EncoderChoice {
  std::unique_ptr<device::GradientEncoder> encoder;  // null: the host encodes
  std::string note;  // for the reader of the records; empty: the network is on the host
};

/// Before the buckets are taken from `base`.
/// @param collective null: nothing is averaged by one
/// @throws Error{usage} if there is not enough memory
EncoderChoice choose_encoder(const config::RunConfig& config, const SyncBase& base,
                             const collective::Collective* collective);

}  // namespace eqt::setup
