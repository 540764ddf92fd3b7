// SPDX-License-Identifier: Apache-2.0
// Speed of the integer collective: its passes on one thread, and whole means against
// scatter-reduce, in turn within one run. Medians; results are tested elsewhere
// (tests/collective/mpi).
//   mpirun -np N integer_speed   (one rank: the passes; more: EQT_BENCH_VALUES, default 11 million)

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/integer/integer_kernels.hpp"
#include "codec/integer/integer_message.hpp"
#include "collective/collective.hpp"
#include "core/clock.hpp"
#include "core/flat_buffer.hpp"
#include "pipeline/engine.hpp"
#include "support/gaussian.hpp"
#include "support/mpi_world.hpp"

#include "support/catch.hpp"

using namespace eqt;

namespace {

constexpr int kRounds = 9;

template <typename F>
double median_seconds(F f) {
  std::vector<double> seconds;
  f();
  for (int i = 0; i < kRounds; ++i) {
    const Stopwatch watch;
    f();
    seconds.push_back(watch.seconds());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[kRounds / 2];
}

std::size_t value_count() {
  const char* wanted = std::getenv("EQT_BENCH_VALUES");
  return wanted == nullptr ? 11'000'000 : static_cast<std::size_t>(std::atoll(wanted));
}

struct Subject {
  std::string name;
  std::unique_ptr<codec::Compressor> compressor;
};

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  all.push_back({"terngrad", codec::make_compressor("terngrad", {.clip = 0})});
  all.push_back({"qsgd-v 4", codec::make_compressor("qsgd-v", {.bits = 4, .bucket_size = 512})});
  all.push_back({"qsgd-v 8", codec::make_compressor("qsgd-v", {.bits = 8, .bucket_size = 512})});
  all.push_back({"int8", codec::make_compressor("int8", {.bucket_size = 512})});
  return all;
}

/// One fusion bucket of 1 MiB, repeatedly, on one thread.
void measure_passes(const Subject& subject) {
  constexpr std::size_t kCount = std::size_t{1} << 18;
  constexpr std::uint32_t kRanks = 4;
  const codec::IntegerMessages messages(subject.compressor->integer_codec(), kRanks);
  const auto values = test::gaussian(kCount, {.run_seed = 1});
  const std::vector<codec::ScaledSegment> segments = {{.segment = {.count = kCount}}};
  std::vector<float> scales(messages.scale_count(segments[0].segment)), mean(kCount);
  std::vector<std::byte> codes(messages.codes_bytes(segments)), sums(messages.sums_bytes(segments));
  const double find = median_seconds([&] { messages.find_scales(segments, values, scales); });
  const double write = median_seconds([&] {
    messages.write_codes(segments, values, {scales, scales}, {}, codes);
  });
  const std::vector<std::span<const std::byte>> frames(kRanks, codes);
  const double add = median_seconds([&] { messages.add_codes(frames, segments, {}, sums); });
  const double read = median_seconds([&] { messages.read_sums(sums, segments, scales, {}, mean); });
  std::vector<std::int8_t> a(kCount, 1), b(kCount, 1);
  const double plain = median_seconds([&] { codec::add_codes(a, std::span(b)); });
  const double gb = kCount * sizeof(float) / 1e9;
  fmt::print(
      "{:10} scales {:5.1f}  quantise+pack {:5.1f}  sum of 4 {:5.1f} per message  decode {:5.1f} "
      "GB/s of fp32; int8 codes added {:5.1f} GB/s of codes\n",
      subject.name, gb / find, gb / write, kRanks * gb / add, gb / read, kCount / 1e9 / plain);
}

void measure_means(const Subject& subject, comm::Communicator& comm, std::size_t count) {
  const Layout layout = {{"weight", {static_cast<std::int64_t>(count / 1000), 1000}, 0, count}};
  const auto& compressor = *subject.compressor;
  const auto plan = pipeline::plan_buckets(layout, compressor, {});
  const auto integer = collective::make_integer(comm, compressor, plan);
  const auto other = pipeline::needs_whole_slices(compressor)
                         ? collective::make_allgather(comm, compressor, plan)
                         : collective::make_scatter_reduce(comm, compressor, plan, {});
  auto values = test::gaussian(count, {.run_seed = static_cast<std::uint64_t>(comm.rank())});
  pipeline::Engine engine(comm, plan);
  collective::MeanWork means(*integer), other_means(*other);
  for (auto* work : {&means, &other_means}) {
    work->prepare({.run_seed = 1, .step = 0, .density = {}}, values);
  }
  const auto time = [&](collective::MeanWork& one) {
    comm.require_same(1, "barrier");
    const Stopwatch watch;
    engine.run(one);
    comm.require_same(1, "barrier");
    return watch.seconds();
  };
  const auto sent = [&](collective::MeanWork& one) {
    const auto before = comm.byte_count().sent_bytes;
    engine.run(one);
    return static_cast<double>(comm.byte_count().sent_bytes - before) / 1e6;
  };
  const double sent_ours = sent(means), sent_theirs = sent(other_means);
  std::vector<double> ours, theirs, ratios;
  for (int i = 0; i < kRounds; ++i) {
    ours.push_back(time(means));
    theirs.push_back(time(other_means));
    ratios.push_back(ours.back() / theirs.back());
  }
  for (auto* list : {&ours, &theirs, &ratios}) std::sort(list->begin(), list->end());
  if (comm.rank() != 0) return;
  fmt::print(
      "{:10} {} ranks: integer {:6.1f} ms, {:5.2f} MB; {} {:6.1f} ms, {:5.2f} MB; ratio {:.2f}\n",
      subject.name, comm.size(), 1e3 * ours[kRounds / 2], sent_ours, other->name(),
      1e3 * theirs[kRounds / 2], sent_theirs, ratios[kRounds / 2]);
}

}  // namespace

TEST_CASE("speed of the integer collective", "[speed]") {
  comm::Communicator comm(test::session(), 300);
  for (const Subject& subject : subjects()) {
    if (comm.size() == 1) measure_passes(subject);
    if (comm.size() > 1) measure_means(subject, comm, value_count());
  }
}
