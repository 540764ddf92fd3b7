// SPDX-License-Identifier: Apache-2.0
// Images per second of one rank's forward and backward pass, without data or communication,
// by the clock and by processor time (which a busy machine disturbs less).
//
// train_throughput [model [batch [steps [threads [pixels [precision]]]]]]; prints one JSON line.
// Random images.

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "model/replica.hpp"
#include "unit/model/support.hpp"

namespace {

int argument(int argc, char** argv, int index, int otherwise) {
  return argc > index ? std::atoi(argv[index]) : otherwise;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string model = argc > 1 ? argv[1] : "resnet20";
  const int batch_size = std::max(1, argument(argc, argv, 2, 64));
  const int steps = std::max(1, argument(argc, argv, 3, 20));
  const int threads = argument(argc, argv, 4, 1);
  const int pixels = argument(argc, argv, 5, 32);
  const auto precisions = names_of(eqt::model::Precision());
  const auto precision = std::ranges::find(precisions, argc > 6 ? argv[6] : "fp32",
                                           &eqt::Named<eqt::model::Precision>::name);
  if (precision == precisions.end()) eqt::fail(eqt::Kind::usage, "no precision of that name");

  eqt::model::set_threads(threads);
  const auto batch =
      eqt::model::random_batch(static_cast<std::size_t>(batch_size), {3, pixels, pixels});
  const eqt::model::ModelOptions options{.model = eqt::model::ModelRow::all().at(model),
                                         .inputs = {batch.inputs[0].spec},
                                         .precision = precision->value};
  const auto replica = eqt::model::make_replica(options);
  for (int i = 0; i < 3; ++i) replica->forward_backward(batch, {});

  std::vector<double> seconds;
  const std::clock_t cpu_start = std::clock();
  for (int i = 0; i < steps; ++i) {
    const eqt::Stopwatch watch;
    replica->forward_backward(batch, {});
    seconds.push_back(watch.seconds());
  }
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  std::ranges::sort(seconds);
  const auto rate = [&](std::size_t i) { return batch_size / seconds[i]; };
  fmt::print(
      "{{\"model\": \"{}\", \"precision\": \"{}\", \"batch\": {}, \"threads\": {}, \"steps\": {}, "
      "\"images_per_second\": {:.1f}, \"fastest\": {:.1f}, \"slowest\": {:.1f}, "
      "\"images_per_cpu_second\": {:.1f}}}\n",
      model, precision->name, batch_size, threads, steps, rate(seconds.size() / 2), rate(0),
      rate(seconds.size() - 1), batch_size * steps / cpu_seconds);
} catch (const eqt::Error& error) {
  fmt::print(stderr, "{}: {}\n", eqt::kind_name(error.kind()), error.what());
  return error.exit_code();
}
