// `bench codecs`: what each compressor costs, sends and loses, as a table or as JSON lines.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace eqt::bench {

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

}  // namespace eqt::bench
