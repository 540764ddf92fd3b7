// SPDX-License-Identifier: Apache-2.0
// The C++ side of encoder_reference.py.
//
// encoder_tool CONFIG WEIGHTS BATCH HEAD OUT   reads a config.json, a file of weights and a batch:
//                                              the numbers of texts, of tokens of each and of
//                                              outputs, then tokens, mask and targets, separated by
//                                              spaces. HEAD is classes or next_token. Writes logits
//                                              and, behind them, the gradient of the mean cross
//                                              entropy to OUT as float32; prints the parameters'
//                                              names in the gradient's order. Nothing is dropped.

#include <ATen/Functions.h>
#include <fmt/core.h>

#include <fstream>
#include <sstream>
#include <string>

#include "core/error.hpp"
#include "model/replica.hpp"
#include "model/torch/bert.hpp"

namespace {

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

at::Tensor numbers(std::istream& in, at::IntArrayRef sizes) {
  at::Tensor tensor = at::empty(sizes, at::kLong);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) in >> tensor.data_ptr<std::int64_t>()[i];
  return tensor;
}

void write(std::ofstream& out, const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach().contiguous();
  out.write(static_cast<const char*>(values.data_ptr()),
            static_cast<std::streamsize>(values.nbytes()));
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace eqt::model;
  if (argc != 6) eqt::fail(eqt::Kind::usage, "expected 5 arguments, found {}", argc - 1);
  set_threads(1);
  const EncoderHead head =
      std::string(argv[4]) == "classes" ? EncoderHead::classes : EncoderHead::next_token;
  std::ifstream batch(argv[3]);
  std::int64_t texts = 0, length = 0, outputs = 0;
  batch >> texts >> length >> outputs;
  Encoder encoder(parse_encoder_config(read(argv[1]), argv[1]), head, outputs, 1);
  const NamedTensors parameters = encoder.parameters_by_name();
  read_weights(argv[2], parameters, {}, encoder.file_names());
  const at::Tensor tokens = numbers(batch, {texts, length});
  const at::Tensor mask = numbers(batch, {texts, length});
  const bool classes = head == EncoderHead::classes;
  const at::Tensor targets = classes ? numbers(batch, {texts}) : numbers(batch, {texts * length});

  encoder.eval();
  const at::Tensor logits = encoder.logits(tokens, mask);
  at::cross_entropy_loss(logits.reshape({-1, outputs}), targets).backward();
  std::ofstream out(argv[5], std::ios::binary);
  write(out, logits);
  for (const auto& [name, tensor] : parameters) {
    fmt::print("{}\n", name);
    write(out, tensor.grad().defined() ? tensor.grad() : at::zeros_like(tensor));
  }
} catch (const eqt::Error& error) {
  fmt::print(stderr, "{}: {}\n", eqt::kind_name(error.kind()), error.what());
  return error.exit_code();
}
