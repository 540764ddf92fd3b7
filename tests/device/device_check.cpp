// SPDX-License-Identifier: Apache-2.0
// device_check [--quick | --emulate | --measure [TEXT]]: compares every kernel of
// src/codecs/device on the first CUDA device with the host's codecs, then measures what the kernels
// reach of the device's memory bandwidth. --emulate: runs them on the host instead, and measures
// nothing. --measure: compares only what it measures, compressors with TEXT in their names.
//
// Ends with 1 if a byte differs. Without a device: "[eqt-skip]" and a sentence.

#include <cuda_runtime.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "device/cuda_queue.hpp"
#include "support/device_cases.hpp"

namespace eqt::test {
namespace {

using device::Array;
using device::Job;
using device::Queue;

void check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) fail(Kind::bug, "{}: {}", what, cudaGetErrorString(error));
}

/// Passes everything on and keeps the jobs, so that they can be run again alone.
class JobKeeper final : public Queue {
 public:
  explicit JobKeeper(Queue& inner) : inner_(inner) {}
  std::string device_name() const override { return inner_.device_name(); }
  void* allocate(std::size_t bytes) override { return inner_.allocate(bytes); }
  void release(void* memory) noexcept override { inner_.release(memory); }
  void* allocate_pinned(std::size_t bytes) override { return inner_.allocate_pinned(bytes); }
  void release_pinned(void* memory) noexcept override { inner_.release_pinned(memory); }
  void upload(void* to, const void* from, std::size_t n) override { inner_.upload(to, from, n); }
  void download(void* to, const void* from, std::size_t n) override {
    inner_.download(to, from, n);
  }
  void clear(void* memory, std::size_t bytes) override { inner_.clear(memory, bytes); }
  void run(const Job& job) override {
    jobs_.push_back(job);
    inner_.run(job);
  }
  void wait() override { inner_.wait(); }
  std::unique_ptr<device::Event> make_event() override { return inner_.make_event(); }

  std::vector<Job> taken() { return std::exchange(jobs_, {}); }

 private:
  Queue& inner_;
  std::vector<Job> jobs_;
};

class Benchmark {
 public:
  Benchmark(Queue& queue, cudaStream_t stream, std::size_t count)
      : queue_(queue),
        stream_(stream),
        host_(made(count)),
        values_(queue, host_),
        residual_(queue, std::vector<float>(count)) {
    check(cudaEventCreate(&begin_), "cudaEventCreate");
    check(cudaEventCreate(&end_), "cudaEventCreate");
  }

  /// Bytes per second of a copy, read and written.
  double measure_copy() {
    const std::size_t bytes = host_.size() * sizeof(float);
    const Array<std::byte> from(queue_, bytes), to(queue_, bytes);
    bandwidth_ =
        2.0 * static_cast<double>(bytes) / median_seconds([&] {
          check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream_),
                "cudaMemcpyAsync");
        });
    return bandwidth_;
  }

  /// @return false if the payload is not the host's
  bool measure(const DeviceCase& c) {
    const std::size_t n = host_.size();
    JobKeeper keeper(queue_);
    device::DeviceCodec codec(*c.compressor, n, keeper);
    std::vector<std::byte> payload(c.compressor->max_payload_bytes(n)), expected(payload.size());
    codec::EncodeContext context;
    context.key = {1, 2, 3, 4};
    codec.start_encode(values_.data(), nullptr, n, context, payload);
    payload.resize(codec.finish_encode());
    const auto encode = keeper.taken();
    Workspace workspace;
    expected.resize(c.compressor->encode(host_, context, workspace, expected));
    const bool same = payload == expected;

    const double size = static_cast<double>(payload.size()), values = static_cast<double>(n);
    report(c.name, "encode", 4 * values + size, encode);
    if (c.compressor->properties().needs_feedback || c.name.starts_with("elastiquant bits 4")) {
      payload.resize(c.compressor->max_payload_bytes(n));
      codec.start_encode(values_.data(), residual_.data(), n, context, payload);
      const bool is_sign = c.compressor->id() == codec::CodecId::ef_signsgd;
      payload.resize(codec.finish_encode());
      report(c.name, "encode, residual", (is_sign ? 24 : 12) * values + 2 * size, keeper.taken());
    }
    codec.start_decode_add(payload, 0.5f, residual_.data(), n);
    codec.finish_decode_add();
    report(c.name, "decode-add", 8 * values + size, keeper.taken());
    return same;
  }

 private:
  static std::vector<float> made(std::size_t count) {
    // Copies of a few million values, because drawing more would take longer than all kernels.
    const std::vector<float> some = gaussian(std::min<std::size_t>(count, 1 << 22), {1, 2, 3, 4});
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = some[i % some.size()] * (1 + static_cast<float>(i / some.size()));
    }
    return values;
  }

  double median_seconds(const std::function<void()>& queued) {
    constexpr int kWarmUp = 3, kRepeats = 21;
    std::vector<float> milliseconds(kRepeats);
    for (int k = 0; k < kWarmUp; ++k) queued();
    for (float& ms : milliseconds) {
      check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
      queued();
      check(cudaEventRecord(end_, stream_), "cudaEventRecord");
      check(cudaEventSynchronize(end_), "cudaEventSynchronize");
      check(cudaEventElapsedTime(&ms, begin_, end_), "cudaEventElapsedTime");
    }
    std::nth_element(milliseconds.begin(), milliseconds.begin() + kRepeats / 2, milliseconds.end());
    return static_cast<double>(milliseconds[kRepeats / 2]) * 1e-3;
  }

  void report(const std::string& name, const char* what, double bytes,
              const std::vector<Job>& jobs) {
    const double seconds = median_seconds([&] {
      for (const Job& job : jobs) queue_.run(job);
    });
    const double moved = bytes / seconds;
    fmt::print("{:<32} {:<17} {:>10.1f} {:>9.1f} {:>9.1f} {:>6.0f} %\n", name, what, seconds * 1e6,
               4e-9 * static_cast<double>(host_.size()) / seconds, moved * 1e-9,
               100 * moved / bandwidth_);
  }

  Queue& queue_;
  cudaStream_t stream_;
  std::vector<float> host_;
  Array<float> values_, residual_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  double bandwidth_ = 1;
};

