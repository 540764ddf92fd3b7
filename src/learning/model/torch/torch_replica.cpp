// SPDX-License-Identifier: Apache-2.0
// The Replica of any Network, which network the options of one name, and the memory of its steps.

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/version.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "core/pattern.hpp"
#include "core/random.hpp"
#include "metrics/output_file.hpp"
#include "model/arithmetic.hpp"
#include "model/model_options.hpp"
#include "model/own/own_replica.hpp"
#include "model/replica.hpp"
#include "model/torch/backward.hpp"
#include "model/torch/mirror.hpp"
#include "model/torch/network.hpp"
#include "model/torch/normalization.hpp"
#include "model/torch/task_loss.hpp"
#include "model/torch/torch_errors.hpp"
#include "model/torch/weights.hpp"
#include "weights/safetensors.hpp"

namespace eqt::model {
namespace {

/// A tensor on the array's own memory, which is only read: LibTorch has no view of constant memory.
at::Tensor view_of(const data::Array& array) {
  return std::visit(
      [&](const auto& values) {
        EQT_CHECK(std::ssize(values) == c10::multiply_integers(array.shape),
                  "{} values of {} in a batch of {}", values.size(), array.spec.name, array.size());
        using Value = typename std::decay_t<decltype(values)>::value_type;
        return at::from_blob(const_cast<Value*>(values.data()), array.shape,
                             c10::CppTypeToScalarType<Value>::value);
      },
      array.values);
}

/// Lays out tensors one after another.
Layout lay_out(const NamedTensors& tensors) {
  Layout layout;
  for (const auto& [name, tensor] : tensors) {
    layout.push_back({name, tensor.sizes().vec(), total_count(layout),
                      static_cast<std::size_t>(tensor.numel())});
  }
  return layout;
}

/// Copies the tensors' values into the buffer and makes the tensors views of it.
void move_into(const MirroredValues& values, const Layout& layout, const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    at::Tensor tensor = tensors[i].second;
    values.host_view(layout[i], tensor).copy_(tensor);
    tensor.set_data(values.view(layout[i], tensor));
  }
}

NamedTensors of_type(const NamedTensors& tensors, at::ScalarType type) {
  NamedTensors chosen;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(chosen),
               [&](const auto& item) { return item.second.scalar_type() == type; });
  return chosen;
}

/// While it lives, this thread's operations round their operands to bf16 where LibTorch's autocast
/// for processors lists them: convolutions, linear layers and matrix products. A weight is rounded
/// once.
class Autocast {
 public:
  Autocast() { enable(true); }
  ~Autocast() {
    enable(false);
    at::autocast::clear_cache();
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  static void enable(bool enabled) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
#else
    at::autocast::set_autocast_cpu_dtype(at::kBFloat16);
    at::autocast::set_cpu_enabled(enabled);
#endif
  }
};

/// While it lives, this thread computes on the device.
class OnDevice {
 public:
  explicit OnDevice(const Placement& placement) {
    if (placement.cuda) guard_.reset_device(device_of(placement));
  }

 private:
  c10::OptionalDeviceGuard guard_;
};

/// A ReplicaInput says what the network is given, and for what.
struct ReplicaInput {
  std::vector<data::ArraySpec> inputs;    // of the batches
  std::optional<data::ArraySpec> target;  // likewise
  Frame frame = {};                       // around each picture
  TaskOptions task = {};
  int outputs = 0;
  std::vector<std::string> freeze = {};  // patterns of parameters that are not trained
  FrozenNorms frozen_norms = FrozenNorms::batch;
  std::uint64_t seed = 1;  // of random numbers during training
  Rank rank = 0;           // ranks draw independently
  Precision precision = Precision::fp32;
  /// Operations of LibTorch compute in bf16 where its autocast says so, for networks whose
  /// convolutions are not ConvolutionImpl.
  bool casts = false;
  Placement placement = {};
};

struct SplitParameters {
  NamedTensors trained, frozen;
};

