// SPDX-License-Identifier: Apache-2.0
// Bytes and multiply-adds of the program's networks, beside those that theory counts.

#include "analyze/measured.hpp"

#include <cstdint>

#include "support/catch.hpp"
#include "theory/energy.hpp"
#include "theory/memory.hpp"

using namespace eqt;
using namespace eqt::analyze;
using model::Precision;
using theory::MultiplyAdds;

namespace {

constexpr std::size_t kBatch = 32;

MultiplyAdds counted(const char* model, Precision precision) {
  return count_products(measured_network(model, "batchnorm", precision), kBatch);
}

}  // namespace

TEST_CASE("layers have theory's multiply-adds, without the gradient of the pictures") {
  for (const char* const model : {"resnet20", "resnet54", "vgg11"}) {
    INFO(model);
    const auto shape = theory::shape_of(model);
    const theory::Convolution& stem = shape.convolutions.front();
    const double pictures =
        double{kBatch} * 32 * 32 * stem.kernel * stem.kernel * stem.in * stem.out;
    double classifier = 0;
    for (const theory::Linear& l : shape.linears) classifier += 3.0 * kBatch * l.in * l.out;
    const double all =
        theory::step_products(shape, kBatch, theory::Phase::training, theory::Precision::float32)
            .total() -
        pictures;
    CHECK(counted(model, Precision::fp32).float32 == all);
    CHECK(counted(model, Precision::bf16).bfloat16 == all - classifier);
    const MultiplyAdds low = counted(model, Precision::int8);
    CHECK(low.int8 == all - classifier);
    CHECK(low.float32 == classifier);
  }
}

TEST_CASE("weight gradients of wider errors have other multiply-adds") {
  auto options = measured_network("resnet20", "batchnorm", Precision::int8);
  const MultiplyAdds usual = count_products(options, 1);
  options.int8.weight_gradient = model::WeightGradient::int16;
  const MultiplyAdds wide = count_products(options, 1);
  options.int8.weight_gradient = model::WeightGradient::fp32;
  const MultiplyAdds full = count_products(options, 1);
  CHECK(wide.float32 == usual.float32);
  CHECK(wide.int8 - usual.int8 == usual.int8 - full.int8);  // two digits
  CHECK(full.float32 - usual.float32 == usual.int8 - full.int8);
}

TEST_CASE(
    "a step of ResNet-20 takes less with each narrower type, and a quarter of float32's in int8") {
  const auto step = [](Precision precision) {
    return measure_step(measured_network("resnet20", "batchnorm", precision), kBatch);
  };
  const StepBytes full = step(Precision::fp32), half = step(Precision::bf16),
                  low = step(Precision::int8);
  const theory::PeakMemory modelled = theory::peak_memory(
      theory::shape_of("resnet20"), kBatch, theory::Phase::training, theory::Precision::float32, 0);
  const auto mebibytes = [](std::uint64_t bytes) {
    return static_cast<double>(bytes) / theory::kMebibyte;
  };
  CHECK(mebibytes(full.parameters) == Approx(modelled.parameters));
  CHECK(full.step > half.step);
  CHECK(half.step > low.step);
  CHECK(low.step < full.step / 4);
  CHECK(low.step > low.arena);
  CHECK(low.arena > low.saved);
  CHECK(mebibytes(low.saved) < modelled.activations / 4);
  CHECK(full.saved == 0);

  // Small tensors are sent as float32, and all have headers.
  CHECK(full.message >= full.parameters);
  CHECK(full.message < full.parameters * 101 / 100);
  CHECK(half.message > full.parameters / 2);
  CHECK(half.message < full.parameters * 52 / 100);
  CHECK(low.message > full.parameters / 4);
  CHECK(low.message < full.parameters * 28 / 100);
  CHECK(low.compressor == "int8");
}