bool measure(Queue& queue, cudaStream_t stream, std::size_t count, const std::string& text) {
  using codec::CompressorOptions;
  Benchmark benchmark(queue, stream, count);
  fmt::print("\n{} values ({} MB of float32); a copy moves {:.0f} GB/s, read and written\n", count,
             count * 4 / 1000000, benchmark.measure_copy() * 1e-9);
  fmt::print("{:<32} {:<17} {:>10} {:>9} {:>9} {:>8}\n", "", "", "us", "GB/s fp32", "GB/s mem",
             "of copy");
  std::vector<DeviceCase> cases;
  const auto add = [&](const std::string& name, const CompressorOptions& options = {}) {
    cases.push_back({fmt::format("{} bits {} bucket {}", name, options.bits, options.bucket_size),
                     codec::make_compressor(name, options)});
  };
  for (const char* name : {"fp16", "bf16", "signsgd"}) add(name);
  if (count <= 1 << 24) add("ef-signsgd");
  add("int8", {.bucket_size = 8192});
  for (const int bits : {2, 3, 4, 8}) add("qsgd", {.bits = bits, .bucket_size = 512});
  add("qsgd-v", {.bits = 4, .bucket_size = 512});
  for (const int bits : {2, 4, 8}) add("elastiquant", {.bits = bits, .bucket_size = 8192});
  add("nuqsgd", {.bits = 4, .bucket_size = 8192});
  add("elastiquant", {.bits = 4, .bucket_size = 512, .norm = codec::Norm::max});
  bool same = true;
  for (const DeviceCase& c : cases) {
    if (c.name.find(text) == std::string::npos || benchmark.measure(c)) continue;
    fmt::print("{}: the payload is not the host's\n", c.name);
    same = false;
  }
  return same;
}

/// @return true if all bytes are the host's
bool compare(Queue& queue, std::uint64_t seeds) {
  const auto counts = check_device(queue, {1, 31, 32, 513, 1024, 2047, 8192, 20011, 300007}, seeds);
  constexpr std::size_t kShown = 20;
  for (std::size_t k = 0; k < std::min(kShown, counts.differences.size()); ++k) {
    fmt::print("{}\n", counts.differences[k]);
  }
  fmt::print("{}: {} comparisons with the host's codecs, {} bytes: {} differ\n",
             queue.device_name(), counts.comparisons, counts.bytes, counts.differences.size());
  return counts.differences.empty();
}

/// What a queue refuses, each with exit code 2 and the number that it could not have.
bool refuses(Queue& queue) {
  const auto sentence = [](const std::function<void()>& work) -> std::string {
    try {
      work();
    } catch (const Error& error) {
      fmt::print("refused ({}): {}\n", kind_name(error.kind()), error.what());
      if (error.kind() == Kind::usage) return error.what();
    }
    return "";
  };
  constexpr std::size_t kTooMuch = std::size_t{1} << 45;
  const int count = device::cuda_device_count();
  const auto memory = sentence([&] { static_cast<void>(queue.allocate(kTooMuch)); });
  const auto device = sentence([&] { static_cast<void>(device::make_cuda_queue(count)); });
  return memory.find(fmt::format("{}", kTooMuch)) != std::string::npos &&
         device.find(fmt::format("CUDA device {}", count)) != std::string::npos;
}

int run(bool quick, bool only_measure, const std::string& text) {
  if (device::cuda_device_count() == 0) {
    fmt::print("[eqt-skip] there is no CUDA device here\n");
    return 0;
  }
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  const auto queue = device::make_cuda_queue(0, stream);
  int driver = 0, runtime = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  check(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  fmt::print("{}, driver for CUDA {}, runtime {}\n", queue->device_name(), driver, runtime);

  bool same = only_measure || (refuses(*queue) && compare(*queue, quick ? 2 : 6));
  constexpr std::size_t kLargest = std::size_t{1} << 26;
  for (const std::size_t count : {std::size_t{1} << 18, std::size_t{1} << 22, kLargest}) {
    if (quick && count != kLargest) continue;
    same = measure(*queue, stream, count, text) && same;
  }
  return same ? 0 : 1;
}

}  // namespace
}  // namespace eqt::test

int main(int argc, char** argv) {
  const std::string option = argc > 1 ? argv[1] : "";
  try {
    if (option == "--emulate") {
      return eqt::test::compare(*eqt::device::make_emulated_queue(), 2) ? 0 : 1;
    }
    return eqt::test::run(option == "--quick", option == "--measure", argc > 2 ? argv[2] : "");
  } catch (const eqt::Error& error) {
    fmt::print(stderr, "device_check: {}\n", error.what());
    return error.exit_code();
  }
}
