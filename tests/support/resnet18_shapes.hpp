// SPDX-License-Identifier: Apache-2.0
// The weight tensors of ResNet-18 with the CIFAR stem and ten classes, as matrices.

#pragma once

#include <cstddef>
#include <vector>

namespace eqt::test {

struct MatrixShape {
  std::size_t rows, columns;
  std::size_t count() const { return rows * columns; }
};

/// Convolutions are (out, kh * kw * in); biases and normalization layers are left out.
inline std::vector<MatrixShape> resnet18_shapes() {
  std::vector<MatrixShape> shapes = {{64, 9 * 3}};
  std::size_t in = 64;
  for (const std::size_t out : {64u, 128u, 256u, 512u}) {
    for (int block = 0; block < 2; ++block) {
      shapes.push_back({out, 9 * in});
      shapes.push_back({out, 9 * out});
      if (in != out) shapes.push_back({out, in});
      in = out;
    }
  }
  shapes.push_back({10, 512});
  return shapes;
}

}  // namespace eqt::test
