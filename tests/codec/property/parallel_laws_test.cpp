// SPDX-License-Identifier: Apache-2.0
// Properties::concatenates and prefix_bytes() are correct, and make_parallel() gives the inner
// codec's bytes and bits for any number of threads.

#include <atomic>
#include <cstring>
#include <limits>
#include <set>
#include <thread>

#include "codec/parallel.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/counted_allocations.hpp"
#include "support/parallel_cases.hpp"

using namespace eqt;
using namespace eqt::test;

namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t kBuckets[] = {48, 256};  // without and with the fast path of the levels
constexpr int kThreads[] = {1, 2, 3, 5};

codec::EncodeContext context_at(std::uint64_t first_index) {
  codec::EncodeContext context;
  context.key = {3, 14, 1, 5};
  context.first_index = first_index;
  return context;
}

Bytes encoded(const codec::Compressor& compressor, std::span<const float> values,
              std::uint64_t first_index) {
  Workspace workspace;
  Bytes payload(compressor.max_payload_bytes(values.size()));
  payload.resize(compressor.encode(values, context_at(first_index), workspace, payload));
  return payload;
}

struct EncodedValues {
  Bytes payload;
  std::vector<float> residual;
};

EncodedValues encoded_with_feedback(const codec::Compressor& compressor,
                                    std::span<const float> values) {
  Workspace workspace;
  EncodedValues result{Bytes(compressor.max_payload_bytes(values.size())),
                       portable_values(values.size(), 77)};
  result.payload.resize(compressor.encode_with_feedback(values, context_at(64), workspace,
                                                        result.residual, result.payload));
  return result;
}

