// SPDX-License-Identifier: Apache-2.0
// Errors: one exception type whose kind is the program's exit code, and the checks that throw it.
//
// A message is one sentence: what was expected, what was found, where, what to try.

#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace eqt {

/// The kind says what went wrong; its number is the process's exit code.
enum class Kind : int {
  usage = 2,         // command line or config
  data = 3,          // a data or weights file
  diverged = 4,      // a loss or gradient that is not finite
  wire = 5,          // a malformed message
  mpi = 6,           // an MPI call failed
  timeout = 7,       // an exchange took longer than its deadline
  bug = 70,          // an error inside this program
  output = 74,       // results could not be written
  interrupted = 75,  // stopped by a signal
};

/// "usage", "data", ... as printed before the sentence.
std::string_view kind_name(Kind kind) noexcept;

class Error : public std::runtime_error {
 public:
  Error(Kind kind, const std::string& sentence) : std::runtime_error(sentence), kind_(kind) {}
  Kind kind() const noexcept { return kind_; }
  int exit_code() const noexcept { return static_cast<int>(kind_); }

 private:
  Kind kind_;
};

/// Throws Error{kind} with a formatted sentence.
template <typename... Args>
[[noreturn]] void fail(Kind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

namespace detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const std::string& message);
}

}  // namespace eqt

/// Always on: throws Error{bug} that shows the condition, the place and a formatted message with
/// the operands. The condition must have no side effect.
#define EQT_CHECK(condition, ...)                                                              \
  do {                                                                                         \
    if (!(condition)) [[unlikely]]                                                             \
      ::eqt::detail::check_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)

/// Does what EQT_CHECK does in builds with EQT_DCHECKS; otherwise the condition is compiled but
/// never evaluated.
#ifdef EQT_DCHECKS
#define EQT_DCHECK(condition, ...) EQT_CHECK(condition, __VA_ARGS__)
#else
#define EQT_DCHECK(condition, ...)                \
  do {                                            \
    if (false) EQT_CHECK(condition, __VA_ARGS__); \
  } while (false)
#endif
