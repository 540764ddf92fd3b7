// SPDX-License-Identifier: Apache-2.0
// Compares a queue's kernels with the host's codecs, bit for bit; for the emulation and for
// devices.

#pragma once

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "codec/catalogue.hpp"
#include "device/device_codec.hpp"
#include "support/gaussian.hpp"

namespace eqt::test {

struct DeviceCase {
  std::string name;
  std::unique_ptr<codec::Compressor> compressor;
};

/// Every kernel, with buckets of one warp and of several, longer than a group's registers, and of
/// sizes at which words are not aligned or the last block is not whole.
inline std::vector<DeviceCase> device_cases() {
  using codec::CompressorOptions;
  using codec::LevelFamily;
  using codec::Norm;
  std::vector<DeviceCase> cases;
  const auto add = [&](const std::string& name, const CompressorOptions& options = {}) {
    const bool correlated = options.rounding == codec::Rounding::correlated;
    cases.push_back({fmt::format("{} bits {} bucket {}{}", name, options.bits, options.bucket_size,
                                 correlated ? " correlated" : ""),
                     codec::make_compressor(name, options)});
  };
  for (const char* name : {"fp16", "bf16", "signsgd", "ef-signsgd"}) add(name);
  for (const std::size_t size :
       {std::size_t{512}, std::size_t{8192}, std::size_t{1003}, std::size_t{20000}}) {
    add("int8", {.bucket_size = size});
    for (int bits = 2; bits <= 8; ++bits) {
      const CompressorOptions options{.bits = bits, .bucket_size = size};
      add("qsgd", options);
      CompressorOptions elastic = options;
      elastic.norm = bits % 2 == 0 ? Norm::l2 : Norm::max;
      elastic.levels = LevelFamily::sinh;
      add("elastiquant", elastic);
    }
    for (const int bits : {3, 4, 8}) {
      CompressorOptions correlated{.bits = bits, .bucket_size = size};
      correlated.rounding = codec::Rounding::correlated;
      add("elastiquant", correlated);
    }
    add("qsgd-v", {.bits = 4, .bucket_size = size});
    add("nuqsgd", {.bits = 3, .bucket_size = size});
    add("nuqsgd", {.bits = 4, .bucket_size = size});
  }
  return cases;
}

struct DeviceCounts {
  std::size_t comparisons = 0;
  std::size_t bytes = 0;  // compared
  std::vector<std::string> differences;
};

/// Comparisons of one queue with the host.
class DeviceCheck {
 public:
  explicit DeviceCheck(device::Queue& queue) : queue_(queue) {}

  /// Encoding, with a residual if there is one, and adding what was encoded.
  void codec(const DeviceCase& c, std::span<const float> values, std::span<const float> residual,
             const codec::EncodeContext& context, const std::string& what) {
    const std::size_t count = values.size();
    Workspace workspace;
    std::vector<std::byte> expected(c.compressor->max_payload_bytes(count));
    std::vector<float> expected_residual(residual.begin(), residual.end());
    expected.resize(residual.empty()
                        ? c.compressor->encode(values, context, workspace, expected)
                        : c.compressor->encode_with_feedback(values, context, workspace,
                                                             expected_residual, expected));
    device::DeviceCodec codec(*c.compressor, count, queue_);
    const device::Array<float> device_values(queue_, shifted(values));
    const device::Array<float> device_residual(queue_, residual);
    std::vector<std::byte> payload(c.compressor->max_payload_bytes(count));
    codec.start_encode(device_values.data() + 1,
                       residual.empty() ? nullptr : device_residual.data(), count, context,
                       payload);
    payload.resize(codec.finish_encode());
    compare(payload.data(), expected.data(), payload.size(), expected.size(),
            c.name + " encode " + what);
    std::vector<float> left(residual.size());
    download(left, device_residual.data());
    compare(left.data(), expected_residual.data(), left.size() * 4, expected_residual.size() * 4,
            c.name + " residual " + what);

    std::vector<float> expected_sum(values.begin(), values.end()), sum(count);
    c.compressor->decode_add(expected, 0.3f, workspace, expected_sum);
    codec.start_decode_add(expected, 0.3f, device_values.data() + 1, count);
    codec.finish_decode_add();
    download(sum, device_values.data() + 1);
    compare(sum.data(), expected_sum.data(), count * 4, count * 4, c.name + " decode " + what);
  }

  const DeviceCounts& counts() const { return counts_; }

 private:
  /// One value more in front, so that the others are not aligned to 16 bytes.
  static std::vector<float> shifted(std::span<const float> values) {
    std::vector<float> all(1);
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }

  void download(std::vector<float>& to, const float* from) {
    queue_.download(to.data(), from, to.size() * sizeof(float));
    queue_.wait();
  }

  void compare(const void* found, const void* expected, std::size_t found_bytes,
               std::size_t expected_bytes, const std::string& what) {
    if (expected_bytes == 0 && found_bytes == 0) return;
    ++counts_.comparisons;
    counts_.bytes += expected_bytes;
    if (found_bytes == expected_bytes && std::memcmp(found, expected, found_bytes) == 0) return;
    const std::size_t common = std::min(found_bytes, expected_bytes);
    const auto* const a = static_cast<const unsigned char*>(found);
    const auto* const b = static_cast<const unsigned char*>(expected);
    const auto at = static_cast<std::size_t>(std::mismatch(a, a + common, b).first - a);
    counts_.differences.push_back(fmt::format("{}: {} bytes for {}, the first other one is {}",
                                              what, found_bytes, expected_bytes, at));
  }

  device::Queue& queue_;
  DeviceCounts counts_;
};

/// All cases over these counts of values and seeds: plain Gaussian values, with stretches of zeros,
/// very small and very large buckets, and with a residual.
inline DeviceCounts check_device(device::Queue& queue, const std::vector<std::size_t>& counts,
                                 std::uint64_t seeds) {
  DeviceCheck check(queue);
  for (const DeviceCase& c : device_cases()) {
    for (const std::size_t count : counts) {
      for (std::uint64_t seed = 0; seed < seeds; ++seed) {
        codec::EncodeContext context;
        context.key = {seed, 7, 3, 5};
        context.strata = strata_of(3, 4);
        context.first_index = seed % 2 == 0 ? 0 : (std::uint64_t{1} << 32) - count / 2 - 1;
        std::vector<float> values = gaussian(count, {seed, 0, 0, 9});
        const std::vector<float> residual = gaussian(count, {seed, 1, 0, 9});
        const std::string what = fmt::format("of {} values, seed {}", count, seed);
        check.codec(c, values, {}, context, what);
        check.codec(c, values, residual, context, what + ", residual");
        const bool is_half = c.compressor->id() == codec::CodecId::fp16;
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t part = i * 8 / count;
          if (part == 1 || part == 4) values[i] = 0;
          if (part == 2) values[i] *= 0x1p-130f;
          if (part == 5 && !is_half) values[i] *= 0x1p100f;
          if (part == 6 && seed % 2 == 1 && !is_half) values[i] *= 0x1p124f;
        }
        check.codec(c, values, {}, context, what + ", all magnitudes");
      }
    }
  }
  return check.counts();
}

}  // namespace eqt::test
