// SPDX-License-Identifier: Apache-2.0
// Compressors in users' shared objects. The interface is include/equant/compressor_plugin.h.

#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace eqt::codec {

/// A shared object whose compressor is in the catalogue.
struct LoadedPlugin {
  std::string path;        // absolute
  std::string name;        // of its compressor
  std::uint64_t hash = 0;  // checksum() of the file
};

/// Loads a shared object and appends its compressor to CompressorRow::all(). Not thread-safe: call
/// it before a config is read. A plugin that crashes, now or later, ends the process with exit code
/// 70 and a message.
/// @throws Error{usage} for a file that is no plugin, has another version, or a name that is taken
void load_plugin(const std::string& path);

/// In the order in which they were loaded.
std::span<const LoadedPlugin> loaded_plugins();

}  // namespace eqt::codec
