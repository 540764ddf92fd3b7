// SPDX-License-Identifier: Apache-2.0
// The C++ side of network_reference.py.
//
// network_tool MODEL SIDE CLASSES WIDTH WEIGHTS PICTURES OUT   reads weights, and pictures as
//                                       float32 (n, h, w, 3). Writes to OUT as float32: logits in
//                                       evaluation mode, then those in training mode and the
//                                       gradient of their mean cross entropy with label i mod
//                                       CLASSES. Prints the name and the shape of each parameter,
//                                       in the gradient's order. Nothing is dropped.

#include <ATen/Functions.h>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "model/replica.hpp"
#include "model/torch/network.hpp"
#include "support/pictures.hpp"

namespace {

using namespace eqt::model;

std::vector<float> read_floats(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

void write(std::ofstream& out, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().contiguous();
  out.write(static_cast<const char*>(values.data_ptr()),
            static_cast<std::streamsize>(values.nbytes()));
}

void drop_nothing(Network& network) {
  for (const auto& module : network.modules())
    if (auto* const dropout = dynamic_cast<DropoutImpl*>(module.get())) dropout->eval();
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 8) eqt::fail(eqt::Kind::usage, "expected 7 arguments, found {}", argc - 1);
  set_threads(1);
  const int side = std::stoi(argv[2]), classes = std::stoi(argv[3]);
  const ModelOptions options = {.model = ModelRow::all().at(argv[1]),
                                .inputs = eqt::test::pictures({3, side, side}),
                                .outputs = classes,
                                .width = std::stod(argv[4])};
  const auto network = make_network(options);
  const NamedTensors parameters = network->parameters_by_name();
  NamedTensors all = parameters;
  for (const auto& buffer : network->buffers_by_name()) all.push_back(buffer);
  read_weights(argv[5], all, {}, network->file_names());

  std::vector<float> values = read_floats(argv[6]);
  const std::int64_t count = std::ssize(values) / (std::int64_t{3} * side * side);
  const at::Tensor pictures =
      at::from_blob(values.data(), {count, side, side, 3}).permute({0, 3, 1, 2});
  const NetworkInput input{.arrays = {{std::string(eqt::data::kImages), pictures}}, .targets = {}};
  std::ofstream out(argv[7], std::ios::binary);
  {
    const at::NoGradGuard no_grad;
    network->eval();
    write(out, network->forward(input));
  }
  network->train();
  drop_nothing(*network);
  const at::Tensor logits = network->forward(input);
  at::cross_entropy_loss(logits, at::arange(logits.size(0)).remainder(classes)).backward();
  write(out, logits);
  for (const auto& [name, tensor] : parameters) {
    fmt::print("{} {}\n", name, fmt::join(tensor.sizes(), ","));
    write(out, tensor.grad());
  }
} catch (const eqt::Error& error) {
  fmt::print(stderr, "{}: {}\n", eqt::kind_name(error.kind()), error.what());
  return error.exit_code();
}
