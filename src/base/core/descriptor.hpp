// SPDX-License-Identifier: Apache-2.0
// A file that is open for reading.

#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

namespace eqt {

/// Closes the file when it goes out of scope. Does not wait for the writer of a pipe.
class Descriptor {
 public:
  explicit Descriptor(const std::filesystem::path& file)
      // A pipe would block here without O_NONBLOCK, which means nothing to regular files.
      : number_(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  /// Below 0 if the file could not be opened; errno then has the reason.
  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace eqt
