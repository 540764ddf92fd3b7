// SPDX-License-Identifier: Apache-2.0
// DeviceCodec: a compressor whose values are in device memory. Payloads are in host memory, where
// MPI sends and receives them, and have exactly the host codec's bytes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
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
/// True if encoding on a device takes less time than copying the values to the host, as measured
/// (README.md). Not so for ef-signsgd, which adds magnitudes in one order.
bool encodes_sooner(const codec::Compressor& compressor);

struct DeviceLevels;

/// Decodes one segment at a time, and encodes several. One per queue.
class DeviceCodec {
 public:
  /// A segment whose encoding is queued.
  struct Encoding {
    const float* values = nullptr;
    float* residual = nullptr;
    std::size_t count = 0;
    codec::EncodeContext context = {};
    std::span<std::byte> slots = {};       // of all buckets, on the host
    const std::uint32_t* flags = nullptr;  // likewise
  };

  /// @pre has_kernels(compressor); both outlive the codec; no segment has more values than
  /// max_count
  DeviceCodec(const codec::Compressor& compressor, std::size_t max_count, Queue& queue);
  ~DeviceCodec();

  /// Bytes that queue() writes at most for `count` values.
  std::size_t queued_bytes(std::size_t count) const;
  /// Queues the encoding of `count` values and their way to the host. With a residual, values +
  /// residual are encoded, and what was not sent replaces the residual; those of signs are then
  /// finished before the next is queued. Not thread-safe, but others may be finished meanwhile.
  /// @param slots, flags on the host, pinned if the call shall not wait: what finish() reads
  /// @pre slots.size() >= queued_bytes(count) > 0
  Encoding queue(const float* values, float* residual, std::size_t count,
                 const codec::EncodeContext& context, std::span<std::byte> slots,
                 std::uint32_t* flags);
  /// Are all values finite, before and after rounding?
  /// @pre the queue is done with it, as for finish() and refuse()
  static bool is_finite(const Encoding& encoding);
  /// @param spare for payloads with buckets of zeros or with infinite norms
  /// @return the payload, in encoding.slots or in `spare`
  /// @throws Error{diverged} as the compressor's encode()
  [[nodiscard]] std::span<const std::byte> finish(const Encoding& encoding,
                                                  std::vector<std::byte>& spare);

  /// queue() for finish_encode().
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
  void start_levels(const Encoding& encoding);
  void start_signs(const Encoding& encoding);
  std::span<const std::byte> compacted_levels(const Encoding& encoding,
                                              std::vector<std::byte>& spare);
  [[noreturn]] void fail_encoding(const Encoding& encoding);
  [[noreturn]] void fail_decoding();
  bool find_buckets(std::span<const std::byte> payload, std::size_t count);

  const codec::Compressor& compressor_;
  Queue& queue_;
  std::unique_ptr<DeviceLevels> levels_;                                   // of codecs with levels
  std::map<const Strata*, std::unique_ptr<Array<std::uint32_t>>> strata_;  // their bases
  Array<std::byte> payload_;
  Array<std::uint32_t> flags_;
  std::uint32_t found_ = 0;  // the flags, on the host
  std::vector<std::uint64_t> offsets_;
  std::optional<Array<std::uint64_t>> device_offsets_;
  Encoding encoding_;
  std::vector<std::byte> spare_;
  std::span<const std::byte> decoding_;
  std::size_t decoded_count_ = 0;
};

}  // namespace eqt::device
