// SPDX-License-Identifier: Apache-2.0
// Where LibTorch's tensors in the host's memory come from.

#pragma once

namespace eqt::model {

/// Lets LibTorch take the memory of tensors from malloc() and align it itself to 64 bytes, instead
/// of by posix_memalign(). The GNU C library before 2.38 looks for more than an aligned block has
/// (its size, the alignment and a header), and does not find a freed block of the same size: the
/// heap grew to 627 to 847 MiB in runs of one config (ResNet-20, batch 256), and to 611 without it.
/// Call it before threads are started.
void allocate_exact_blocks();

}  // namespace eqt::model
