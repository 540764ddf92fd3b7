// SPDX-License-Identifier: Apache-2.0
// Compresses an array with 4-bit QSGD, decodes it, and prints bits per value and the error.

#include <codec/catalogue.hpp>
#include <cstddef>
#include <cstdio>
#include <vector>

int main() {
  std::vector<float> gradient(100'000);
  for (std::size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = static_cast<float>(i % 251) / 251.0f - 0.5f;

  const auto compressor = eqt::codec::make_compressor("qsgd", {.bits = 4, .bucket_size = 512});
  eqt::Workspace workspace;  // scratch memory: one per thread

  // Stochastic rounding draws its random numbers from these and the index of each value.
  eqt::codec::EncodeContext context;
  context.key = {.run_seed = 1, .step = 0, .rank = 0, .slice = 0};

  std::vector<std::byte> payload(compressor->max_payload_bytes(gradient.size()));
  payload.resize(compressor->encode(gradient, context, workspace, payload));

  std::vector<float> decoded(gradient.size(), 0.0f);
  compressor->decode_add(payload, 1.0f, workspace, decoded);

  double error = 0, square = 0;
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    error += (decoded[i] - gradient[i]) * (decoded[i] - gradient[i]);
    square += gradient[i] * gradient[i];
  }
  const double bits = 8.0 * static_cast<double>(payload.size()) / static_cast<double>(gradient.size());
  std::printf("bits per value %.3f, relative variance %.3f\n", bits, error / square);
  return error <= *compressor->variance_bound(gradient.size()) * square ? 0 : 1;
}