/// Frozen are those of which a name matches a pattern and those that require no gradient; from now
/// on none of them does.
/// @throws Error{usage} for a pattern that matches none, and if none is left to train
SplitParameters split_parameters(const NamedTensors& parameters, std::span<const TiedName> tied,
                                 std::span<const std::string> patterns) {
  const NamedTensors all = with_tied(parameters, tied);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : all) names.push_back(name);
  const std::vector<bool> is_frozen = frozen_parameters(names, patterns);
  std::unordered_set<const at::TensorImpl*> matched;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_frozen[i]) matched.insert(all[i].second.unsafeGetTensorImpl());
  SplitParameters split;
  for (const auto& [name, tensor] : parameters) {
    if (!matched.contains(tensor.unsafeGetTensorImpl()) && tensor.requires_grad()) {
      split.trained.emplace_back(name, tensor);
      continue;
    }
    at::Tensor handle = tensor;
    handle.set_requires_grad(false);
    split.frozen.emplace_back(name, tensor);
  }
  check_trains(split.trained.size(), parameters.size());
  return split;
}

class TorchReplica final : public Replica {
 public:
  TorchReplica(std::shared_ptr<Network> network, const ReplicaInput& input)
      : network_(std::move(network)),
        input_(input),
        loss_(make_task_loss(input.task, input.outputs)),
        all_parameters_(network_->parameters_by_name()),
        tied_names_(network_->tied_names()),
        split_(split_parameters(all_parameters_, tied_names_, input.freeze)),
        parameter_tensors_(split_.trained),
        buffer_tensors_(network_->buffers_by_name()),
        layout_(lay_out(parameter_tensors_)),
        buffer_layout_(lay_out(of_type(buffer_tensors_, at::kFloat))),
        parameters_(total_count(layout_), input.placement),
        gradient_(total_count(layout_), input.placement),
        buffers_(total_count(buffer_layout_), input.placement),
        frozen_layout_(lay_out(split_.frozen)),
        frozen_(total_count(frozen_layout_), input.placement) {
    move_into(parameters_, layout_, parameter_tensors_);
    move_into(frozen_, frozen_layout_, split_.frozen);
    move_into(buffers_, buffer_layout_, of_type(buffer_tensors_, at::kFloat));
    for (const auto& [name, tensor] : buffer_tensors_)
      if (tensor.scalar_type() != at::kFloat) other_buffers_.emplace_back(name, tensor);
    if (input_.frozen_norms == FrozenNorms::running) keep_statistics();
    backward_.emplace(parameter_tensors_, gradient_, layout_, input_.placement);
  }

  const Layout& layout() const override { return layout_; }
  std::span<float> parameters() override { return parameters_.host(); }
  std::span<float> gradient() override { return gradient_.host(); }
  FlatBuffer* gradient_memory() override { return gradient_.pageable(); }
  const float* device_gradient() override { return gradient_.on_device(); }
  void leave_gradient_on_device(bool leave) override { backward_->leave_on_device(leave); }
  std::span<float> buffers() override { return buffers_.host(); }
  std::span<float> frozen() override {
    frozen_changed_ = true;
    return frozen_.host();
  }

  void keep_constants(std::span<float> mean) override {
    for (const TensorSlice& slice : constants_)
      std::ranges::copy(buffers().subspan(slice.offset, slice.count),
                        mean.subspan(slice.offset).begin());
  }

  double forward_backward(const data::Batch& batch, const SliceReady& on_ready) override {
    const OnDevice on_device(input_.placement);
    const at::Tensor loss = guarded_by_blame("computing a gradient", [&] {
      upload();
      network_->train();
      const RandomKey key = make_key(
          input_.seed, batches_++, static_cast<std::uint32_t>(input_.rank), RandomPurpose::dropout);
      network_->draw_from(key);
      backward_->start();
      const at::Tensor targets = targets_of(batch);
      at::Tensor mean = input_.task.mixup > 0
                            ? mixed_loss(batch, targets, key)
                            : loss_->loss(output_for(input_of(batch), targets), targets);
      backward_->run(mean, on_ready);
      network_->finish_batch();
      buffers_.download();
      return mean;
    });
    backward_->finish();
    return guarded_by_blame("computing a gradient",
                            [&] { return loss.item<double>(); });  // waits for what is queued
  }

