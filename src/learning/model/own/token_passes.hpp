// SPDX-License-Identifier: Apache-2.0
// A transformer does this with rows of values between its matrix products: layer normalization and
// the softmax of attention, with their gradients. No torch.
//
// Shapes   values are (rows, columns), row-major; a row is a token, or what a token attends to
// Operands are those of passes.hpp
// Numbers  the sum of a row is one of 16 interleaved sums, whatever the width of vectors: results
//          are the same on all processors with fused multiply-add (exponentials use it)
// Source   J. Ba, J. Kiros, G. Hinton, arXiv:1607.06450, eq. (4), without gain and bias, which the
//          next layer's weights have taken up; A. Vaswani et al., arXiv:1706.03762, eq. (1); the
//          division by the sum of a row after the product, M. Milakov, N. Gimelshein,
//          arXiv:1805.02867

#pragma once

#include <cstddef>
#include <span>

#include "model/own/passes.hpp"

namespace eqt::model::precision {

/// out = (x - mean) * inverse of each row, inverse = 1 / sqrt(variance + epsilon).
/// @param inverse  (rows)
void layer_norm(Floats x, float epsilon, std::span<float> inverse, std::span<float> out);

/// error = error + inverse * (g - mean(g) - y * mean(g y)) of each row, y = normalized * scale.
/// @param g  the error of y
void add_layer_norm_error(Floats g, Bytes normalized, float scale, Floats inverse,
                          std::span<float> error);
void add_layer_norm_error(Floats g, Floats normalized, float scale, Floats inverse,
                          std::span<float> error);

/// x = exp(x - the largest value of the row).
void exponentials(std::size_t columns, std::span<float> x);

/// sums = sum of (q - zero_point) * scale of each row.
void row_sums(Bytes q, int zero_point, float scale, std::span<float> sums);
void row_sums(Floats q, int zero_point, float scale, std::span<float> sums);

/// g = e (g - sum(e g) / total) of each row, e = (q - zero_point) * scale: the error of what the
/// exponentials e were taken of, from the error g of e where e / total counts, and total is taken
/// as a constant in g.
/// @param totals  sums of e, (rows)
void softmax_error(Bytes q, int zero_point, float scale, Floats totals, std::span<float> g);
void softmax_error(Floats q, int zero_point, float scale, Floats totals, std::span<float> g);

/// out = x times the factor of each column.
void scale_columns(Floats x, Floats factors, std::span<float> out);

/// The gradients of a layer whose weight W (rows, columns) takes what a norm returns, y = g x + b:
/// `weight`, which is that of the product with x alone, becomes that of W, and `gains` and `biases`
/// those of g and b.
/// @param bias  the gradient of the layer's bias, (rows)
void unfold_gradient(Floats weights, Floats gain, Floats norm_bias, Floats bias,
                     std::span<float> weight, std::span<float> gains, std::span<float> biases);

/// Copies columns from `first` on, those of out, times a factor.
/// @param columns  of x
void take_columns(Floats x, std::size_t columns, std::size_t first, std::size_t taken, float factor,
                  std::span<float> out);

}  // namespace eqt::model::precision
