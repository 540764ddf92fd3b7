// SPDX-License-Identifier: Apache-2.0
// A convolution of bf16 images by float32 weights. Private to this room.
//
// Source   mixed precision with float32 masters: P. Micikevicius et al., ICLR 2018,
//          arXiv:1710.03740, section 3.1; bf16 needs no scaled loss: D. Kalamkar et al. 2019,
//          arXiv:1905.12322
// Numbers  operands, outputs and what is saved for backward are bf16, sums of products float32. The
//          weight's gradient is float32, but native arithmetic rounds it to bf16

#pragma once

#include <torch/types.h>

#include <cstdint>

#include "model/bf16.hpp"

namespace eqt::model {

/// @param x (n, in, h, w), float32 or bf16
/// @param weight (out, in, kernel, kernel), float32
/// @param bias (out), float32, or undefined
/// @return bf16, channels last
at::Tensor convolve_bf16(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                         std::int64_t stride, std::int64_t padding, Bf16Arithmetic arithmetic);

}  // namespace eqt::model