  Evaluation evaluate(const data::Batch& batch) override {
    return in_evaluation_mode("evaluating", [&] {
      const at::Tensor targets = targets_of(batch);
      return loss_->evaluate(output_for(input_of(batch), targets), targets, batch.size());
    });
  }

  void predict(const data::Batch& batch, data::Array& out) override {
    if (input_.task.kind->own_loss)
      fail(Kind::usage,
           "task.kind \"{}\": expected a network that returns what it has found, but of this one "
           "only the loss is known; train it with another task",
           input_.task.kind->name);
    const at::Tensor output = in_evaluation_mode(
        "predicting", [&] { return run(input_of(batch)).to(at::kFloat).cpu().contiguous(); });
    const data::ArraySpec spec = {.name = "output", .shape = output.sizes().slice(1).vec()};
    const auto values = out.prepare<float>(spec, batch.size());
    EQT_CHECK(std::ssize(values) == output.numel(), "{} values of {} samples", output.numel(),
              batch.size());
    std::copy_n(output.data_ptr<float>(), values.size(), values.begin());
  }

  std::vector<std::string> notes() const override { return network_->notes(); }

  void set_rank(Rank rank) override { input_.rank = rank; }

  void visit_state(StateVisitor& visitor, Across models) override {
    // Each rank has statistics of its own batches, even if models are equal.
    const Across statistics = models == Across::same ? Across::mean : models;
    visitor.values("parameters", parameters_.host(), models);
    visitor.values("buffers", buffers_.host(), statistics);
    if (!split_.frozen.empty()) visitor.values("frozen", frozen(), Across::same);
    visitor.number("batches", batches_, Across::own);
    visit_other_buffers(visitor);
  }

  void save_weights(const std::string& path) const override { write_weights(path, state()); }
  std::string safetensors(const Metadata& metadata) const override {
    return weights::pack_safetensors(described(state()), metadata);
  }
  void load_weights(const std::string& path) override {
    load(path, {.own = network_->file_names().own});
  }
  weights::LoadedNames load_pretrained(const std::string& path, bool new_head) override {
    weights::FileNames names = network_->file_names();
    names.outputs = input_.outputs;
    const std::string& last = all_parameters_.back().first;
    names.last_layer = last.substr(0, last.rfind('.') + 1);
    names.new_head = new_head;
    return load(path, names);
  }

 private:
  void keep_statistics() {
    const std::vector<std::string> paths = network_->keep_statistics();
    check_keeps_statistics(!paths.empty());
    for (const TensorSlice& slice : buffer_layout_)
      if (std::ranges::count(paths, slice.name.substr(0, slice.name.rfind('.'))) > 0)
        constants_.push_back(slice);
  }

  weights::LoadedNames load(const std::string& path, const weights::FileNames& names) {
    frozen_changed_ = true;
    const NamedTensors on_host = state();
    weights::LoadedNames loaded = read_weights(path, on_host, tied_names_, names);
    copy_other_buffers(on_host);
    return loaded;
  }

  /// Those that lie on a device.
  void copy_other_buffers(const NamedTensors& on_host) {
    for (const auto& [name, tensor] : other_buffers_) {
      if (tensor.device().is_cpu()) continue;
      for (const auto& [other, values] : on_host)
        if (other == name) at::Tensor(tensor).copy_(values);
    }
  }

