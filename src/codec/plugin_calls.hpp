// SPDX-License-Identifier: Apache-2.0
// Calls of functions that others wrote: a crash inside is theirs, and told as theirs. Private to
// this room.

#pragma once

#include <string>

namespace eqt::codec {

/// What is said of a plugin that crashes: prepared, because nothing can be formatted then.
class CrashSentence {
 public:
  /// @param what "the compressor plugin /home/me/libmine.so"
  explicit CrashSentence(const std::string& what);
  const char* text() const { return text_.c_str(); }

 private:
  std::string text_;
};

/// As long as it lives, a crash of this thread (a segmentation fault, a division by zero, abort())
/// prints the sentence and ends the process with exit code 70.
class InsidePlugin {
 public:
  explicit InsidePlugin(const CrashSentence& sentence);
  ~InsidePlugin();
  InsidePlugin(const InsidePlugin&) = delete;
  InsidePlugin& operator=(const InsidePlugin&) = delete;

 private:
  const char* before_;
};

/// Makes crashes known; again after a library has made itself the one who knows of them, as MPI
/// does when it starts.
void watch_for_crashes();

}  // namespace eqt::codec
