// SPDX-License-Identifier: Apache-2.0
#include "config/device_checks.hpp"

#include <fmt/format.h>

#include "core/error.hpp"

namespace eqt::config {

std::string processor_only(const RunConfig& config) {
  if (config.train.is_emulated()) return "train.emulate_compute";
  if (config.model.precision != model::Precision::fp32)
    return fmt::format("model.precision \"{}\"", name_of(config.model.precision));
  if (config.model.normalization->by_range)
    return fmt::format("model.normalization \"{}\"", config.model.normalization->name);
  return {};
}

void check_device(const RunConfig& config, const std::string& origin) {
  if (config.device != Device::cuda) return;
  const std::string key = processor_only(config);
  if (key.empty()) return;
  fail(Kind::usage,
       "{}: expected device \"cpu\" with {}, which is for the processor alone, found \"cuda\"; set "
       "device to \"cpu\", or leave {} out",
       origin, key, key.substr(0, key.find(' ')));
}

}  // namespace eqt::config
