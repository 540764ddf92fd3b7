// `bench codecs`: what each compressor costs, sends and loses, as a table or as JSON lines.

#pragma once

#include "app/command_line.hpp"

namespace eqt::app {

/// Checks each compressor against its promises, then times it and prints a line.
/// @throws Error{usage} for names, keys and values that a config would not take either;
/// Error{bug} if a compressor breaks a promise
void run_bench_codecs(const BenchCommand& command);

}  // namespace eqt::app
