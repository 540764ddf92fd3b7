// SPDX-License-Identifier: Apache-2.0
// A network of the user's own, as torch.jit.script or torch.jit.trace save it.
//
// Format   TorchScript archives: LibTorch, torch/csrc/jit/serialization; written in Python by
//          torch.jit.script(net).save(path) or torch.jit.trace(net, example).save(path)

#include <ATen/Context.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/version.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "model/torch/network.hpp"
#include "model/torch/script_module.hpp"
#include "model/torch/torch_errors.hpp"
#include "weights/script_archive.hpp"

namespace eqt::model {
namespace {

[[noreturn]] void refuse_file(const std::string& path, const std::string& reason) {
  weights::refuse_script(path, reason);
}

/// LibTorch believes its reader's bytes, and runs whatever the module has: both are checked first.
torch::jit::Module load_checked(const ModelOptions& options) {
  const auto bytes = std::as_bytes(std::span(*options.script));
  std::istringstream file(weights::checked_script(bytes, options.path));
  torch::jit::Module module = torch::jit::load(file, at::kCPU);
  require_computing_only(module, options.path);
  move_prints_of_modules();
  return module;
}

/// Operators that networks often have, and the first PyTorch that has each.
struct NewOperator {
  std::string_view name, since;
};
constexpr NewOperator kNewOperators[] = {{"aten::scaled_dot_product_attention", "2.0"},
                                         {"aten::rms_norm", "2.4"}};

/// "which that version does not have", and since when there is one, if that is known.
std::string lacking(std::string_view name) {
  const auto known = std::ranges::find(kNewOperators, name, &NewOperator::name);
  if (known == std::end(kNewOperators)) return "which that version does not have";
  return fmt::format("which PyTorch has since {}", known->since);
}

/// The first number behind `word`; empty if there is none.
std::string number_behind(const std::string& text, std::string_view word) {
  constexpr const char* kDigits = "0123456789";
  const std::size_t at = text.find(word);
  const std::size_t begin = at == std::string::npos ? at : text.find_first_of(kDigits, at);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_first_not_of(kDigits, begin) - begin);
}

/// Throws if what LibTorch says means that the file comes from another version of it.
void refuse_other_version(const std::string& path, const std::string& text) {
  const auto refuse = [&](const std::string& found, const char* saved_by, const char* or_with) {
    fail(Kind::data,
         "expected a TorchScript module for LibTorch {0} in model.path {1}, found {2}: {3} saved "
         "it; save it with PyTorch {0}{4}, or build equant-train with that PyTorch's LibTorch "
         "(1.13 to 2.x, by CMAKE_PREFIX_PATH)",
         TORCH_VERSION, path, found, saved_by, or_with);
  };
  constexpr const char* kNewer = "a newer PyTorch";
  constexpr const char* kPlainly = " or with plain operators in its place";
  constexpr std::string_view kUnknown = "Unknown builtin op: ";
  if (const std::size_t at = text.find(kUnknown); at != std::string::npos) {
    const std::size_t begin = at + kUnknown.size();
    const std::string name = text.substr(begin, text.find_first_of(". \n", begin) - begin);
    if (!name.starts_with("aten::") && !name.starts_with("prim::"))
      refuse_file(path, fmt::format("it calls {}, an operator of a library that this program does "
                                    "not have",
                                    name));
    refuse(fmt::format("the operator {}, {}", name, lacking(name)), kNewer, kPlainly);
  }
  const std::size_t call = text.find("Arguments for call are not valid");
  if (const std::size_t at = text.find("aten::", call); at != std::string::npos) {
    const std::string name = text.substr(at, text.find_first_of("( \n", at) - at);
    refuse(fmt::format("a call of {} with arguments that it does not take there", name), kNewer,
           kPlainly);
  }
  constexpr std::string_view kMost = "maximum supported version for reading";
  constexpr std::string_view kLeast = "minimum supported version for reading";
  const std::string format = number_behind(text, "file with version");
  if (text.find(kMost) != std::string::npos)
    refuse(fmt::format("a later format of the file, {} instead of at most {}", format,
                       number_behind(text, kMost)),
           kNewer, "");
  if (text.find(kLeast) != std::string::npos)
    refuse(fmt::format("an earlier format of the file, {} instead of at least {}", format,
                       number_behind(text, kLeast)),
           "an older PyTorch", "");
}

/// @param text what LibTorch says while it loads the file
[[noreturn]] void refuse_unreadable(const std::string& path, const std::string& text) {
  refuse_without_memory(text);
  refuse_other_version(path, text);
  refuse_file(path, "LibTorch cannot read it: " + sentence_of(text));
}

bool reads_training(at::ArrayRef<const torch::jit::Block*> blocks) {
  return std::ranges::any_of(blocks, [](const torch::jit::Block* block) {
    return std::ranges::any_of(block->nodes(), [](const torch::jit::Node* node) {
      const bool reads =
          node->kind() == c10::prim::GetAttr && node->s(c10::attr::name) == "training";
      return reads || reads_training(node->blocks());
    });
  });
}

/// Says whether a module normalizes by running statistics in evaluation mode, and has parameters of
/// which none is trained. The training mode of a traced module is a constant.
bool is_frozen_norm(const torch::jit::Module& module) {
  const auto method = module.find_method("forward");
  if (!module.hasattr("running_mean") || !module.hasattr("running_var") || !method) return false;
  std::size_t parameters = 0;
  for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) {
    if (parameter.requires_grad()) return false;
    ++parameters;
  }
  const torch::jit::Block* const block = method->graph()->block();
  return parameters > 0 && reads_training(block);
}

