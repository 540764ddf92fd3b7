// SPDX-License-Identifier: Apache-2.0
// What a network of the user's own may do: a TorchScript module is a program. Private to this room.

#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace eqt::model {

/// Looks at every operation of every function and method that came with the module, of its hooks,
/// submodules and nested blocks, before any of them runs.
///
/// Accepted are the operators of the namespaces `aten` and `prim`, which compute, without those
/// that reach beyond the process: files (save, from_file), Python, other processes (rpc_*). All
/// other namespaces are refused (c10d, rpc, quantized, those of libraries): a list of what is
/// allowed stays right when LibTorch gets new ones. Also refused are attributes that do not have
/// the type that the code says, and casts between classes, for with either LibTorch would read
/// memory that is not the object's; and functions that have more than a million operations with
/// those that they call.
///
/// This is no sandbox: what is accepted may still compute for ever, take all memory, or use a fault
/// of LibTorch's operators.
/// @param path for messages
/// @throws Error{data} with the operator and the line of the code in the archive
void require_computing_only(const torch::jit::Module& module, const std::string& path);

/// From now on print() in modules writes to standard error, in printable characters: standard
/// output belongs to the verbs' results.
void move_prints_of_modules();

}  // namespace eqt::model
