// SPDX-License-Identifier: Apache-2.0
// Writes a network as TorchScript.
//
// Format   TorchScript archives: LibTorch, torch/csrc/jit/serialization; read in Python by
//          torch.jit.load(path)
// Tracing  the modules' tree is repeated as TorchScript modules that own the same tensors under the
//          same names; LibTorch records the operations of a forward pass in evaluation mode

#include "model/export.hpp"

#include <ATen/Functions.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"
#include "data/text/text_input.hpp"
#include "metrics/output_file.hpp"
#include "model/torch/network.hpp"
#include "model/torch/torch_errors.hpp"

namespace eqt::model {
namespace {

/// The order of additions may change outputs by this share of the largest one, or of 1 if all are
/// smaller.
constexpr double kTraceTolerance = 1e-3;

torch::jit::Module empty_module(const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
  torch::jit::Module module(c10::QualifiedName("__torch__.equant_train.Module"), unit,
                            /*shouldMangle=*/true);
  module.register_attribute("training", c10::BoolType::get(), false);
  return module;
}

/// Registers a tensor under its path, "layer1.0.conv1.weight".
void add_tensor(torch::jit::Module module, const std::shared_ptr<torch::jit::CompilationUnit>& unit,
                std::string_view path, const at::Tensor& tensor, bool is_buffer) {
  for (std::size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.')) {
    const std::string part(path.substr(0, dot));
    if (!module.hasattr(part)) module.register_module(part, empty_module(unit));
    module = module.attr(part).toModule();
    path.remove_prefix(dot + 1);
  }
  if (is_buffer)
    module.register_buffer(std::string(path), tensor);
  else
    module.register_parameter(std::string(path), tensor, false);
}

/// `n` samples that differ from place to place; texts are shorter for an even `n`, and the last one
/// lacks its last token.
at::Tensor example_of(const data::ArraySpec& spec, std::int64_t n) {
  std::vector<std::int64_t> sizes = {n};
  for (const std::int64_t side : spec.shape) {
    const std::int64_t length =
        std::max<std::int64_t>(1, n % 2 == 0 ? spec.longest / 2 : spec.longest);
    sizes.push_back(side >= 0 ? side : length);
  }
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  if (spec.type == data::ElementType::float32) {
    const at::Tensor values = (at::arange(count, at::kFloat) * 0.37).sin().view(sizes);
    return data::image_shape(spec) ? values.permute({0, 3, 1, 2}).contiguous() : values;
  }
  // Values start at 1, because 0 stands for padding.
  const std::int64_t most = std::max<std::int64_t>(1, spec.bound - 1);
  at::Tensor values = (at::arange(count, at::kLong).remainder(most) + 1).view(sizes);
  if (spec.name == data::kMask) values.select(0, n - 1).narrow(0, sizes[1] - 1, 1).zero_();
  return spec.type == data::ElementType::int64 ? values : values.to(at::kByte);
}

std::vector<at::IValue> examples_of(const ScriptRequest& request, std::int64_t n) {
  std::vector<at::IValue> examples;
  for (const data::ArraySpec& spec : request.inputs) examples.emplace_back(example_of(spec, n));
  return examples;
}

at::Tensor run(Network& network, const ScriptRequest& request,
               const std::vector<at::IValue>& arguments) {
  NetworkInput input;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const data::ArraySpec& spec = request.inputs[i];
    const at::Tensor array = arguments[i].toTensor();
    input.arrays.emplace_back(spec.name,
                              data::image_shape(spec) ? framed(array, request.frame) : array);
  }
  return network.forward(input);
}

[[noreturn]] void refuse_trace(const std::string& reason) {
  fail(Kind::data,
       "expected a network that LibTorch can trace, but {}; export it as safetensors or state-dict",
       reason);
}

/// Another number of samples than was traced must give what the network itself gives.
void require_same_outputs(Network& network, const ScriptRequest& request,
                          const std::string& archive) {
  std::istringstream file(archive);
  torch::jit::Module module = torch::jit::load(file, at::kCPU);
  const std::vector<at::IValue> arguments = examples_of(request, 3);
  const at::Tensor own = run(network, request, arguments).to(at::kDouble);
  const at::Tensor traced = module.forward(arguments).toTensor().to(at::kDouble);
  if (own.sizes() != traced.sizes()) refuse_trace("its outputs have another shape when traced");
  const double difference = (own - traced).abs().max().item<double>();
  const double largest = own.abs().max().item<double>();
  if (difference <= kTraceTolerance * std::max(1.0, largest)) return;
  refuse_trace(fmt::format("its outputs differ by {:.3g} when traced, the largest is {:.3g}",
                           difference, largest));
}

/// The network's operations as the method "forward" of `module`, which owns its tensors.
void trace_into(torch::jit::Module& module, Network& network, const ScriptRequest& request) {
  std::vector<std::string> names;
  for (const data::ArraySpec& spec : request.inputs) names.push_back(spec.name);
  const auto traced = torch::jit::tracer::trace(
      examples_of(request, 2),
      [&](const torch::jit::Stack& inputs) {
        return torch::jit::Stack{run(network, request, inputs)};
      },
      [](const at::Tensor&) { return std::string(); }, /*strict=*/true, /*force_outplace=*/false,
      &module, names);
  const c10::QualifiedName name(*module.type()->name(), "forward");
  const auto unit = module._ivalue()->compilation_unit();
  module.type()->addMethod(unit->create_function(name, traced.first->graph));
}

}  // namespace

