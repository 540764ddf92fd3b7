// SPDX-License-Identifier: Apache-2.0
// Converts LibTorch's exceptions to eqt::Error with one sentence.

#pragma once

#include <c10/util/Exception.h>

#include <new>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "model/compute_device.hpp"

namespace eqt::model {

/// The line of a message of LibTorch that says what is wrong: behind a traceback the last one, else
/// the first.
inline std::string sentence_of(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "no message";
  if (text.find("Traceback") == std::string::npos) return text.substr(0, text.find('\n'));
  const std::size_t begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
}

/// The same of LibTorch's message, without its stack trace.
inline std::string sentence_of(const c10::Error& error) {
  return sentence_of(error.what_without_backtrace());
}

/// Throws if LibTorch's message says that it ran out of memory, which it reports like any other
/// error.
/// @throws std::bad_alloc for the host's, Error{usage} for a device's
inline void refuse_without_memory(const std::string& text) {
  const auto says = [&](const char* words) { return text.find(words) != std::string::npos; };
  if (says("can't allocate memory") || says("not enough memory")) throw std::bad_alloc();
  if (says("CUDA out of memory") || says("CUDA error: out of memory")) fail_out_of_memory(text);
}

/// Runs `work`. A c10::Error in it becomes what refuse_without_memory() throws, or Error{bug} that
/// says what failed.
template <class Work>
decltype(auto) guarded(std::string_view doing, const Work& work) {
  try {
    return work();
  } catch (const c10::Error& error) {
    refuse_without_memory(error.what_without_backtrace());
    fail(Kind::bug, "LibTorch failed while {}: {}", doing, sentence_of(error));
  }
}

}  // namespace eqt::model
