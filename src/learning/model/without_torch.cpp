// SPDX-License-Identifier: Apache-2.0
// What the networks of torch/ are in a build without LibTorch (EQT_TORCH=OFF): training by
// own/ alone, with 8-bit or float32 operands.

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/flat_buffer.hpp"
#include "model/arithmetic.hpp"
#include "model/export.hpp"
#include "model/model_options.hpp"
#include "model/own/own_replica.hpp"
#include "model/process_settings.hpp"
#include "model/replica.hpp"

namespace eqt::model {
namespace {

/// @return whether operands have 8 bits
bool has_8_bits(const ModelOptions& options) {
  if (options.precision == Precision::bf16)
    fail(Kind::usage,
         "model.precision: expected \"fp32\" or \"int8\" in this build, which has no LibTorch, "
         "found \"bf16\"; set one of them, or use a build with LibTorch");
  return options.precision == Precision::int8;
}

class IdleReplica final : public Replica {
 public:
  explicit IdleReplica(const ModelOptions& options)
      : first_(first_values(options)), gradient_(total_count(first_.plan.parameters)) {}

  const Layout& layout() const override { return first_.plan.parameters; }
  std::span<float> parameters() override { return first_.values.parameters.span(); }
  std::span<float> gradient() override { return gradient_.span(); }
  FlatBuffer* gradient_memory() override { return &gradient_; }
  std::span<float> buffers() override { return first_.values.buffers.span(); }
  std::span<float> frozen() override { return first_.values.frozen.span(); }
  double forward_backward(const data::Batch&, const SliceReady&) override { refuse(); }
  Evaluation evaluate(const data::Batch&) override { refuse(); }
  void visit_state(StateVisitor&, Across) override { refuse(); }
  void save_weights(const std::string&) const override { refuse(); }
  void load_weights(const std::string&) override { refuse(); }

 private:
  [[noreturn]] static void refuse() { fail(Kind::bug, "an idle network was used"); }

  FirstValues first_;
  FlatBuffer gradient_;
};

}  // namespace

std::unique_ptr<Replica> make_replica(const ModelOptions& options) {
  return has_8_bits(options) ? make_int8_replica(options) : make_float32_replica(options);
}

std::unique_ptr<Replica> make_idle_replica(const ModelOptions& options) {
  check_options(options);
  require_loadable(options);
  return std::make_unique<IdleReplica>(options);
}

void require_loadable(const ModelOptions& options) {
  if (options.model->images_only) return;
  fail(Kind::usage,
       "model.name: expected a network for pictures in this build, which has no LibTorch, found "
       "\"{}\"; choose another, or use a build with LibTorch",
       options.model->name);
}

NetworkMemory measure_network_memory(const ModelOptions& options, std::size_t batch_size,
                                     std::size_t) {
  return has_8_bits(options) ? int8_memory(options, batch_size)
                             : float32_memory(options, batch_size);
}

void export_network(const ModelOptions& options, const Export& request) {
  if (request.format == ExportFormat::torchscript)
    fail(Kind::usage,
         "export: expected --to onnx, safetensors or state-dict in this build, which has no "
         "LibTorch, "
         "found torchscript; choose one of them, or use a build with LibTorch");
  export_without_torch(*make_replica(options), options, request);
}

void set_threads(int threads) {
  EQT_CHECK(threads >= 1, "{} threads", threads);
  keep_freed_memory();
  flush_denormals();
  set_own_threads(threads);
}

bool sees_processor() { return true; }

CudaDevices cuda_devices() { return {.obstacle = kBuiltWithoutCuda}; }

std::string torch_description() { return "none"; }

std::optional<LinearAlgebra> linear_algebra() { return {}; }

double matmul_flops(double) { return 0; }

Bf16Arithmetic bf16_arithmetic() { return Bf16Arithmetic::none; }

std::string_view describe(Bf16Arithmetic) { return "none in this build"; }

}  // namespace eqt::model
