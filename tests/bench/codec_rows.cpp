// SPDX-License-Identifier: Apache-2.0
// Speed of every codec by name and size, as google-benchmark rows: NAME/encode/VALUES and
// NAME/decode_add/VALUES, bytes per second of float32 gradient. Run by hand:
//
//   build/release/tests/codec_rows --benchmark_filter=qsgd --benchmark_repetitions=5
//
// NAME/threads:T rows use several threads and wall-clock time. 64 Ki values stay in a second-level
// cache; 25,557,032 are ResNet-50's gradient.

#include <benchmark/benchmark.h>

#include "codec/catalogue.hpp"
#include "codec/parallel.hpp"
#include "codec/simd.hpp"
#include "support/decoder_table.hpp"

namespace {

using namespace eqt;
using namespace eqt::test;

constexpr std::size_t kBucket = 8192;
constexpr std::int64_t kSizes[] = {65536, 25557032};

std::span<const float> gradient(std::size_t count) {
  static const std::vector<float> values = portable_values(kSizes[1], 1, 0x1p-10f);
  return std::span(values).first(count);
}

void count_bytes(benchmark::State& state) {
  state.SetBytesProcessed(state.iterations() * state.range(0) *
                          static_cast<std::int64_t>(sizeof(float)));
}

void encode(benchmark::State& state, const codec::Compressor& compressor) {
  const auto values = gradient(static_cast<std::size_t>(state.range(0)));
  std::vector<std::byte> payload(compressor.max_payload_bytes(values.size()));
  Workspace workspace;
  codec::EncodeContext context;
  context.rows = rows_for(values.size());
  for (auto _ : state)
    benchmark::DoNotOptimize(compressor.encode(values, context, workspace, payload));
  count_bytes(state);
}

void decode_add(benchmark::State& state, const codec::Compressor& compressor) {
  const auto values = gradient(static_cast<std::size_t>(state.range(0)));
  const auto payload = payload_of(compressor, values, rows_for(values.size()));
  std::vector<float> sum(values.size());
  Workspace workspace;
  for (auto _ : state) {
    compressor.decode_add(payload, 0.125f, workspace, sum);
    benchmark::ClobberMemory();
  }
  count_bytes(state);
}

/// ElastiQuant with 4 bits, on state.range(1) threads for any size.
std::unique_ptr<codec::Compressor> shared(const benchmark::State& state) {
  return codec::make_parallel(
      codec::make_compressor("elastiquant", {.bits = 4, .bucket_size = kBucket}),
      static_cast<int>(state.range(1)), 0);
}

void encode_shared(benchmark::State& state) { encode(state, *shared(state)); }

void decode_add_shared(benchmark::State& state) { decode_add(state, *shared(state)); }

void feedback_shared(benchmark::State& state) {
  const auto compressor = shared(state);
  const auto values = gradient(static_cast<std::size_t>(state.range(0)));
  std::vector<std::byte> payload(compressor->max_payload_bytes(values.size()));
  std::vector<float> residual(values.size());
  Workspace workspace;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        compressor->encode_with_feedback(values, {}, workspace, residual, payload));
  }
  count_bytes(state);
}

void register_shared() {
  using Row = void (*)(benchmark::State&);
  for (const auto& [name, row] : {std::pair<const char*, Row>{"encode", encode_shared},
                                  {"feedback", feedback_shared},
                                  {"decode_add", decode_add_shared}}) {
    benchmark::RegisterBenchmark(("shared-elastiquant-4/" + std::string(name)).c_str(), row)
        ->ArgNames({"", "threads"})
        ->ArgsProduct({{65536, 131072, 262144, 1048576, kSizes[1]}, {1, 2, 4}})
        ->UseRealTime();
  }
}

}  // namespace

int main(int argc, char** argv) {
  codec::restrict_simd();
  const auto table = decoder_table(kBucket);
  for (const Decoder& decoder : table) {
    const codec::Compressor& compressor = *decoder.compressor;
    for (const std::int64_t size : kSizes) {
      benchmark::RegisterBenchmark((decoder.name + "/encode").c_str(), encode, std::ref(compressor))
          ->Arg(size);
      benchmark::RegisterBenchmark((decoder.name + "/decode_add").c_str(), decode_add,
                                   std::ref(compressor))
          ->Arg(size);
    }
  }
  register_shared();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
