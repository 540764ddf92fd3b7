// SPDX-License-Identifier: Apache-2.0
// One rank's copy of the network, seen as flat buffers. No torch in this header.

#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/flat_buffer.hpp"
#include "core/layout.hpp"
#include "core/rounded_rows.hpp"
#include "core/saved_state.hpp"
#include "data/dataset.hpp"
#include "model/catalogue.hpp"
#include "model/compute_device.hpp"
#include "model/encoder_shape.hpp"
#include "model/task.hpp"
#include "weights/state_dict.hpp"

namespace eqt::model {

/// Called with the index of a slice in layout() as soon as its gradient is complete: in reverse
/// layout order or close to it, on the thread that called forward_backward, each slice once.
using SliceReady = std::function<void(std::size_t slice)>;

/// Int8Use says what training steps with 8-bit operands use.
struct Int8Use {
  std::string_view kernels;          // the family of instructions
  std::uint64_t arena_bytes = 0;     // 8-bit values of a step, with their scales
  std::uint64_t saved_bytes = 0;     // of these, what is kept from the forward to the backward pass
  std::uint64_t clipped_values = 0;  // so far, beyond their range; only the paper's ranges clip
};

using Metadata = std::map<std::string, std::string>;

class Replica {
 public:
  virtual ~Replica() = default;
  virtual const Layout& layout() const = 0;   // of parameters() and gradient()
  virtual std::span<float> parameters() = 0;  // (d)
  virtual std::span<float> gradient() = 0;    // (d), overwritten by forward_backward
  /// The memory of gradient(), if it may be shared with other processes; null: it may not.
  virtual FlatBuffer* gradient_memory() { return nullptr; }
  /// The gradient in the memory that the network computes with, on its placement's device; null:
  /// that is gradient().
  virtual const float* device_gradient() { return nullptr; }
  /// From the next pass on, gradients are complete in device_gradient() when their slices are
  /// announced, and gradient() stays as it is. With false, as at first, they come to gradient() as
  /// well.
  /// @pre device_gradient() is not null
  virtual void leave_gradient_on_device(bool /*leave*/) {}
  virtual std::span<float> buffers() = 0;  // (b), running statistics; some networks have none
  /// Copies those of buffers() that no batch changes to `mean` (b), the mean of ranks' buffers,
  /// where rounding may have changed them.
  virtual void keep_constants(std::span<float> /*mean*/) {}
  /// Parameters that are not trained, and not in layout(); most networks have none. They may be
  /// written until the next batch.
  virtual std::span<float> frozen() { return {}; }
  /// Mean loss over the batch; leaves its gradient in gradient().
  virtual double forward_backward(const data::Batch& batch, const SliceReady& on_ready) = 0;
  /// Evaluates the batch in evaluation mode; does not change gradient().
  virtual Evaluation evaluate(const data::Batch& batch) = 0;
  /// Fills `out` with what the network returns for the batch in evaluation mode, float32 (n, ...):
  /// logits, or values of a regression. The batch needs no targets. Reuses the memory of `out`.
  /// @throws Error{usage} if the network returns its own loss
  virtual void predict(const data::Batch& batch, data::Array& out);
  /// Returns what steps of this many samples use; none: the network has operands of other types.
  virtual std::optional<Int8Use> int8_use(std::size_t /*batch_size*/) const { return {}; }
  /// Returns what rounds the weights that the network computes with; null: it computes with floats.
  virtual WeightRounding* weight_rounding() { return nullptr; }
  /// From now on random numbers are those of this rank. Networks without random numbers ignore it.
  virtual void set_rank(Rank /*rank*/) {}
  /// Visits parameters, buffers and the state that names the next batch's random numbers.
  /// @param models rule by which the models of ranks are converted
  virtual void visit_state(StateVisitor& visitor, Across models) = 0;
  /// Writes a dict of tensors that Python's torch.load reads; parameters, then buffers.
  /// @throws Error{output}
  virtual void save_weights(const std::string& path) const = 0;
  /// Returns the bytes of a safetensors file of the same tensors, with texts by their names.
  virtual std::string safetensors(const Metadata& metadata) const;
  /// Reads what Python's torch.save writes of a state dict, or what save_weights writes.
  /// @throws Error{data} naming the first tensor that is missing, unknown or of another shape.
  virtual void load_weights(const std::string& path) = 0;
  /// Reads weights that were trained for another task: what the file lacks of the part that belongs
  /// to the task keeps its values.
  /// @param new_head so does a last layer of another number of outputs than the file's; false: that
  /// is refused
  virtual weights::LoadedNames load_pretrained(const std::string& path, bool /*new_head*/) {
    load_weights(path);
    return {};
  }
  /// Returns what a user should know before training, in sentences.
  virtual std::vector<std::string> notes() const { return {}; }
};

struct ModelOptions {
  Entry<ModelRow> model;
  std::vector<data::ArraySpec> inputs;                           // as Dataset::inputs()
  std::optional<data::ArraySpec> target = data::class_spec(10);  // as Dataset::target()
  int outputs = 10;                                              // of outputs_of()
  TaskOptions task = {};
  Entry<NormalizationRow> normalization = normalizations::batchnorm;
  int norm_groups = 0;  // 0 = the published number
  Shortcut shortcut = Shortcut::projection;
  double width = 1;                           // MobileNets: factor of all numbers of channels
  int hidden_layers = 4, hidden_width = 256;  // mlp
  Precision precision = Precision::fp32;
  Int8Options int8 = {};                           // with Precision::int8
  std::string path = {};                           // of a network of the user's own, for messages
  std::shared_ptr<const std::string> script = {};  // the bytes of its file
  std::vector<std::string> freeze = {};            // patterns of parameters that are not trained
  FrozenNorms frozen_norms = FrozenNorms::batch;
  // bert: 0 tokens or positions are those of the texts
  std::optional<EncoderShape> encoder = {};
  std::uint64_t seed = 1;  // of the initial weights and of dropout
  Rank rank = 0;           // for dropout only
  Placement placement = {};
};

/// The shape of the pictures.
/// @throws Error{usage} unless they are the network's only input
data::ImageShape images_of(const ModelOptions& options);

/// The network as its authors trained it: ImageNet's images and classes, or CIFAR-10's for the
/// networks made for small images.
ModelOptions published_options(const ModelRow& model);

/// Rows and columns of zeros that a network puts around a normalised image.
struct Frame {
  int top = 0, bottom = 0, left = 0, right = 0;  // [pixels]
  bool operator==(const Frame&) const = default;
};
/// The frame that makes a side below 32 pixels one of 32, and both one of the network's least_side
/// where neither is longer. Empty for larger images, and for networks that take other inputs as
/// well.
Frame frame_of(const ModelRow& model, const data::ImageShape& images);

/// Small pictures get the frame of frame_of().
/// @throws Error{usage} for an input or options that the network cannot take, and in a build
/// without LibTorch for bf16; for a placement on a device with another precision than fp32, and for
/// layers that compute on the processor alone
std::unique_ptr<Replica> make_replica(const ModelOptions& options);

/// A network for its layout and its initial parameters alone, which is never run.
/// @throws Error{usage} as make_replica(); in a build without LibTorch also for networks that are
/// in files
std::unique_ptr<Replica> make_idle_replica(const ModelOptions& options);

/// Loads a network of the user's own, and runs nothing.
/// @throws Error{data} as make_replica(); Error{usage} in a build without LibTorch
void require_loadable(const ModelOptions& options);

/// The memory that a network needs to compute a gradient, measured on small batches.
struct NetworkMemory {
  Layout layout;                     // of the parameters that are trained
  std::size_t frozen_values = 0;     // parameters that are not
  std::size_t buffer_values = 0;     // running statistics
  std::uint64_t gradient_bytes = 0;  // peak memory during a forward_backward()
  std::uint64_t evaluate_bytes = 0;  // and during an evaluate()
};

/// Measures memory without parameters, gradient and buffers. With 8-bit operands it is planned;
/// otherwise the network runs on batches of two sizes, and the peak memory of LibTorch's allocator
/// is extrapolated linearly in the batch size, which takes a fraction of a second.
/// @throws Error{usage} as make_replica()
NetworkMemory measure_network_memory(const ModelOptions& options, std::size_t batch_size,
                                     std::size_t test_batch_size);

/// Sets the size of LibTorch's intra-op pool, flushes denormals and makes the C library keep freed
/// memory, so that activations cause no page faults. Call it once per process, before any replica.
void set_threads(int threads);

/// True if LibTorch recognises this processor; otherwise it uses its slowest kernels, whose last
/// bits differ.
bool sees_processor();

/// LibTorch's version and how its linear algebra was built, for --version and the run record.
std::string torch_description();

}  // namespace eqt::model
