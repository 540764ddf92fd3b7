// SPDX-License-Identifier: Apache-2.0
// Measures the noise of the mean of ranks that round alone, over that of ranks that round against
// each other, at equal bytes.
//
// rounding_noise [FILE.npy...]: without files, values with a part that all ranks share, drawn from
// two distributions; with files, the gradients of as many ranks, as output.dump_gradients writes
// them (of one rank in successive steps, if the parameters hardly move). It prints a table in
// Markdown: E|mean of decoded - mean|^2 of independent over correlated rounding, by ranks, over
// kDraws draws. The standard error of a ratio is about 1 %.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "analyze/dumped_gradient.hpp"
#include "codec/catalogue.hpp"
#include "core/error.hpp"
#include "core/strata.hpp"
#include "theory/sampling.hpp"

namespace {

using namespace eqt;
using namespace eqt::codec;

constexpr int kDraws = 16;
constexpr std::size_t kLeastValues = 1024;  // smaller tensors are sent as float32
constexpr std::uint32_t kRankCounts[] = {2, 4, 8, 18};
constexpr std::string_view kNames[] = {"elastiquant", "e-elastiquant", "qsgd", "terngrad",
                                       "natural"};

struct Vectors {
  std::vector<std::vector<float>> of_rank;
  Layout layout;
};

/// Gradients of ranks with |g|^2 / |mean|^2 about 3.6 for four ranks, as early in training.
Vectors drawn(std::string_view source) {
  constexpr std::size_t kValues = std::size_t{1} << 18;
  constexpr float kCommon = 0.37f;  // of the variance
  Vectors vectors;
  const auto common = theory::draw(source, kValues, 99);
  for (std::uint64_t rank = 0; rank < 18; ++rank) {
    auto own = theory::draw(source, kValues, 100 + rank);
    for (std::size_t i = 0; i < kValues; ++i)
      own[i] = std::sqrt(kCommon / 3) * common[i] + std::sqrt(1 - kCommon / 3) * own[i];
    vectors.of_rank.push_back(std::move(own));
  }
  vectors.layout.push_back({.name = "all", .shape = {}, .offset = 0, .count = kValues});
  return vectors;
}

Vectors read(int files, char** paths) {
  Vectors vectors;
  for (int i = 0; i < files; ++i) {
    analyze::DumpedGradient gradient = analyze::read_dumped_gradient(paths[i]);
    if (i > 0 && gradient.values.size() != vectors.of_rank[0].size())
      fail(Kind::usage, "{}: expected as many values as in the first file", paths[i]);
    vectors.layout = gradient.layout;
    vectors.of_rank.push_back(std::move(gradient.values));
  }
  return vectors;
}

/// The sum over tensors and draws of |mean of decoded - mean|^2.
double noise(const Compressor& compressor, const Vectors& vectors, std::uint32_t ranks) {
  double squares = 0;
  Workspace workspace;
  std::uint32_t slice = 0;
  for (const TensorSlice& tensor : vectors.layout) {
    ++slice;
    if (tensor.count < kLeastValues) continue;
    const auto part = [&](std::uint32_t rank) {
      return std::span(vectors.of_rank[rank]).subspan(tensor.offset, tensor.count);
    };
    float scale = 0;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      scale = std::max(scale, compressor.local_scale(part(rank)));
    std::vector<std::byte> payload(compressor.max_payload_bytes(tensor.count));
    for (int draw = 0; draw < kDraws; ++draw) {
      std::vector<float> sum(tensor.count);
      for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        EncodeContext context;
        context.key = {
            .run_seed = 7, .step = static_cast<StepId>(draw), .rank = rank, .slice = slice};
        context.strata = strata_of(rank, ranks);
        if (compressor.properties().shared_scale) context.shared_scale = scale;
        const std::size_t bytes = compressor.encode(part(rank), context, workspace, payload);
        compressor.decode_add(std::span(payload).first(bytes), 1, workspace, sum);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] -= part(rank)[i];
      }
      for (const float error : sum) squares += static_cast<double>(error) * error;
    }
  }
  return squares;
}

void print_table(std::string_view title, const Vectors& vectors) {
  fmt::print("| {} |", title);
  std::vector<std::uint32_t> counts;
  for (const std::uint32_t ranks : kRankCounts)
    if (ranks <= vectors.of_rank.size()) counts.push_back(ranks);
  for (const std::uint32_t ranks : counts) fmt::print(" {} ranks |", ranks);
  fmt::print("\n|---|");
  for (std::size_t i = 0; i < counts.size(); ++i) fmt::print("---|");
  fmt::print("\n");
  for (const std::string_view name : kNames) {
    const auto row = CompressorRow::all().at(name);
    CompressorOptions options;
    if (row->choose_defaults != nullptr) row->choose_defaults(options);
    const auto alone = row->make(*row, options);
    options.rounding = Rounding::correlated;
    const auto together = row->make(*row, options);
    fmt::print("| {} |", name);
    for (const std::uint32_t ranks : counts)
      fmt::print(" {:.2f} |", noise(*alone, vectors, ranks) / noise(*together, vectors, ranks));
    fmt::print("\n");
  }
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc > 1) {
      print_table("gradients", read(argc - 1, argv + 1));
    } else {
      print_table("Gaussian", drawn("normal"));
      print_table("Laplace", drawn("laplace"));
    }
  } catch (const Error& error) {
    fmt::print(stderr, "rounding_noise: {}\n", error.what());
    return 2;
  }
}
