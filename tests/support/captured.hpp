// SPDX-License-Identifier: Apache-2.0
// What a function prints on standard output and standard error.

#pragma once

#include <unistd.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

namespace eqt::test {

/// While it exists, a stream of this process is written into a file without a name.
class CapturedStream {
 public:
  explicit CapturedStream(std::FILE* stream) : stream_(stream), file_(std::tmpfile()) {
    std::fflush(stream_);
    saved_ = dup(fileno(stream_));
    if (file_ == nullptr || saved_ < 0 || dup2(fileno(file_), fileno(stream_)) < 0)
      throw std::runtime_error("no file for captured output");
  }
  ~CapturedStream() {
    std::fflush(stream_);
    dup2(saved_, fileno(stream_));
    close(saved_);
    std::fclose(file_);
  }
  CapturedStream(const CapturedStream&) = delete;
  CapturedStream& operator=(const CapturedStream&) = delete;

  /// What was written until now.
  std::string text() {
    std::fflush(stream_);
    std::string text(static_cast<std::size_t>(lseek(fileno(file_), 0, SEEK_END)), '\0');
    if (pread(fileno(file_), text.data(), text.size(), 0) < 0)
      throw std::runtime_error("captured output cannot be read");
    return text;
  }

 private:
  std::FILE* stream_;
  std::FILE* file_;
  int saved_ = -1;
};

struct Printed {
  std::string out, err;
};

/// @throws what `work` throws
template <typename Work>
Printed printed_by(Work&& work) {
  CapturedStream out(stdout), err(stderr);
  std::forward<Work>(work)();
  return {out.text(), err.text()};
}

}  // namespace eqt::test
