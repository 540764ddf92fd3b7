// SPDX-License-Identifier: Apache-2.0
// Converts LibTorch's exceptions to eqt::Error with one sentence.

#pragma once

#include <c10/util/Exception.h>

#include <exception>
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
  if (text.find("Traceback") == std::string::npos) {
    const std::size_t start = text.find_first_not_of(" \n");
    return text.substr(start, text.find('\n', start) - start);
  }
  const std::size_t begin = text.find_last_of('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - begin);
}

/// Returns that line of LibTorch's message, without its stack trace.
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

/// @throws as refuse_without_memory(), else Error{kind}: "WHO failed while DOING: ..."
[[noreturn]] inline void refuse_failure(std::string_view doing, const std::string& text, Kind kind,
                                        std::string_view who) {
  refuse_without_memory(text);
  fail(kind, "{} failed while {}: {}", who, doing, sentence_of(text));
}

/// Runs `work`. What LibTorch throws in it, c10::Error or another exception, becomes what
/// refuse_without_memory() throws, or Error{kind} that says who failed at what.
/// @param who "LibTorch"; or a network, if `kind` says that the error is its own
template <class Work>
decltype(auto) guarded(std::string_view doing, const Work& work, Kind kind = Kind::bug,
                       std::string_view who = "LibTorch") {
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::Error& error) {
    refuse_failure(doing, error.what_without_backtrace(), kind, who);
  } catch (const std::exception& error) {  // such as torch::jit::ErrorReport
    refuse_failure(doing, error.what(), kind, who);
  }
}

}  // namespace eqt::model
