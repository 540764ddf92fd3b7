// SPDX-License-Identifier: Apache-2.0
// Calls of a plugin's functions: a crash inside is reported as the plugin's, and what it changes in
// how this thread computes is undone. Private to this room.

#pragma once

#include <cfenv>
#include <string>

namespace eqt::codec {

/// The message for a plugin that crashes, formatted before, because a signal handler cannot format.
class CrashMessage {
 public:
  /// @param what "the compressor plugin /home/me/libmine.so"
  explicit CrashMessage(const std::string& what);
  const char* text() const { return text_.c_str(); }

 private:
  std::string text_;
};

/// While it exists, a crash of this thread (a segmentation fault, a stack that is used up, a
/// division by zero, abort()) prints the message and ends the process with exit code 70. When it
/// ends, this thread rounds and treats denormal numbers as it did before.
class PluginCallGuard {
 public:
  explicit PluginCallGuard(const CrashMessage& sentence);
  ~PluginCallGuard();
  PluginCallGuard(const PluginCallGuard&) = delete;
  PluginCallGuard& operator=(const PluginCallGuard&) = delete;

 private:
  const char* before_;
  std::fenv_t arithmetic_;
};

/// Installs the signal handlers. Call it again after a library has replaced them, as MPI does when
/// it starts.
void watch_for_crashes();

}  // namespace eqt::codec
