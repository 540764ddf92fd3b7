// SPDX-License-Identifier: Apache-2.0
// A network of the user's own, as torch.jit.script or torch.jit.trace save it.
//
// Format   TorchScript archives: LibTorch, torch/csrc/jit/serialization; written in Python by
//          torch.jit.script(net).save(path) or torch.jit.trace(net, example).save(path)

#include <ATen/Context.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "model/torch/network.hpp"
#include "model/torch/torch_errors.hpp"

namespace eqt::model {
namespace {

[[noreturn]] void refuse_file(const std::string& path, const std::string& reason) {
  fail(Kind::data,
       "expected a TorchScript module in model.path {}, but {}; in Python, write it with "
       "torch.jit.script(net).save(path) or torch.jit.trace(net, example).save(path)",
       path, reason);
}

class ScriptNetwork final : public Network {
 public:
  ScriptNetwork(torch::jit::Module module, std::string path)
      : module_(std::move(module)), path_(std::move(path)) {
    require_trainable();
  }

  NamedTensors parameters_by_name() const override {
    NamedTensors all;
    std::unordered_set<const at::TensorImpl*> seen;  // modules may share a parameter
    for (const auto& item : module_.named_parameters())
      if (seen.insert(item.value.unsafeGetTensorImpl()).second)
        all.emplace_back(item.name, item.value);
    return all;
  }
  NamedTensors buffers_by_name() const override {
    NamedTensors all;
    for (const auto& item : module_.named_buffers()) all.emplace_back(item.name, item.value);
    return all;
  }
  void train(bool on) override { module_.train(on); }
  void draw_from(const RandomKey& key) override {
    // The module's own operations draw from LibTorch's default generator.
    const RandomStream stream(key);
    at::Generator generator = at::globalContext().defaultGenerator(device());
    generator.set_current_seed(std::uint64_t{stream.bits(0)} << 32 | stream.bits(1));
  }

  std::string torchscript(const ScriptRequest& request) override {
    std::ostringstream archive;
    module_.eval();
    module_.save(archive, request.files);
    return archive.str();
  }

  std::string title() const override { return "the network of model.path " + path_; }

  /// The module's arguments are the arrays in the data set's order and then, if it computes its own
  /// loss, the targets. Of a tuple the first member counts.
  at::Tensor forward(const NetworkInput& input) override {
    at::IValue output = run(input);
    if (output.isTuple() && output.toTuple()->elements().size() > 0)
      output = output.toTuple()->elements()[0];
    if (output.isTensor()) return output.toTensor();
    fail(Kind::data, "expected {} to return a tensor, found {}; return the logits alone", title(),
         output.tagKind());
  }

 private:
  at::Device device() const { return parameters_by_name().front().second.device(); }

  at::IValue run(const NetworkInput& input) {
    std::vector<at::IValue> arguments;
    for (const auto& array : input.arrays) arguments.emplace_back(array.second);
    if (input.targets.defined()) arguments.emplace_back(input.targets);
    try {
      return module_.forward(arguments);
    } catch (const c10::Error& error) {
      refuse(input, error.what_without_backtrace());
    } catch (const std::exception& error) {  // raised by the module's own code
      refuse(input, error.what());
    }
  }

  [[noreturn]] void refuse(const NetworkInput& input, const std::string& text) const {
    refuse_without_memory(text);
    fail(Kind::data, "{} failed on {}: {}", title(), shapes_text(input), sentence_of(text));
  }

  /// "images of shape [1, 1, 4, 5]".
  static std::string shapes_text(const NetworkInput& input) {
    std::string text;
    for (const auto& [name, tensor] : input.arrays)
      text +=
          fmt::format("{}{} of shape {}", text.empty() ? "" : ", ", name, c10::str(tensor.sizes()));
    return text;
  }

  void require_trainable() const {
    const NamedTensors parameters = parameters_by_name();
    if (parameters.empty())
      refuse_file(path_, "it has no parameters; a frozen module (torch.jit.freeze) has none");
    for (const auto& [name, tensor] : parameters) {
      if (tensor.scalar_type() != at::kFloat)
        refuse_file(path_, fmt::format("its parameter {} is of type {} instead of float32", name,
                                       c10::toString(tensor.scalar_type())));
      if (tensor.storage_offset() != 0 ||
          tensor.storage().nbytes() != static_cast<std::size_t>(tensor.numel()) * sizeof(float))
        refuse_file(path_, "its parameter " + name + " is a part of another tensor");
    }
    for (const auto& [name, tensor] : buffers_by_name()) {
      const bool counts = tensor.scalar_type() == at::kLong && tensor.numel() == 1;
      if (tensor.scalar_type() != at::kFloat && !counts)
        refuse_file(path_, fmt::format("its buffer {} is of type {} instead of float32 or a single "
                                       "int64",
                                       name, c10::toString(tensor.scalar_type())));
    }
  }

  torch::jit::Module module_;
  const std::string path_;
};

}  // namespace

std::shared_ptr<Network> make_torchscript(const ModelOptions& options) {
  EQT_CHECK(options.script != nullptr, "a TorchScript network without its file's bytes");
  // The profiling executor changes its plan, and with it the last bits, after the first runs.
  torch::jit::setGraphExecutorOptimize(false);
  try {
    std::istringstream file(*options.script);
    return std::make_shared<ScriptNetwork>(torch::jit::load(file, at::kCPU), options.path);
  } catch (const c10::Error& error) {
    refuse_without_memory(error.what_without_backtrace());
    refuse_file(options.path, "LibTorch cannot read it: " + sentence_of(error));
  }
}

}  // namespace eqt::model
