// SPDX-License-Identifier: Apache-2.0
// What a process sets once, before it computes. Private to this room.

#pragma once

namespace eqt::model {

/// Makes the C library keep freed memory. By default it returns every activation's memory to the
/// kernel, which causes page faults in each step: 15 % of ResNet-20's time in LibTorch (batch 64,
/// one core, glibc 2.36).
void keep_freed_memory();

/// Lets LibTorch take the memory of tensors from malloc() and align it itself to 64 bytes, instead
/// of by posix_memalign(); only in builds with LibTorch. The GNU C library before 2.38 looks for
/// more than an aligned block has (its size, the alignment and a header), and does not find a freed
/// block of the same size: the heap grew to 627 to 847 MiB in runs of one config (ResNet-20, batch
/// 256), and to 611 without it. Call it before threads are started.
void allocate_exact_blocks();

/// Networks that LibTorch does not run compute with this number of threads, which is that of the
/// last set_threads(); 1 before.
int own_threads();
void set_own_threads(int threads);

/// Numbers below the smallest normal one become zero in float32 arithmetic of this thread, as
/// LibTorch has it: networks that converge make many of them, and they are slow.
void flush_denormals();

}  // namespace eqt::model
