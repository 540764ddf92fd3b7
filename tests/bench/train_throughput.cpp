// SPDX-License-Identifier: Apache-2.0
// Images per second of one rank's forward and backward pass, without data or communication,
// by the clock and by processor time (which a busy machine disturbs less).
//
// train_throughput [model [batch [steps [threads [pixels [precision [kernels]]]]]]]; prints a JSON
// line. Kernels are a family of instructions for int8, "avx2-pair"; otherwise the fastest.
// Random images. The precision "own-fp32" is float32 as a build without LibTorch computes it.
// Several precisions, "fp32,bf16", are timed in turn, step by step; lines with the
// median of each one's speed over the first one's follow.

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "model/own/own_replica.hpp"
#include "model/replica.hpp"
#include "model/unit/support.hpp"

namespace {

int argument(int argc, char** argv, int index, int otherwise) {
  return argc > index ? std::atoi(argv[index]) : otherwise;
}

/// A network and the times of its steps.
struct Runner {
  Runner(std::string name, std::unique_ptr<eqt::model::Replica> network)
      : precision(std::move(name)), replica(std::move(network)) {}

  void step(const eqt::data::Batch& batch) {
    const std::clock_t start = std::clock();
    const eqt::Stopwatch watch;
    replica->forward_backward(batch, {});
    seconds.push_back(watch.seconds());
    cpu_seconds.push_back(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }

  std::string precision;
  std::unique_ptr<eqt::model::Replica> replica;
  std::vector<double> seconds, cpu_seconds;
};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void print(const Runner& runner, const std::string& model, int batch, int threads) {
  fmt::print(
      "{{\"model\": \"{}\", \"precision\": \"{}\", \"batch\": {}, \"threads\": {}, "
      "\"steps\": {}, \"images_per_second\": {:.1f}, \"fastest\": {:.1f}, "
      "\"images_per_cpu_second\": {:.1f}}}\n",
      model, runner.precision, batch, threads, runner.seconds.size(),
      batch / median(runner.seconds), batch / *std::ranges::min_element(runner.seconds),
      batch / median(runner.cpu_seconds));
}

void print_ratio(const Runner& slow, const Runner& fast) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < slow.seconds.size(); ++i)
    ratios.push_back(slow.cpu_seconds[i] / fast.cpu_seconds[i]);
  fmt::print("{{\"{}_over_{}\": {:.3f}}}\n", fast.precision, slow.precision, median(ratios));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string model = argc > 1 ? argv[1] : "resnet20";
  const int batch_size = std::max(1, argument(argc, argv, 2, 64));
  const int steps = std::max(1, argument(argc, argv, 3, 20));
  const int threads = argument(argc, argv, 4, 1);
  const int pixels = argument(argc, argv, 5, 32);
  const std::string precision = argc > 6 ? argv[6] : "fp32";

  auto kernels = eqt::int8::fastest_here();
  for (const auto family : eqt::int8::available())
    if (argc > 7 && eqt::name_of(family) == std::string_view(argv[7])) kernels = family;

  eqt::model::set_threads(threads);
  const auto batch =
      eqt::model::random_batch(static_cast<std::size_t>(batch_size), {3, pixels, pixels});
  eqt::model::ModelOptions options{.model = eqt::model::ModelRow::all().at(model),
                                   .inputs = {batch.inputs[0].spec}};
  std::vector<Runner> runners;
  for (const auto& [value, name, about] : names_of(eqt::model::Precision{})) {
    if (("," + precision + ",").find(fmt::format(",{},", name)) == std::string::npos) continue;
    options.precision = value;
    runners.emplace_back(std::string(name), value == eqt::model::Precision::int8
                                                ? make_int8_replica(options, kernels)
                                                : make_replica(options));
  }
  if (("," + precision + ",").find(",own-fp32,") != std::string::npos) {
    options.precision = eqt::model::Precision::fp32;
    runners.emplace_back("own-fp32", make_float32_replica(options));
  }
  if (runners.empty()) eqt::fail(eqt::Kind::usage, "no precision of that name");
  for (Runner& runner : runners)
    for (int i = 0; i < 3; ++i) runner.replica->forward_backward(batch, {});
  for (int i = 0; i < steps; ++i)
    for (Runner& runner : runners) runner.step(batch);
  for (const Runner& runner : runners) print(runner, model, batch_size, threads);
  for (std::size_t i = 1; i < runners.size(); ++i) print_ratio(runners[0], runners[i]);
} catch (const eqt::Error& error) {
  fmt::print(stderr, "{}: {}\n", eqt::kind_name(error.kind()), error.what());
  return error.exit_code();
}