std::vector<float> decoded(const codec::Compressor& compressor,
                           std::span<const std::span<const std::byte>> payloads,
                           std::size_t count) {
  Workspace workspace;
  std::vector<float> sum = portable_values(count, 99);
  compressor.decode_add_all(payloads, 0.375f, workspace, sum);
  return sum;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

/// `compressor` gives the same results as `inner` for `count` values.
void require_same(const codec::Compressor& inner, const codec::Compressor& compressor,
                  const ParallelCase& parallel, std::size_t count, std::size_t bucket) {
  const auto values = values_for(parallel, count, bucket);
  const Bytes payload = encoded(inner, values, 0);
  CHECK(encoded(compressor, values, 0) == payload);
  const EncodedValues expected = encoded_with_feedback(inner, values);
  const EncodedValues result = encoded_with_feedback(compressor, values);
  CHECK(result.payload == expected.payload);
  CHECK(same_bits(result.residual, expected.residual));
  const Bytes other = encoded(inner, values_for(parallel, count, bucket, 2), 0);
  const std::span<const std::byte> payloads[] = {payload, other, expected.payload};
  for (const std::size_t ranks : {1u, 3u}) {
    const auto some = std::span(payloads).first(ranks);
    CHECK(same_bits(decoded(compressor, some, count), decoded(inner, some, count)));
  }
}

std::string sentence_of(const auto& call) {
  try {
    call();
  } catch (const Error& error) {
    return std::string(kind_name(error.kind())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("payloads that concatenate are those of their ranges, in order", "[parallel]") {
  for (const std::size_t bucket : kBuckets) {
    for (const ParallelCase& parallel : parallel_cases()) {
      const auto inner = parallel.make(bucket);
      INFO(parallel.name << ", buckets of " << bucket);
      REQUIRE(inner->properties().concatenates);
      const std::size_t granule = inner->properties().granule;
      const std::size_t count = 20 * bucket + 5;
      const auto values = values_for(parallel, count, bucket);
      // The last crosses a block of random words, within a bucket for one of the bucket sizes.
      for (const std::uint64_t start : {std::uint64_t{0}, (std::uint64_t{1} << 32) - 6 * bucket,
                                        (std::uint64_t{1} << 32) - 6 * bucket + 7}) {
        const Bytes whole = encoded(*inner, values, start);
        for (const std::size_t buckets : {1u, 3u, 6u, 13u, 20u}) {
          const std::size_t at = buckets * bucket / granule * granule;
          Bytes both = encoded(*inner, std::span(values).first(at), start);
          const Bytes second = encoded(*inner, std::span(values).subspan(at), start + at);
          CHECK(inner->prefix_bytes(whole, at) == (parallel.knows_prefix ? both.size() : 0));
          both.insert(both.end(), second.begin(), second.end());
          CHECK(both == whole);
          CHECK(inner->max_payload_bytes(at) + inner->max_payload_bytes(count - at) <=
                inner->max_payload_bytes(count));
        }
      }
    }
  }
}

TEST_CASE("every codec that concatenates is among the cases", "[parallel]") {
  std::set<codec::CodecId> cases;
  for (const ParallelCase& parallel : parallel_cases()) cases.insert(parallel.make(48)->id());
  for (const Decoder& decoder : decoder_table(48)) {
    if (!decoder.compressor->properties().concatenates) continue;
    const codec::CodecId id = decoder.compressor->id();
    INFO(decoder.name);
    // The same level codec with other numbers.
    CHECK((cases.contains(id) || id == codec::CodecId::e_elastiquant));
  }
}

TEST_CASE("other codecs and a single thread are not wrapped", "[parallel]") {
  const auto is_wrapped = [](std::unique_ptr<codec::Compressor> inner, int threads) {
    const codec::Compressor* before = inner.get();
    return codec::make_parallel(std::move(inner), threads).get() != before;
  };
  CHECK(is_wrapped(codec::make_compressor("none"), 2));
  CHECK_FALSE(is_wrapped(codec::make_compressor("none"), 1));
  CHECK_FALSE(is_wrapped(codec::make_compressor("natural"), 2));
  CHECK_FALSE(is_wrapped(codec::make_compressor("terngrad"), 2));
  CHECK_FALSE(is_wrapped(codec::make_compressor("alq", {.bits = 3}), 2));
  CHECK_FALSE(is_wrapped(codec::make_compressor("topk"), 2));
  CHECK_FALSE(is_wrapped(codec::make_compressor("ef-signsgd"), 2));
}

TEST_CASE("any number of threads gives the same bytes and bits", "[parallel]") {
  for (const std::size_t bucket : kBuckets) {
    for (const ParallelCase& parallel : parallel_cases()) {
      for (const int threads : kThreads) {
        const auto inner = parallel.make(bucket);
        const auto compressor = codec::make_parallel(parallel.make(bucket), threads, 0);
        const std::size_t sizes[] = {0,          1,          bucket - 1,     bucket,
                                     bucket + 1, 2 * bucket, 7 * bucket - 1, 40 * bucket + 11};
        for (const std::size_t count : sizes) {
          INFO(parallel.name << ", buckets of " << bucket << ", " << threads << " threads, "
                             << count << " values");
          require_same(*inner, *compressor, parallel, count, bucket);
        }
      }
    }
  }
}

TEST_CASE("payloads that several threads move are the same", "[parallel]") {
  constexpr std::size_t kBucket = 8192, kCount = 160 * kBucket + 100;
  for (const ParallelCase& parallel : parallel_cases()) {
    if (!std::string(parallel.name).starts_with("elastiquant") &&
        std::string(parallel.name) != "huffman" && std::string(parallel.name) != "qsgd-v-8")
      continue;
    for (const int threads : {2, 3}) {
      INFO(parallel.name << ", " << threads << " threads");
      require_same(*parallel.make(kBucket), *codec::make_parallel(parallel.make(kBucket), threads),
                   parallel, kCount, kBucket);
    }
  }
}

TEST_CASE("payloads whose new place overlaps the old one are moved in order", "[parallel]") {
  constexpr std::size_t kBucket = 8192, kCount = 60 * kBucket;
  // One bucket of zeros, all others raw: every range moves by less than its length.
  auto values = portable_values(kCount, 1, 0x1p125f);
  std::fill_n(values.begin(), kBucket, 0.0f);
  const auto inner = codec::make_compressor("elastiquant", {.bits = 4, .bucket_size = kBucket});
  const Bytes expected = encoded(*inner, values, 0);
  CHECK(expected.size() == inner->max_payload_bytes(kCount) - kBucket * sizeof(float));
  for (const int threads : {2, 3, 5}) {
    const auto compressor = codec::make_parallel(
        codec::make_compressor("elastiquant", {.bits = 4, .bucket_size = kBucket}), threads, 0);
    CHECK(encoded(*compressor, values, 0) == expected);
  }
}

TEST_CASE("the error for a value that is not finite is that of one thread", "[parallel]") {
  constexpr std::size_t kBucket = 256, kCount = 40 * kBucket;
  for (const ParallelCase& parallel : parallel_cases()) {
    const auto inner = parallel.make(kBucket);
    const auto compressor = codec::make_parallel(parallel.make(kBucket), 3, 0);
    for (const std::size_t bad : {std::size_t{0}, std::size_t{21} * kBucket + 3, kCount - 1}) {
      auto values = values_for(parallel, kCount, kBucket);
      values[bad] = std::numeric_limits<float>::infinity();
      values[kCount - 2] = std::numeric_limits<float>::quiet_NaN();
      INFO(parallel.name << ", index " << bad);
      const auto expected = sentence_of([&] { (void)encoded(*inner, values, 0); });
      CHECK(expected.starts_with("diverged"));
      CHECK(sentence_of([&] { (void)encoded(*compressor, values, 0); }) == expected);
      CHECK(sentence_of([&] { (void)encoded_with_feedback(*compressor, values); }) ==
            sentence_of([&] { (void)encoded_with_feedback(*inner, values); }));
    }
  }
}

TEST_CASE("callers at the same time get the same bytes", "[parallel]") {
  constexpr std::size_t kBucket = 256, kCount = 200 * kBucket;
  const ParallelCase& parallel = parallel_cases()[9];
  const auto compressor = codec::make_parallel(parallel.make(kBucket), 2, 0);
  const auto values = values_for(parallel, kCount, kBucket);
  const Bytes expected = encoded(*parallel.make(kBucket), values, 0);
  const std::span<const std::byte> payload(expected);
  const auto sum = decoded(*parallel.make(kBucket), {&payload, 1}, kCount);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 20; ++round) {
        wrong += encoded(*compressor, values, 0) != expected;
        wrong += !same_bits(decoded(*compressor, {&payload, 1}, kCount), sum);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("after the first calls nothing is allocated", "[parallel]") {
  constexpr std::size_t kBucket = 256, kCount = 100 * kBucket;
  for (const ParallelCase& parallel : parallel_cases()) {
    const auto compressor = codec::make_parallel(parallel.make(kBucket), 3, 0);
    const auto values = values_for(parallel, kCount, kBucket);
    Bytes payload(compressor->max_payload_bytes(kCount));
    std::vector<float> sum(kCount);
    Workspace workspace;
    std::size_t before = 0;
    for (int round = 0; round < 6; ++round) {
      if (round == 2) before = allocations();
      const std::size_t bytes = compressor->encode(values, context_at(0), workspace, payload);
      compressor->decode_add(std::span(payload).first(bytes), 1, workspace, sum);
    }
    const std::size_t made = allocations() - before;
    INFO(parallel.name);
    CHECK(made == 0);
  }
}