  /// Buffers of other types than float32, such as batch normalization's count of batches, or a
  /// mask: their bytes, tensor by tensor, the last word filled with zeros.
  void visit_other_buffers(StateVisitor& visitor) {
    std::vector<std::uint64_t> words;
    std::vector<std::size_t> begins;
    for (const auto& [name, tensor] : other_buffers_) {
      const at::Tensor values = tensor.cpu().contiguous();
      begins.push_back(words.size());
      words.resize(words.size() + (values.nbytes() + sizeof words[0] - 1) / sizeof words[0]);
      if (values.nbytes() > 0)
        std::memcpy(&words[begins.back()], values.data_ptr(), values.nbytes());
    }
    visitor.numbers("counters", words, Across::own);
    if (!visitor.restores()) return;
    for (std::size_t i = 0; i < begins.size(); ++i) {
      at::Tensor tensor = other_buffers_[i].second;
      at::Tensor values = at::empty(tensor.sizes(), tensor.options().device(at::kCPU));
      if (values.nbytes() > 0) std::memcpy(values.data_ptr(), &words[begins[i]], values.nbytes());
      tensor.copy_(values);
    }
  }

  template <class Work>
  std::invoke_result_t<Work> guarded_by_blame(std::string_view doing, const Work& work) {
    const Kind blame = network_->blame();
    return guarded(doing, work, blame, blame == Kind::bug ? "LibTorch" : network_->title());
  }

  /// Leaves the network as it was.
  template <class Work>
  std::invoke_result_t<Work> in_evaluation_mode(std::string_view doing, const Work& work) {
    return guarded_by_blame(doing, [&] {
      const OnDevice on_device(input_.placement);
      const at::NoGradGuard no_grad;
      upload();
      network_->eval();
      network_->keep_state();
      auto result = work();
      network_->put_back_state();
      return result;
    });
  }

  /// To where the network computes, since others may have changed the host's.
  void upload() {
    parameters_.upload();
    buffers_.upload();
    if (frozen_changed_) frozen_.upload();
    frozen_changed_ = false;
  }

  /// Parameters, then buffers of types that files have, on the host, under all their names.
  NamedTensors state() const {
    std::unordered_map<std::string_view, at::Tensor> on_host;
    const auto add = [&](const MirroredValues& values, const Layout& layout,
                         const NamedTensors& tensors) {
      for (std::size_t i = 0; i < layout.size(); ++i)
        on_host.emplace(layout[i].name, values.host_view(layout[i], tensors[i].second));
    };
    add(parameters_, layout_, parameter_tensors_);
    add(frozen_, frozen_layout_, split_.frozen);
    add(buffers_, buffer_layout_, of_type(buffer_tensors_, at::kFloat));
    NamedTensors all = all_parameters_;
    for (const auto& [name, tensor] : buffer_tensors_)
      if (file_type(tensor.scalar_type())) all.emplace_back(name, tensor.cpu());
    for (auto& [name, tensor] : all)
      if (const auto found = on_host.find(name); found != on_host.end()) tensor = found->second;
    return with_tied(std::move(all), tied_names_);
  }

  /// The loss of mixup.
  at::Tensor mixed_loss(const data::Batch& batch, const at::Tensor& targets, const RandomKey& key) {
    const double share = draw_mixup_share(input_.task.mixup, key);
    NetworkInput input = input_of(batch);
    for (auto& array : input.arrays)
      array.second = share * array.second + (1 - share) * array.second.flip({0});
    const at::Tensor output = output_for(std::move(input), targets);
    return share * loss_->loss(output, targets) +
           (1 - share) * loss_->loss(output, targets.flip({0}));
  }

  /// Returns what the network returns, if the task can use it.
  at::Tensor output_for(NetworkInput input, const at::Tensor& targets) {
    if (input_.task.kind->own_loss) input.targets = targets;
    at::Tensor output = run(input);
    const bool floats = at::isFloatingType(output.scalar_type());
    const std::string expected =
        floats ? loss_->misfit(output, input.size(), targets) : "floats of any size";
    if (expected.empty()) return output;
    fail(Kind::data, "task.kind \"{}\": expected {} to return {}, found {} of shape {}",
         input_.task.kind->name, network_->title(), expected, c10::toString(output.scalar_type()),
         c10::str(output.sizes()));
  }

  /// Returns what the network returns; the loss is computed in float32.
  at::Tensor run(const NetworkInput& input) {
    if (!input_.casts) return network_->forward(input);
    const Autocast autocast;
    const at::Tensor output = network_->forward(input);
    return output.scalar_type() == at::kBFloat16 ? output.to(at::kFloat) : output;
  }

