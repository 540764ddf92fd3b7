// SPDX-License-Identifier: Apache-2.0
// Where LibTorch computes a network. No torch in this header.

#pragma once

#include <optional>
#include <string>

namespace eqt::model {

/// The parameters and gradients that others see are on the host in any case.
struct Placement {
  std::optional<int> cuda = {};  // the number of an NVIDIA device; none: the processor
  bool mirrored = false;         // the network computes on copies of them, as it does for a device
  bool torch_layers = false;     // and by LibTorch's operations alone, likewise
  bool encodes = false;          // gradients become messages there, where that is possible

  bool operator==(const Placement&) const = default;
};

/// Places a network on an NVIDIA device. With "values" in the environment's EQT_MIRROR the host
/// encodes.
/// @param device its number
/// @throws Error{usage} for another word
Placement on_cuda(int device);

/// Places a network on the processor. For tests the environment's EQT_MIRROR has it done as for a
/// device: "values" on copies of the parameters, which changes no bit of a result, "codec" with
/// messages encoded by the device's kernels, likewise, "layers" by LibTorch's operations in place
/// of ours.
/// @throws Error{usage} for another word
Placement on_processor();

/// The NVIDIA devices that LibTorch finds.
struct CudaDevices {
  int count = 0;
  std::string obstacle = {};  // why there are none, and what to try; empty if there are
};
CudaDevices cuda_devices();

/// Turns LibTorch's message where it finds no device into a clause with what to try.
std::string obstacle_of(const std::string& message);

/// @param message LibTorch's, where a device has no memory left; its numbers are passed on
/// @throws Error{usage}
[[noreturn]] void fail_out_of_memory(const std::string& message);

/// The obstacle of a build without CUDA.
inline constexpr const char* kBuiltWithoutCuda =
    "this build trains on the processor alone; build with -DEQT_CUDA=ON and a LibTorch for CUDA";

}  // namespace eqt::model
