// SPDX-License-Identifier: Apache-2.0
#include "model/example_batch.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace eqt::model {
namespace {

void fill(const data::ArraySpec& spec, std::size_t size, data::Array& array) {
  std::vector<std::int64_t> shape = spec.shape;
  for (std::int64_t& extent : shape)
    if (extent < 0) extent = spec.longest;
  switch (spec.type) {
    case data::ElementType::float32:
      std::ranges::fill(array.prepare<float>(spec, size, shape), 0.0f);
      break;
    case data::ElementType::uint8:
      std::ranges::fill(array.prepare<std::uint8_t>(spec, size, shape), std::uint8_t{1});
      break;
    case data::ElementType::int64:
      std::ranges::fill(array.prepare<std::int64_t>(spec, size, shape), std::int64_t{1});
      break;
  }
}

}  // namespace

data::Batch example_batch(const ModelOptions& options, std::size_t size) {
  data::Batch batch;
  batch.inputs.resize(options.inputs.size());
  for (std::size_t i = 0; i < batch.inputs.size(); ++i)
    fill(options.inputs[i], size, batch.inputs[i]);
  if (options.target) fill(*options.target, size, batch.targets);
  return batch;
}

}  // namespace eqt::model
