// SPDX-License-Identifier: Apache-2.0
// Normalization layers compared with batch normalization: a training step of one layer, and images
// per second of a whole network's forward and backward pass.
//
// norm_throughput [model [batch [rounds]]]; each round alternates between the kinds. Figures are
// medians of processor time on one thread, which a busy machine disturbs less than the clock.
// Random images.

#include <ATen/ATen.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "model/replica.hpp"
#include "model/torch/normalization.hpp"
#include "model/unit/support.hpp"

namespace {

using eqt::Entry;
using eqt::model::NormalizationRow;

const auto& kinds() { return NormalizationRow::all(); }
std::string_view name_of(std::size_t kind) {
  return kinds().begin()[static_cast<std::ptrdiff_t>(kind)]->name;
}

int argument(int argc, char** argv, int index, int otherwise) {
  return argc > index ? std::max(1, std::atoi(argv[index])) : otherwise;
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Median processor seconds of each kind, measured alternately.
template <class Work>
std::vector<double> seconds_of(int rounds, const Work& work) {
  std::vector<std::vector<double>> seconds(kinds().size());
  for (int round = -2; round < rounds; ++round) {  // the first two warm up
    for (std::size_t k = 0; k < kinds().size(); ++k) {
      const std::clock_t start = std::clock();
      work(k);
      const auto ticks = static_cast<double>(std::clock() - start);
      if (round >= 0) seconds[k].push_back(ticks / CLOCKS_PER_SEC);
    }
  }
  std::vector<double> medians;
  std::ranges::transform(seconds, std::back_inserter(medians), median);
  return medians;
}

/// Forward and backward through a layer and the activation that follows it, as in a block.
void print_layer(std::int64_t batch, std::int64_t channels, std::int64_t side, int rounds) {
  const auto options = at::MemoryFormat::ChannelsLast;
  at::Tensor x = at::randn({batch, channels, side, side}).contiguous(options);
  const at::Tensor g = at::randn({batch, channels, side, side}).contiguous(options);
  x.set_requires_grad(true);
  std::vector<std::shared_ptr<eqt::model::Normalization>> layers;
  for (const Entry<NormalizationRow> kind : kinds())
    layers.push_back(eqt::model::make_normalization({kind}, channels));
  const auto seconds = seconds_of(rounds, [&](std::size_t k) {
    x.mutable_grad() = at::Tensor();
    layers[k]->relu(x).backward(g);
  });
  for (std::size_t k = 0; k < kinds().size(); ++k) {
    fmt::print("layer {:>3} x {:>2} x {:>2}  {:16} {:8.3f} ms   x {:.2f}\n", channels, side, side,
               name_of(k), 1e3 * seconds[k], seconds[k] / seconds[0]);
  }
}

void print_network(const std::string& model, std::size_t batch_size, int rounds) {
  const auto batch = eqt::model::random_batch(batch_size, {3, 32, 32});
  std::vector<std::unique_ptr<eqt::model::Replica>> replicas;
  for (const Entry<NormalizationRow> kind : kinds()) {
    replicas.push_back(eqt::model::make_replica({.model = eqt::model::ModelRow::all().at(model),
                                                 .inputs = {batch.inputs[0].spec},
                                                 .normalization = kind}));
  }
  const auto seconds =
      seconds_of(rounds, [&](std::size_t k) { replicas[k]->forward_backward(batch, {}); });
  for (std::size_t k = 0; k < kinds().size(); ++k) {
    fmt::print("{} batch {}  {:16} {:8.1f} images/s   x {:.2f}\n", model, batch_size, name_of(k),
               static_cast<double>(batch_size) / seconds[k], seconds[k] / seconds[0]);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string model = argc > 1 ? argv[1] : "resnet20";
  const int batch = argument(argc, argv, 2, 64);
  const int rounds = argument(argc, argv, 3, 9);
  eqt::model::set_threads(1);
  print_layer(batch, 16, 32, 4 * rounds);
  print_layer(batch, 32, 16, 4 * rounds);
  print_layer(batch, 64, 8, 4 * rounds);
  print_network(model, static_cast<std::size_t>(batch), rounds);
} catch (const eqt::Error& error) {
  fmt::print(stderr, "{}: {}\n", eqt::kind_name(error.kind()), error.what());
  return error.exit_code();
}
