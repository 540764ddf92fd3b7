// SPDX-License-Identifier: Apache-2.0
// Milliseconds of the low-rank codecs on ResNet-18's gradient, by phase, one thread.
//   low_rank_speed [RANK ...]

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/low_rank/low_rank.hpp"
#include "codec/low_rank/spectrum.hpp"
#include "core/clock.hpp"
#include "support/gaussian.hpp"
#include "support/resnet18_shapes.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

constexpr int kRepeats = 15;

/// The shortest of many, because other processes only add time.
double best_ms(const std::function<void()>& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const Stopwatch clock;
    work();
    best = std::min(best, 1e3 * clock.seconds());
  }
  return best;
}

struct Tensor {
  FactorShape shape;
  std::span<float> gradient, left, right, out;
};

/// Every tensor of ResNet-18 with room for its factors.
class Network {
 public:
  explicit Network(std::size_t rank) {
    std::size_t values = 0, factors = 0;
    for (const auto& [rows, columns] : test::resnet18_shapes()) {
      values += rows * columns;
      factors += rank * (rows + columns);
    }
    gradient_ = test::gaussian(values, {.run_seed = 1});
    out_.resize(values);
    factors_.resize(factors);
    std::size_t at = 0, factor = 0;
    for (const auto& [rows, columns] : test::resnet18_shapes()) {
      const FactorShape shape{rows, columns, std::min({rank, rows, columns})};
      const std::size_t count = rows * columns;
      tensors.push_back({shape, std::span(gradient_).subspan(at, count),
                         std::span(factors_).subspan(factor, shape.left()),
                         std::span(factors_).subspan(factor + shape.left(), shape.right()),
                         std::span(out_).subspan(at, count)});
      at += count;
      factor += shape.left() + shape.right();
    }
  }

  std::size_t values() const { return gradient_.size(); }
  std::vector<Tensor> tensors;

 private:
  std::vector<float> gradient_, out_, factors_;
};

void report(const std::string& phase, double ms, double bytes) {
  fmt::print("  {:<34} {:8.2f} ms {:8.1f} GB/s\n", phase, ms, bytes / ms * 1e-6);
}

void measure_phases(std::size_t rank) {
  Network net(rank);
  Workspace workspace;
  const double bytes = 4.0 * static_cast<double>(net.values());
  fmt::print("powersgd rank {}, {} values\n", rank, net.values());
  report("memcpy (read + write)", best_ms([&] {
           for (const Tensor& t : net.tensors) {
             std::memcpy(t.out.data(), t.gradient.data(), t.out.size_bytes());
           }
         }),
         2 * bytes);
  report("start Q (codec: every step)", best_ms([&] {
           for (const Tensor& t : net.tensors) draw_start(1, 0, t.shape, t.right);
         }),
         0);
  const auto p = [](const Tensor& t) { multiply(t.gradient, t.right, t.shape, t.left); };
  const auto basis = [&](const Tensor& t) {
    if (!orthonormalise(t.shape, workspace, t.left)) fmt::print("not finite\n");
  };
  const auto q = [](const Tensor& t) { multiply_transposed(t.gradient, t.left, t.shape, t.right); };
  const auto decode = [](const Tensor& t) { expand(t.left, t.right, t.shape, t.out); };
  const auto all = [&](auto work) {
    return best_ms([&] {
      for (const Tensor& t : net.tensors) work(t);
    });
  };
  report("P = M Q", all(p), bytes);
  report("orthonormalise P", all(basis), 0);
  report("Q = M^T P", all(q), bytes);
  report("decode P Q^T", all(decode), bytes);
  report("all, tensor by tensor", all([&](const Tensor& t) {
           p(t);
           basis(t);
           q(t);
           decode(t);
         }),
         3 * bytes);
}

/// The codec over the whole network: no tensor's values are in the cache.
void measure_codec(const std::string& name, const Compressor& codec) {
  Network net(1);
  Workspace workspace;
  std::vector<std::vector<std::byte>> payloads(net.tensors.size());
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    payloads[i].resize(codec.max_payload_bytes(net.tensors[i].gradient.size()));
  }
  std::vector<std::size_t> bytes(payloads.size());
  const double encode = best_ms([&] {
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      const Tensor& t = net.tensors[i];
      EncodeContext context;
      context.key = {1, 2, 3, static_cast<std::uint32_t>(i)};
      context.rows = t.shape.rows;
      bytes[i] = codec.encode(t.gradient, context, workspace, payloads[i]);
    }
  });
  const double decode = best_ms([&] {
    for (std::size_t i = 0; i < payloads.size(); ++i) {
      const auto payload = std::span(payloads[i]).first(bytes[i]);
      codec.decode_add(payload, 1, workspace, net.tensors[i].out);
    }
  });
  double sent = 0;
  for (const std::size_t n : bytes) sent += static_cast<double>(n);
  fmt::print("{:<24} encode {:7.2f} ms, decode {:6.2f} ms, {:9.0f} bytes, ratio {:.1f}\n", name,
             encode, decode, sent, 4.0 * static_cast<double>(net.values()) / sent);
}

void measure_spectrum() {
  const Network net(1);
  Workspace workspace;
  double singular[kMaxColumns];
  std::vector<double> vectors(kMaxColumns * kMaxColumns);
  const double ms = best_ms([&] {
    for (const Tensor& t : net.tensors) {
      const std::size_t columns = t.shape.columns % kMaxColumns == 0 ? kMaxColumns : 1;
      spectrum(t.gradient, columns, workspace, std::span(singular).first(columns),
               std::span(vectors).first(columns * columns));
    }
  });
  fmt::print("{:<24} {:.2f} ms\n", "spectra of 64 columns", ms);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::size_t> ranks;
  for (int i = 1; i < argc; ++i) ranks.push_back(std::stoul(argv[i]));
  if (ranks.empty()) ranks = {1, 2, 4, 8, 32};
  for (const std::size_t rank : ranks) {
    measure_phases(rank);
    measure_codec("codec powersgd", *make_compressor("powersgd", {.rank = static_cast<int>(rank)}));
  }
  measure_spectrum();
  measure_codec("codec atomo spectral",
                *make_compressor("atomo", {.atoms = Atoms::spectral, .rank = 2}));
  measure_codec("codec atomo entrywise",
                *make_compressor("atomo", {.atoms = Atoms::entrywise, .density = 0.01}));
  return 0;
}
