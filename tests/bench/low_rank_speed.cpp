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

#include "codec/codecs.hpp"
#include "codec/low_rank.hpp"
#include "core/clock.hpp"
#include "support/gaussian.hpp"
#include "support/resnet18_shapes.hpp"

using namespace eqt;
using namespace eqt::codec;

namespace {

constexpr int kRepeats = 15;

/// The shortest of many: other processes only ever add.
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

void measure_codec(const std::string& name, const Compressor& codec) {
  Network net(1);
  Workspace workspace;
  std::vector<std::byte> payload;
  std::vector<std::size_t> sizes;
  double encode = 0, decode = 0, sent = 0;
  for (const Tensor& t : net.tensors) {
    payload.resize(codec.max_payload_bytes(t.gradient.size()));
    const EncodeContext context{
        .key = {1, 2, 3, 4}, .shared_scale = {}, .density = {}, .rows = t.shape.rows};
    std::size_t bytes = 0;
    encode += best_ms([&] { bytes = codec.encode(t.gradient, context, workspace, payload); });
    decode +=
        best_ms([&] { codec.decode_add(std::span(payload).first(bytes), 1, workspace, t.out); });
    sent += static_cast<double>(bytes);
  }
  fmt::print("{}: encode {:.2f} ms, decode {:.2f} ms, {:.0f} bytes, ratio {:.1f}\n", name, encode,
             decode, sent, 4.0 * static_cast<double>(net.values()) / sent);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::size_t> ranks;
  for (int i = 1; i < argc; ++i) ranks.push_back(std::stoul(argv[i]));
  if (ranks.empty()) ranks = {1, 2, 4, 8, 32};
  for (const std::size_t rank : ranks) {
    measure_phases(rank);
    measure_codec("codec powersgd", *make_powersgd({.rank = static_cast<int>(rank)}));
  }
  return 0;
}
