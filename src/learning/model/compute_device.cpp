// SPDX-License-Identifier: Apache-2.0
#include "model/compute_device.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "core/error.hpp"

namespace eqt::model {

namespace {

/// EQT_MIRROR; empty if it is not set.
std::string_view mirror_word() {
  const char* const text = std::getenv("EQT_MIRROR");
  const std::string_view word = text == nullptr ? std::string_view() : text;
  if (text == nullptr || word == "values" || word == "codec" || word == "layers") return word;
  fail(
      Kind::usage,
      "EQT_MIRROR: expected \"values\", \"codec\" or \"layers\", found \"{}\"; correct or unset it",
      word);
}

}  // namespace

Placement on_cuda(int device) {
  return {
      .cuda = device, .mirrored = true, .torch_layers = true, .encodes = mirror_word() != "values"};
}

Placement on_processor() {
  const std::string_view word = mirror_word();
  return {.mirrored = !word.empty(), .torch_layers = word == "layers", .encodes = word == "codec"};
}

std::string obstacle_of(const std::string& message) {
  const auto says = [&](std::string_view words) {
    return message.find(words) != std::string::npos;
  };
  const std::string words = message.substr(0, message.find('\n'));
  if (says("driver on your system is too old") || says("driver version is insufficient"))
    return fmt::format("the driver is too old (\"{}\"); install a newer one", words);
  if (says("Found no NVIDIA driver"))
    return "there is no NVIDIA driver; install one, and in a container pass the device on";
  if (says("No CUDA GPUs are available") || says("no CUDA-capable device"))
    return "the driver shows no device; check nvidia-smi and CUDA_VISIBLE_DEVICES";
  return fmt::format("LibTorch says \"{}\"; check nvidia-smi", words);
}

void fail_out_of_memory(const std::string& message) {
  // "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.77 GiB of
  // which 1.12 GiB is free. ..." Advice for other programs follows.
  std::string numbers = message.substr(0, message.find('\n'));
  if (const auto begin = numbers.find("Tried to allocate"); begin != std::string::npos)
    numbers.erase(0, begin);
  constexpr std::string_view kLast = " is free";
  if (const auto end = numbers.find(kLast); end != std::string::npos)
    numbers.resize(end + kLast.size());
  fail(Kind::usage,
       "expected more free memory on the NVIDIA device, found too little (\"{}\"); try a smaller "
       "train.batch_size, or fewer ranks on this device",
       numbers);
}

}  // namespace eqt::model
