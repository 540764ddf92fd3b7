// SPDX-License-Identifier: Apache-2.0
// The verbs of `bench`: what compressors and collectives cost, as a table or as JSON lines.

#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace eqt::bench {

/// `bench codecs`: what each compressor costs, sends and loses.
struct BenchCommand {
  std::size_t values = 25557032;         // ResNet-50's parameters
  std::vector<std::string> compressors;  // empty = all
  std::vector<std::string> sets;         // "compressor.key=JSON", in order
  bool json = false;
};

/// Checks each compressor against its promises, then times it and prints a line.
/// @throws Error{usage} for names, keys and values that a config would not take either;
/// Error{bug} if a compressor breaks a promise
void run_bench_codecs(const BenchCommand& command);

/// Gradients of ResNet-20, of four times as many values, and of ResNet-18.
inline constexpr std::array<std::size_t, 3> kBenchSizes = {272474, 1050000, 11173962};

/// `bench collectives`: how long a mean over ranks takes and what it sends, beside MPI_Allreduce.
struct BenchCollectivesCommand {
  std::vector<std::size_t> values;       // empty = kBenchSizes
  std::vector<std::string> collectives;  // empty = all that take the compressor
  std::vector<std::string> sets;         // "compressor.key=JSON" or "synchronization.key=JSON"
  double seconds = 3;                    // for each row, after its check
  bool json = false;
};

/// On all ranks of the job: checks each collective against the exact mean, then times it. Rank 0
/// prints a table or JSON lines.
/// @return exit code
int run_bench_collectives(const BenchCollectivesCommand& command, int argc, char** argv);

/// `bench convolutions`: what the 8-bit convolutions of `model.precision` int8 reach.
struct BenchConvolutionsCommand {
  std::vector<std::string> kernels;  // empty = all of this processor but scalar
  std::string model;                 // whose layers are timed; empty = kLayerShapes
  int samples = 8;                   // of a call
  double seconds = 0.1;              // for each pass of a row, after its check
  bool json = false;
};

/// Compares each pass with plain loops, then times it on this thread in turn with float32, and
/// beside the repeated instruction, for the shapes of ResNet-20 and ResNet-18, or of the model, on
/// images of 32 x 32; prints a row each.
/// @throws Error{usage} for kernels that this processor does not have, and for a model without
/// 8-bit convolutions; Error{bug} if a pass gives another result than plain loops
void run_bench_convolutions(const BenchConvolutionsCommand& command);

}  // namespace eqt::bench