  NetworkInput input_of(const data::Batch& batch) const {
    EQT_CHECK(batch.size() > 0 && batch.inputs.size() == input_.inputs.size(),
              "{} samples with {} arrays, {} expected", batch.size(), batch.inputs.size(),
              input_.inputs.size());
    NetworkInput input;
    for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
      const data::Array& array = batch.inputs[i];
      EQT_CHECK(array.spec == input_.inputs[i] && array.size() == batch.size(),
                "{} of {} samples, expected {} of {}", data::text_of(array.spec), array.size(),
                data::text_of(input_.inputs[i]), batch.size());
      at::Tensor tensor = placed(view_of(array), input_.placement);
      if (data::image_shape(array.spec))
        tensor = framed(tensor.permute({0, 3, 1, 2}), input_.frame);
      input.arrays.emplace_back(array.spec.name, std::move(tensor));
    }
    return input;
  }

  /// Undefined if the batch has none.
  at::Tensor targets_of(const data::Batch& batch) const {
    EQT_CHECK(input_.target.has_value() == !batch.targets.empty() &&
                  (batch.targets.empty() || batch.targets.size() == batch.size()),
              "{} targets of {} samples", batch.targets.size(), batch.size());
    if (batch.targets.empty()) return {};
    loss_->check(batch.targets);
    return placed(view_of(batch.targets), input_.placement);
  }

  std::shared_ptr<Network> network_;
  ReplicaInput input_;
  std::unique_ptr<TaskLoss> loss_;
  NamedTensors all_parameters_;  // the network's own handles
  std::vector<TiedName> tied_names_;
  SplitParameters split_;
  NamedTensors& parameter_tensors_;  // those that are trained
  NamedTensors buffer_tensors_;
  NamedTensors other_buffers_;  // those that are not float32
  Layout layout_;
  Layout buffer_layout_;
  Layout constants_ = {};      // those of it that no batch changes
  MirroredValues parameters_;  // (d)
  MirroredValues gradient_;    // (d)
  MirroredValues buffers_;     // (b)
  Layout frozen_layout_;
  MirroredValues frozen_;
  bool frozen_changed_ = true;  // perhaps, since the last upload
  std::optional<Backward> backward_;
  StepId batches_ = 0;  // trained on so far; part of the next batch's random key
};

/// fp32 is float32, and a run repeats its bits.
void repeat_results() {
  at::Context& context = at::globalContext();
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);
  context.setAllowTF32CuDNN(false);
}

/// Moves the network's parameters, gradients and running statistics into flat buffers.
std::unique_ptr<Replica> make_torch_replica(std::shared_ptr<Network> network,
                                            const ReplicaInput& input) {
  for (const auto& module : network->named_modules()) {
    auto* const norm = dynamic_cast<Normalization*>(module.value().get());
    if (norm != nullptr) norm->set_path(module.key());
    if (norm != nullptr && input.placement.torch_layers) norm->use_torch();
    auto* const convolution = dynamic_cast<ConvolutionImpl*>(module.value().get());
    if (convolution != nullptr && input.precision == Precision::bf16)
      convolution->use_bf16(bf16_arithmetic());
  }
  const OnDevice on_device(input.placement);  // pinned memory belongs to a device as well
  network->place_constants(device_of(input.placement));
  if (input.placement.cuda) repeat_results();
  return std::make_unique<TorchReplica>(std::move(network), input);
}

std::unique_ptr<Replica> make_float_replica(const ModelOptions& options) {
  const ModelRow& model = *options.model;
  const auto build = [&] {
    auto replica = make_torch_replica(
        make_network(options),
        {.inputs = options.inputs,
         .target = options.target,
         .frame = model.images_only ? frame_of(model, images_of(options)) : Frame{},
         .task = options.task,
         .outputs = options.outputs,
         .freeze = options.freeze,
         .frozen_norms = options.frozen_norms,
         .seed = options.seed,
         .rank = options.rank,
         .precision = options.precision,
         .casts = options.precision == Precision::bf16 && model.casts &&
                  bf16_arithmetic() == Bf16Arithmetic::native,
         .placement = options.placement});
    // What cannot compute samples of this size, or returns something else, fails here, before
    // training.
    if (options.normalization->needs_chunks || !model.images_only)
      replica->evaluate(example_batch(options, 1));
    return replica;
  };
  if (!model.users_own) return guarded("building a network", build);
  return guarded("being loaded", build, Kind::data, "the network of model.path " + options.path);
}

