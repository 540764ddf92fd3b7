// SPDX-License-Identifier: Apache-2.0
// A convolutional network as a list of nodes, for the executor with 8-bit operands. No torch.
//
// A node is what is kept of a layer for the backward pass: an activation with one scale for each
// sample. A branch is a convolution with its normalization, whose 8-bit input is kept as well. A
// node is the sum of a branch and, in residual blocks, of a second branch or an earlier node.
//
// Layouts, names and orders are those of the network that LibTorch runs (Network).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/images.hpp"
#include "int8/convolution.hpp"
#include "model/norm_kernels.hpp"
#include "model/own/tensors.hpp"
#include "model/replica.hpp"

namespace eqt::model::precision {

struct Branch {
  std::string name;  // of the convolution, "layer1.0.conv1"
  int input = 0;     // node that it reads
  int node = 0;      // node that it is a part of
  int8::ConvolutionShape shape;
  bool pool = false;                     // the norm is given maxima of 2 x 2 outputs
  bool passes_on = false;                // its first channels start as copies of its input's
  double drop = 0;                       // share of samples that training leaves it out of
  std::uint32_t drop_number = 0;         // tells its draws from those of other branches
  std::size_t weight = 0;                // index in Plan::tensors
  std::optional<std::size_t> bias = {};  // of the convolution, likewise
  std::optional<std::size_t> norm = {};  // the norm's weight, likewise; its bias and v follow
  std::size_t statistics = 0;            // index of the first in Plan::buffers
  bool keeps_statistics = false;         // training normalizes by running values, which stay
  std::size_t channels() const { return static_cast<std::size_t>(shape.out_channels); }
  // Sizes of what the norm is given.
  int height() const { return pool ? shape.out_height() / 2 : shape.out_height(); }
  int width() const { return pool ? shape.out_width() / 2 : shape.out_width(); }
  std::size_t pixels() const {
    return static_cast<std::size_t>(height()) * static_cast<std::size_t>(width());
  }
  std::size_t count() const { return pixels() * channels(); }  // a sample
};

enum class NodeKind { image, layer, max_pool, scaled };
enum class Residual { none, identity, padding, branch };

/// Nonlinearity says what follows the normalization of a node that is a layer, or its sum.
enum class Nonlinearity { none, relu, relu6, gelu, hard_swish };

struct Node {
  NodeKind kind = NodeKind::layer;
  int height = 0, width = 0, channels = 0;
  Nonlinearity nonlinearity = Nonlinearity::none;
  int main = -1;  // layer: branch
  Residual residual = Residual::none;
  int second = -1;            // the residual's node or branch
  int stride = 1;             // padding: of the residual; max_pool: of the windows
  int input = -1;             // max_pool, scaled: node
  int kernel = 2, frame = 0;  // max_pool: side of the windows, pixels around the image
  std::size_t squeeze = 0;    // scaled: index in Plan::squeezes

  std::size_t pixels() const {
    return static_cast<std::size_t>(height) * static_cast<std::size_t>(width);
  }
  std::size_t count() const { return pixels() * static_cast<std::size_t>(channels); }  // a sample
  /// True of a node that is computed from an earlier one, without a branch.
  bool has_input() const { return input >= 0; }
  bool rectifies() const {
    return nonlinearity == Nonlinearity::relu || nonlinearity == Nonlinearity::relu6;
  }
};

/// The two linear layers that scale channels, of which each has its bias behind its weight.
struct SqueezePlan {
  std::size_t narrow = 0, widen = 0;  // weights: indices in Plan::tensors
  std::size_t channels = 0, hidden = 0;
};

/// HeadStart says how the linear layers of the classifier start: as PyTorch's do, by the formula of
/// airbench, or without a bias and with weights of torchvision's or timm's mobile networks.
enum class HeadStart { linear, airbench, torchvision, timm };

/// A linear layer of the classifier.
struct Dense {
  std::size_t weight = 0, bias = 0;  // indices in Plan::tensors
  std::size_t in = 0, out = 0;
  double dropout = 0;  // share of its inputs that training sets to 0
};

/// Filters of patches of the pictures, which are computed in float32 and, with GELU after them,
/// become the first node.
struct Whitening {
  std::size_t weight = 0, bias = 0;  // indices in Plan::tensors
  data::ImageShape pictures;         // with their frame
};

/// Pooling says what the classifier is given of the last node's pixels.
enum class Pooling { mean, maximum };

/// Who reads a node, in the order of the forward pass.
struct Readers {
  std::vector<int> branches;
  std::vector<int> nodes;  // as a residual, or to pool it
};

struct Plan : TensorPlan {
  std::vector<Node> nodes;       // the image first, each after those that it reads
  std::vector<Branch> branches;  // in the order of the forward pass
  std::vector<SqueezePlan> squeezes;
  std::optional<Whitening> whitening;
  Pooling pooling = Pooling::mean;
  std::optional<Dense> hidden;
  Nonlinearity hidden_nonlinearity = Nonlinearity::relu;  // or hard_swish
  Dense last;                                             // after the pooling
  HeadStart head_start = HeadStart::linear;
  float output_scale = 1;                  // of what the last layer returns
  bool norm_activates = false;             // the normalization is a nonlinearity itself
  double norm_share = kBatchNormMomentum;  // of the newest batch in running values
  double norm_epsilon = kNormEpsilon;      // of batch normalization
  // The normalization has this many groups of channels of a sample (0: it takes statistics of a
  // batch's channels), and may divide by ranges.
  std::size_t groups = 0;
  bool ranges = false;