class ScriptNetwork final : public Network {
 public:
  ScriptNetwork(torch::jit::Module module, std::string path)
      : module_(std::move(module)), path_(std::move(path)), state_(module_) {
    require_trainable();
  }

  NamedTensors parameters_by_name() const override { return state_.parameters(); }
  NamedTensors buffers_by_name() const override { return state_.buffers(); }
  std::vector<TiedName> tied_names() const override { return state_.tied_names(); }
  void place_constants(at::Device device) override {
    for (const auto& [name, tensor] : state_.buffers())
      if (tensor.scalar_type() != at::kFloat && tensor.device() != device)
        at::Tensor(tensor).set_data(tensor.to(device));
  }
  void finish_batch() override { state_.copy_assigned(); }
  void keep_state() override { state_.keep(); }
  void put_back_state() override { state_.put_back(); }
  Kind blame() const override { return Kind::data; }

  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    if (const auto changed = state_.changed_attributes(); !changed.empty())
      notes.push_back(fmt::format(
          "{} changes its own {} while it computes: no tensor, so each rank has another one, and "
          "checkpoints and model.pt do not keep it; a buffer (register_buffer) would be kept",
          title(), fmt::join(changed, ", ")));
    for (const auto& [name, tensor] : state_.buffers())
      if (!file_type(tensor.scalar_type()))
        notes.push_back(
            fmt::format("{}: its buffer {} of type {} is not in model.pt, which has no such type",
                        title(), name, c10::toString(tensor.scalar_type())));
    return notes;
  }
  /// A state dict of Python's lacks buffers that are not persistent, which TorchScript forgets.
  /// They keep the module's values.
  weights::FileNames file_names() const override {
    return {.optional = [this](std::string_view name) {
      return std::ranges::any_of(state_.buffers(),
                                 [&](const auto& item) { return item.first == name; });
    }};
  }
  void train(bool on) override {
    module_.train(on);
    for (torch::jit::Module& norm : frozen_norms_) norm.eval();
  }
  std::vector<std::string> keep_statistics() override {
    std::vector<std::string> paths;
    for (const auto& [path, module] : module_.named_modules()) {
      if (!is_frozen_norm(module)) continue;
      frozen_norms_.push_back(module);
      paths.push_back(path);
    }
    return paths;
  }
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
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const c10::Error& error) {
      refuse(input, error.what_without_backtrace());
    } catch (const std::exception& error) {  // raised by the module's own code
      refuse(input, error.what());
    }
  }

  [[noreturn]] void refuse(const NetworkInput& input, const std::string& text) const {
    refuse_without_memory(text);
    refuse_other_version(path_, text);
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
    std::unordered_map<const void*, std::string> owners;  // of memory
    for (const auto& [name, tensor] : parameters) {
      if (tensor.scalar_type() != at::kFloat)
        refuse_file(path_, fmt::format("its parameter {} is of type {} instead of float32", name,
                                       c10::toString(tensor.scalar_type())));
      if (tensor.storage_offset() != 0 ||
          tensor.storage().nbytes() != static_cast<std::size_t>(tensor.numel()) * sizeof(float))
        refuse_file(path_, "its parameter " + name + " is a part of another tensor");
      const auto [other, is_new] = owners.emplace(tensor.storage().data(), name);
      if (!is_new && tensor.numel() > 0)
        refuse_file(path_, fmt::format("its parameters {} and {} are one memory in two shapes",
                                       other->second, name));
    }
    for (const auto& [name, tensor] : buffers_by_name())
      if (tensor.layout() != at::kStrided || tensor.is_quantized() || !tensor.device().is_cpu())
        refuse_file(path_, fmt::format("its buffer {} is no plain tensor, but {}", name,
                                       tensor.toString()));
  }

  torch::jit::Module module_;
  const std::string path_;
  ScriptState state_;
  std::vector<torch::jit::Module> frozen_norms_;  // in evaluation mode for good
};

}  // namespace

std::shared_ptr<Network> make_torchscript(const ModelOptions& options) {
  EQT_CHECK(options.script != nullptr, "a TorchScript network without its file's bytes");
  // The profiling executor changes its plan, and with it the last bits, after the first runs.
  torch::jit::setGraphExecutorOptimize(false);
  try {
    return std::make_shared<ScriptNetwork>(load_checked(options), options.path);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::Error& error) {
    refuse_unreadable(options.path, error.what_without_backtrace());
  } catch (const std::exception& error) {  // such as torch::jit::ErrorReport
    refuse_unreadable(options.path, error.what());
  }
}

}  // namespace eqt::model
