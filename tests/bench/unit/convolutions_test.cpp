// SPDX-License-Identifier: Apache-2.0
#include <functional>

#include "bench/bench.hpp"
#include "bench/layer.hpp"
#include "bench/onednn.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;

namespace {

constexpr int8::ConvolutionShape kShape = {4, 4, 3, 5, 3, 2};

/// Has what plain loops compute, with one value of a result larger by `off`.
class PlainLoops final : public bench::OneDnn {
 public:
  PlainLoops(bench::Pass wrong, bench::Operands operands, float off)
      : wrong_(wrong), operands_(operands), off_(off) {}

  std::string version() const override { return "0"; }
  std::string instructions() const override { return "none"; }
  std::unique_ptr<bench::OneDnnPass> pass(const int8::ConvolutionShape& shape, int samples,
                                          bench::Pass pass, bench::Operands operands,
                                          const bench::LayerIntegers& integers) override {
    const auto count = static_cast<std::size_t>(samples);
    bench::Layer layer(shape, int8::Kernels::scalar, std::vector<float>(count, 1), true);
    // Below 128, so that no instruction saturates.
    for (const std::int8_t x : integers.x) CHECK(x < 0);
    layer.run(pass);
    std::vector<float> result = layer.result(pass);
    if (pass == wrong_ && operands == operands_) result.back() += off_;
    return std::make_unique<Result>(result);
  }

 private:
  class Result final : public bench::OneDnnPass {
   public:
    explicit Result(std::vector<float> values) : values_(std::move(values)) {}
    void run() override {}
    std::vector<float> result() const override { return values_; }
    std::string implementation() const override { return "plain loops"; }

   private:
    std::vector<float> values_;
  };

  bench::Pass wrong_;
  bench::Operands operands_;
  float off_;
};

}  // namespace

TEST_CASE("another library's convolutions must have the integers of ours", "[bench]") {
  using bench::Operands;
  using bench::Pass;
  const auto compare = [](Pass pass, Operands operands, float off) {
    PlainLoops other(pass, operands, off);
    bench::require_same_results(kShape, int8::fastest_here(), other);
  };
  for (const Pass pass : bench::kPasses) {
    CHECK_NOTHROW(compare(pass, Operands::int8, 0));
    CHECK_THROWS_WITH(compare(pass, Operands::int8, 1),
                      Catch::Matchers::ContainsSubstring("oneDNN's plain loops"));
    CHECK_NOTHROW(compare(pass, Operands::f32, 1));
    CHECK_THROWS_AS(compare(pass, Operands::f32, 1e6f), Error);
    CHECK_THROWS_AS(compare(pass, Operands::bf16, 1e6f), Error);
  }
}

TEST_CASE("work is timed in turn, three turns at least", "[bench]") {
  std::vector<int> calls(2);
  int changes = 0, last = 0;
  const auto work = [&](int which) {
    ++calls[static_cast<std::size_t>(which)];
    changes += which != last;
    last = which;
  };
  const std::function<void()> works[] = {[&] { work(0); }, [&] { work(1); }};
  const std::vector<double> seconds = bench::median_seconds_in_turn(works, 0);
  REQUIRE(seconds.size() == 2);
  for (const double s : seconds) CHECK(s > 0);
  // Each is called twice before the turns.
  for (const int count : calls) CHECK(count >= 5);
  CHECK(changes >= 6);
}

TEST_CASE("bench convolutions refuses models without 8-bit convolutions", "[bench]") {
  for (const char* name : {"nothing", "bert"}) {
    bench::BenchConvolutionsCommand command;
    command.model = name;
    CHECK_THROWS_WITH(
        bench::run_bench_convolutions(command),
        Catch::Matchers::ContainsSubstring("expected") && Catch::Matchers::ContainsSubstring(name));
  }
}

TEST_CASE("bench convolutions refuses kernels that the processor does not have", "[bench]") {
  for (const char* name : {"scalar", "avx9"}) {
    bench::BenchConvolutionsCommand command;
    command.kernels = {name};
    CHECK_THROWS_WITH(bench::run_bench_convolutions(command),
                      Catch::Matchers::ContainsSubstring("expected one of"));
  }
}
