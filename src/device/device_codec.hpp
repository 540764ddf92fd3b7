// SPDX-License-Identifier: Apache-2.0
// DeviceCodec: a compressor whose values are in device memory. Payloads are in host memory, where
// MPI sends and receives them, and have exactly the host codec's bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "codec/compressor.hpp"
#include "device/queue.hpp"

namespace eqt::device {

/// Does the compressor have kernels? fp16, bf16, int8, signsgd, ef-signsgd, and qsgd, qsgd-v,
/// nuqsgd and elastiquant with fixed coding and levels that stay the same.
bool has_kernels(const codec::Compressor& compressor);

/// Encodes and decodes one segment at a time. Not thread-safe: one per queue.
class DeviceCodec {
 public:
  /// @pre has_kernels(compressor); both outlive the codec; no segment has more values than
  /// max_count
  DeviceCodec(const codec::Compressor& compressor, std::size_t max_count, Queue& queue);
  ~DeviceCodec();

  /// Queues the encoding of `count` values and the payload's way to the host. With a residual,
  /// values + residual are encoded, and what was not sent replaces the residual.
  /// @param payload of at least max_payload_bytes(count); valid when finish_encode() has returned
  void start_encode(const float* values, float* residual, std::size_t count,
                    const codec::EncodeContext& context, std::span<std::byte> payload);
  /// Waits for the queue.
  /// @return the payload's bytes
  /// @throws Error{diverged} as the compressor's encode()
  [[nodiscard]] std::size_t finish_encode();

  /// Queues sum += scale * decoded, after checking the payload's structure.
  /// @throws Error{wire} as the compressor's decode_add()
  void start_decode_add(std::span<const std::byte> payload, float scale, float* sum,
                        std::size_t count);
  /// Waits for the queue.
  /// @throws Error{wire} for a value or code that no encoder writes
  void finish_decode_add();

  /// Upper bound of the bytes of device memory for segments of max_count values.
  std::size_t device_bytes() const noexcept;

 private:
  struct Levels;  // the level table in device memory

  void start_levels(const codec::EncodeContext& context);
  void start_signs();
  std::size_t compacted_levels();
  [[noreturn]] void fail_encoding();
  [[noreturn]] void fail_decoding();
  bool find_buckets(std::span<const std::byte> payload, std::size_t count);

  /// What start_encode() was given.
  struct Encoding {
    const float* values = nullptr;
    float* residual = nullptr;
    std::size_t count = 0;
    codec::EncodeContext context;
    std::span<std::byte> payload;
    std::size_t bytes = 0;  // of all slots
  };

  const codec::Compressor& compressor_;
  Queue& queue_;
  std::unique_ptr<Levels> levels_;
  Array<std::byte> payload_;
  Array<std::uint32_t> flags_;
  std::uint32_t found_ = 0;  // the flags, on the host
  std::vector<std::uint64_t> offsets_;
  std::optional<Array<std::uint64_t>> device_offsets_;
  Encoding encoding_;
  std::span<const std::byte> decoding_;
  std::size_t decoded_count_ = 0;
};

}  // namespace eqt::device
