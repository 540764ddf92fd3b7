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

}  // namespace eqt::bench
