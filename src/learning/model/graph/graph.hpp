// SPDX-License-Identifier: Apache-2.0
// The operations of a network in evaluation mode, by the operators of ONNX. It holds no weights: an
// operation reads them by the names that they have in files of weights. No torch, no library of
// ONNX.
//
// Source   ONNX, Operators.md, version kOperators of the operators
// Shapes   every value's first dimension counts samples, and sizes leave it out; texts have their
//          longest length

#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "data/batch.hpp"

namespace eqt::model {

inline constexpr std::int64_t kOperators = 17;  // version of the set of operators

using Sizes = std::vector<std::int64_t>;

struct GraphValue {
  std::string name;
  Sizes sizes;  // of a sample
};

struct GraphAttribute {
  std::string_view name;
  std::variant<std::int64_t, float, Sizes> value;
};

struct GraphNode {
  std::string_view operation;
  std::vector<std::string> inputs, outputs;
  std::vector<GraphAttribute> attributes;
};

/// A constant of the graph; sizes {} are those of a single number.
struct GraphConstant {
  std::string name;
  Sizes sizes;
  std::variant<std::vector<float>, std::vector<std::int64_t>> values;
};

/// A tensor of the network's weights, float32.
struct GraphParameter {
  std::string name;
  Sizes sizes;  // all of them
};

/// A convolution by square filters.
struct GraphConvolution {
  std::int64_t out = 0;
  std::int64_t kernel = 1, stride = 1, padding = 0;
  bool depthwise = false;  // each channel has a filter of its own
  bool bias = false;
};

/// Operations are added in the order of the forward pass. Those with weights are called by their
/// paths, others by their operator and a number.
class Graph {
 public:
  /// An input of the network: pictures (c, h, w), other arrays as they are.
  GraphValue input(const data::ArraySpec& spec);

  /// @param path of the layer: its weight is path.weight, its bias path.bias
  GraphValue convolution(const GraphValue& x, const std::string& path,
                         const GraphConvolution& shape);
  /// (..., in) to (..., out)
  GraphValue linear(const GraphValue& x, const std::string& path, std::int64_t out);
  /// x * weight' + bias, for parameters of these names
  GraphValue linear(const GraphValue& x, const std::string& weight, const std::string& bias,
                    std::int64_t out);
  /// Normalizes the last dimension, then scales it by path.weight and path.bias.
  GraphValue layer_norm(const GraphValue& x, const std::string& path, double epsilon);
  /// Maxima of square windows; a last row or column that fills no window is left out.
  GraphValue max_pool(const GraphValue& x, std::int64_t kernel, std::int64_t stride,
                      std::int64_t padding);
  /// (c, h, w) to (c, 1, 1): the mean over pixels, or their maximum.
  GraphValue mean_pixels(const GraphValue& x);
  GraphValue max_pixels(const GraphValue& x);
  /// Rows, columns and so on of zeros, by dimension of a sample.
  GraphValue pad(const GraphValue& x, const Sizes& before, const Sizes& after);
  /// All values of a sample in one dimension.
  GraphValue flatten(const GraphValue& x);
  /// @param sizes of a sample; 0: as in x
  GraphValue reshape(const GraphValue& x, Sizes sizes);
  /// @param order of all dimensions, 0 is that of samples
  GraphValue transpose(const GraphValue& x, Sizes order);
  /// a (..., n, k) times b (..., k, m), with the same dimensions before them.
  GraphValue product(const GraphValue& a, const GraphValue& b);
  /// x Phi(x), by the error function.
  GraphValue gelu(const GraphValue& x);
  /// The slice `i` of the first dimension of a sample, which the result lacks.
  GraphValue select(const GraphValue& x, std::int64_t i);

  /// An operation whose result has the sizes of x, such as "Relu".
  GraphValue apply(std::string_view operation, const GraphValue& x,
                   std::vector<GraphAttribute> attributes = {});
  /// An operation of x and of what is repeated to its sizes, such as "Add".
  GraphValue combine(std::string_view operation, const GraphValue& x, const std::string& other);

  /// Any other operation. @return the name of its only result
  std::string add(std::string_view operation, std::vector<std::string> inputs,
                  std::vector<GraphAttribute> attributes = {}, std::string name = {});
  /// An operation with several results. @return their names
  std::vector<std::string> add_several(std::string_view operation, std::vector<std::string> inputs,
                                       std::vector<GraphAttribute> attributes, std::size_t results);

  // These return the name of a value without samples.
  std::string parameter(const std::string& name, Sizes sizes);
  /// A parameter (c) as (c, 1, 1), which is repeated over pixels.
  std::string by_channel(const std::string& name, std::int64_t channels);
  std::string number(float value);
  std::string index(std::int64_t value);                 // a single number
  std::string indices(const Sizes& values);              // a vector
  std::string floats(const std::vector<float>& values);  // a vector

  /// Declares what the network returns. @param sizes of a sample; -1: the texts' length
  void output(const GraphValue& x, Sizes sizes);

  std::span<const data::ArraySpec> inputs() const { return inputs_; }
  std::span<const GraphConstant> constants() const { return constants_; }
  std::span<const GraphParameter> parameters() const { return parameters_; }
  std::span<const GraphNode> nodes() const { return nodes_; }
  const GraphValue& output() const { return output_; }
  /// Returns those of a sample's forward pass: of convolutions, linear layers and attention.
  double multiply_adds() const { return multiply_adds_; }

 private:
  std::string constant(Sizes sizes, std::variant<std::vector<float>, Sizes> values);

  std::vector<data::ArraySpec> inputs_;
  std::vector<GraphConstant> constants_;
  std::vector<GraphParameter> parameters_;
  std::vector<GraphNode> nodes_;
  GraphValue output_;
  double multiply_adds_ = 0;
};

}  // namespace eqt::model
