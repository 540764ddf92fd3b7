// SPDX-License-Identifier: Apache-2.0
// Archives of TorchScript, of which LibTorch's reader believes every byte.

#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace eqt::weights {

/// An archive for torch::jit::load with what the given one has that LibTorch needs and that is
/// checked here:
///
///   data.pkl, constants.pkl  operations, names and nesting, see Pickle; no value is more than some
///                            hundred levels deep, none contains itself; objects only of classes in
///                            the code, none of which acts while it is read
///   data/*, constants/*      each storage is there and as long as the pickle says, and each tensor
///                            lies in its storage
///   code/*.py                nesting, see ScriptCode
///   version                  a number
///
/// Everything else is left out, such as the lines of Python that the code was made of
/// (*.debug_pkl), which LibTorch would read without a check while it writes an error message. The
/// archive is a new one, so that no other reader of archives finds something else in it.
///
/// Format: LibTorch, torch/csrc/jit/serialization: export_module.cpp, import.cpp, unpickler.cpp.
/// @param path for messages
/// @throws Error{data} of one sentence
std::string checked_script(std::span<const std::byte> bytes, const std::string& path);

/// @throws Error{data} that says what is expected in model.path, `reason`, and how to write it
[[noreturn]] void refuse_script(const std::string& path, const std::string& reason);

}  // namespace eqt::weights