  std::vector<Readers> readers;  // by node
  std::vector<bool> learns;      // by node: its values depend on parameters that are trained

  const Node& node(int i) const { return nodes[static_cast<std::size_t>(i)]; }
  const Branch& branch(int i) const { return branches[static_cast<std::size_t>(i)]; }
  const Readers& readers_of(int node) const { return readers[static_cast<std::size_t>(node)]; }
  bool learns_at(int node) const { return learns[static_cast<std::size_t>(node)]; }
  using TensorPlan::trains;
  /// Says of a convolution whether its weight or bias is trained.
  bool trains(const Branch& branch) const {
    return trains(branch.weight) || (branch.bias && trains(*branch.bias));
  }
  bool trains_norm(const Branch& branch) const {
    return branch.norm && (trains(*branch.norm) || trains(*branch.norm + 1) ||
                           (norm_activates && trains(*branch.norm + 2)));
  }
  /// Says whether the backward pass goes through a branch's normalization to its convolution.
  bool passes_errors(const Branch& branch) const {
    return trains(branch) || learns_at(branch.input);
  }
  /// The running values of a branch's normalization, if it has any.
  std::span<float> running_values(const Branch& branch, std::span<float> of_all) const {
    if (!branch.norm || groups > 0) return {};
    return of_all.subspan(buffers[branch.statistics].offset, 2 * branch.channels());
  }
  /// Adds 1 to the count of batches of each normalization whose running values follow them.
  void count_batch(std::span<std::uint64_t> counts) const;
};

/// @throws Error{usage} for a task that is not built with operands of our own
void check_for_own(const ModelOptions& options);

/// @throws Error{usage} for a network, an input, a task or an option that is not built with 8-bit
/// operands
Plan make_plan(const ModelOptions& options);

// Which pixels of a node belong to which pixels of another. Places are those of a pixel's first
// channel in a sample.

/// Calls body(target, source) for the pixels of each window of a max_pool node, by row.
template <typename Body>
void for_each_window(const Node& from, const Node& to, const Body& body) {
  const auto place = [&](const Node& node, int y, int x) {
    return (static_cast<std::size_t>(y) * static_cast<std::size_t>(node.width) +
            static_cast<std::size_t>(x)) *
           static_cast<std::size_t>(node.channels);
  };
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x) {
      for (int ky = 0; ky < to.kernel; ++ky) {
        for (int kx = 0; kx < to.kernel; ++kx) {
          const int sy = y * to.stride - to.frame + ky, sx = x * to.stride - to.frame + kx;
          if (sy < 0 || sx < 0 || sy >= from.height || sx >= from.width) continue;
          body(place(to, y, x), place(from, sy, sx));
        }
      }
    }
  }
}

/// Shortcut A of He et al.: calls body(source, target) for each pixel of `from` that is kept, and
/// where its channels are in `to`, which has zeros on both sides of them.
template <typename Body>
void for_each_kept_pixel(const Node& from, const Node& to, const Body& body) {
  const auto before = static_cast<std::size_t>((to.channels - from.channels) / 2);
  for (int y = 0; y < to.height; ++y) {
    for (int x = 0; x < to.width; ++x) {
      const auto source = static_cast<std::size_t>(y * to.stride * from.width + x * to.stride) *
                          static_cast<std::size_t>(from.channels);
      const auto target =
          static_cast<std::size_t>(y * to.width + x) * static_cast<std::size_t>(to.channels);
      body(source, target + before);
    }
  }
}

/// Draws the values from which training starts.
///
/// Source   K. He, X. Zhang, S. Ren, J. Sun, ICCV 2015, eq. (14), by fan-out, for convolutions, and
///          K. Jordan, arXiv:2404.00498, section 3.3, for those that pass their input on; PyTorch's
///          uniform values for linear layers
TensorValues initial_values(const Plan& plan, std::uint64_t seed);

}  // namespace eqt::model::precision