/// Adds up what LibTorch's allocator allocates and frees, on threads that inherit it.
class AllocationCounter final : public c10::MemoryReportingInfoBase {
 public:
  bool memoryProfilingEnabled() const override { return true; }
  // LibTorch 1.13's signature, then 2's: one of them overrides.
  void reportMemoryUsage(void*, std::int64_t bytes, std::int64_t, std::int64_t, c10::Device) {
    add(bytes);
  }
  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) {
    add(bytes);
  }
  std::int64_t most() const { return most_; }

 private:
  void add(std::int64_t bytes) {
    now_ += bytes;
    most_ = std::max(most_, now_);
  }
  std::int64_t now_ = 0, most_ = 0;
};

template <typename Work>
double most_bytes(const Work& work) {
  const auto counter = std::make_shared<AllocationCounter>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
    work();
  }
  return static_cast<double>(counter->most());
}

/// The most memory that work(a batch) uses, extrapolated linearly from two batch sizes.
template <typename Work>
std::uint64_t extrapolated(const ModelOptions& options, std::size_t size, const Work& work) {
  constexpr std::size_t kFew = 2, kMore = 4;
  // The larger batch first: what only a first batch allocates then makes the estimate too large,
  // not too small.
  const double more = most_bytes([&] { work(example_batch(options, kMore)); });
  const double few = most_bytes([&] { work(example_batch(options, kFew)); });
  const double slope = std::max(0.0, (more - few) / (kMore - kFew));
  const double beyond = static_cast<double>(size) - static_cast<double>(kMore);
  return static_cast<std::uint64_t>(std::max(more, more + slope * beyond));
}

}  // namespace

std::shared_ptr<Network> make_network(const ModelOptions& options) {
  check_options(options);
#define EQT_MODEL(id, ...) \
  if (options.model == models::id) return make_##id(options);
#include "model/models.def"
  fail(Kind::bug, "no network is called {}", options.model->name);
}

std::unique_ptr<Replica> make_replica(const ModelOptions& options) {
  if (options.placement.torch_layers && options.precision != Precision::fp32)
    fail(Kind::usage,
         "model.precision: expected \"fp32\" for a network on an NVIDIA device, found \"{}\"; set "
         "device to \"cpu\" or model.precision to \"fp32\"",
         name_of(options.precision));
  if (options.precision == Precision::int8) return make_int8_replica(options);
  return make_float_replica(options);
}

std::unique_ptr<Replica> make_idle_replica(const ModelOptions& options) {
  ModelOptions idle = options;
  idle.placement = {};
  return make_replica(idle);
}

void require_loadable(const ModelOptions& options) {
  (void)guarded(
      "being loaded", [&] { return make_torchscript(options); }, Kind::data,
      "the network of model.path " + options.path);
}

NetworkMemory measure_network_memory(const ModelOptions& options, std::size_t batch_size,
                                     std::size_t test_batch_size) {
  if (options.precision == Precision::int8) return int8_memory(options, batch_size);
  const auto replica = make_replica(options);
  NetworkMemory memory{.layout = replica->layout(),
                       .frozen_values = replica->frozen().size(),
                       .buffer_values = replica->buffers().size()};
  memory.gradient_bytes = extrapolated(options, batch_size, [&](const data::Batch& batch) {
    (void)replica->forward_backward(batch, {});
  });
  memory.evaluate_bytes = extrapolated(
      options, test_batch_size, [&](const data::Batch& batch) { (void)replica->evaluate(batch); });
  return memory;
}

}  // namespace eqt::model