at::Tensor framed(const at::Tensor& images, const Frame& frame) {
  if (frame == Frame{}) return images;
  return at::constant_pad_nd(images, {frame.left, frame.right, frame.top, frame.bottom});
}

std::string Network::torchscript(const ScriptRequest& request) {
  const at::NoGradGuard no_grad;
  eval();
  const auto unit = std::make_shared<torch::jit::CompilationUnit>();
  torch::jit::Module module = empty_module(unit);
  for (const auto& [name, tensor] : parameters_by_name())
    add_tensor(module, unit, name, tensor, false);
  for (const auto& [name, tensor] : buffers_by_name()) add_tensor(module, unit, name, tensor, true);
  try {
    trace_into(module, *this, request);
    std::ostringstream archive;
    module.save(archive, request.files);
    require_same_outputs(*this, request, archive.str());
    return archive.str();
  } catch (const c10::Error& error) {
    refuse_without_memory(error.what_without_backtrace());
    refuse_trace("it says: " + sentence_of(error));
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // of the interpreter, while the outputs are compared
    refuse_trace("it says: " + sentence_of(error.what()));
  }
}

void export_network(const ModelOptions& options, const Export& request) {
  if (request.format != ExportFormat::torchscript)
    return export_without_torch(*make_replica(options), options, request);
  const auto pack = [&] {
    const std::shared_ptr<Network> network = make_network(options);
    NamedTensors state = network->parameters_by_name();
    for (auto& [name, tensor] : network->buffers_by_name())
      if (file_type(tensor.scalar_type())) state.emplace_back(name, tensor);
    const std::vector<TiedName> tied = network->tied_names();
    read_weights(request.weights, with_tied(std::move(state), tied), tied);
    const auto images = data::image_shape(options.inputs);
    return network->torchscript(
        {.inputs = options.inputs,
         .frame = images ? frame_of(*options.model, *images) : Frame{},
         .files = {{std::string(kPreprocessingFile), request.preprocessing}}});
  };
  const std::string bytes =
      options.model->users_own
          ? guarded("being exported", pack, Kind::data, "the network of model.path " + options.path)
          : guarded("exporting a network", pack);
  metrics::write_atomically(request.out, bytes);
}

}  // namespace eqt::model
