// SPDX-License-Identifier: Apache-2.0
// The C++ side of weights_interop.py.
//
// weights_tool save MODEL SEED FILE     writes fresh weights, after one step on the fixed batch
// weights_tool load MODEL FILE OUT      reads weights; writes to OUT.json the loss and evaluation
// of
//                                       the fixed batch and each gradient's place, to OUT.f32 the
//                                       gradient

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>
#include <fstream>
#include <string>

#include "core/error.hpp"
#include "model/replica.hpp"
#include "support/pictures.hpp"

namespace {

/// Image value i is sin(0.37 i); label i is 3 i mod 10. Python repeats it.
eqt::data::Batch fixed_batch() {
  constexpr eqt::data::ImageShape kShape{3, 32, 32};
  constexpr std::size_t kSize = 6;
  std::vector<float> images;
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < kSize * kShape.values(); ++i) {
    images.push_back(static_cast<float>(std::sin(0.37 * static_cast<double>(i))));
  }
  for (std::size_t i = 0; i < kSize; ++i) labels.push_back(static_cast<std::int64_t>(3 * i % 10));
  eqt::data::Batch batch;
  eqt::test::write_pictures(kShape, 10, images, labels, batch);
  return batch;
}

void describe(eqt::model::Replica& replica, const std::string& out) {
  const auto batch = fixed_batch();
  const auto evaluation = replica.evaluate(batch);
  const double loss = replica.forward_backward(batch, {});
  std::ofstream json(out + ".json");
  json << fmt::format("{{\"loss\": {:.9g}, \"loss_sum\": {:.9g}, \"correct\": {}, \"slices\": {{",
                      loss, evaluation.loss_sum, evaluation.sums[0]);
  const char* comma = "";
  for (const auto& slice : replica.layout()) {
    json << fmt::format("{}\"{}\": [{}, [{}]]", comma, slice.name, slice.offset,
                        fmt::join(slice.shape, ", "));
    comma = ", ";
  }
  json << "}}\n";
  const auto gradient = std::as_bytes(replica.gradient());
  std::ofstream(out + ".f32", std::ios::binary)
      .write(reinterpret_cast<const char*>(gradient.data()),
             static_cast<std::streamsize>(gradient.size()));
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 5) eqt::fail(eqt::Kind::usage, "expected 4 arguments, found {}", argc - 1);
  eqt::model::set_threads(1);
  const std::string verb = argv[1];
  const auto model = eqt::model::ModelRow::all().at(argv[2]);
  const std::uint64_t seed = verb == "save" ? std::stoull(argv[3]) : 1;
  const auto replica = eqt::model::make_replica(
      {.model = model, .inputs = eqt::test::pictures({3, 32, 32}), .seed = seed});
  if (verb == "save") {
    replica->forward_backward(fixed_batch(), {});
    replica->save_weights(argv[4]);
  } else {
    replica->load_weights(argv[3]);
    describe(*replica, argv[4]);
  }
} catch (const eqt::Error& error) {
  fmt::print(stderr, "{}: {}\n", eqt::kind_name(error.kind()), error.what());
  return error.exit_code();
}
