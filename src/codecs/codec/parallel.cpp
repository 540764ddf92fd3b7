// SPDX-License-Identifier: Apache-2.0
#include "codec/parallel.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "codec/integer/integer_codec.hpp"
#include "codec/mixed/mixed_grades.hpp"
#include "core/error.hpp"
#include "core/worker_threads.hpp"

namespace eqt::codec {
namespace {

using Payload = std::span<const std::byte>;

constexpr ScratchArray<Payload> kRangePayloads{0};

// Ranges are cut at multiples of this many values at least, so that threads share no cache line.
constexpr std::size_t kMinCut = 64;
// Decoding is faster than encoding by about this factor.
constexpr std::size_t kDecodeSpeed = 4;
// One thread moves fewer bytes than this.
constexpr std::size_t kMinMove = std::size_t{1} << 18;

// The range that one thread encodes or decodes.
struct Range {
  std::size_t begin = 0, count = 0;         // values
  std::size_t from = 0, to = 0, bytes = 0;  // of the payload: where encoded, where it belongs
};

class Parallel final : public Compressor {
 public:
  Parallel(std::unique_ptr<Compressor> inner, std::size_t threads, std::size_t least_values)
      : inner_(std::move(inner)),
        least_values_(least_values),
        workers_(threads),
        workspaces_(threads),
        ranges_(threads) {}

  CodecId id() const noexcept override { return inner_->id(); }
  std::uint8_t format_version() const noexcept override { return inner_->format_version(); }
  Properties properties() const noexcept override { return inner_->properties(); }
  std::size_t max_payload_bytes(std::size_t count) const override {
    return inner_->max_payload_bytes(count);
  }
  std::size_t prefix_bytes(Payload payload, std::size_t count) const override {
    return inner_->prefix_bytes(payload, count);
  }
  std::optional<double> variance_bound(std::size_t count) const override {
    return inner_->variance_bound(count);
  }
  float local_scale(std::span<const float> values) const override {
    return inner_->local_scale(values);
  }
  std::unique_ptr<IntegerCodec> integer_codec() const override { return inner_->integer_codec(); }
  const LevelRounding* level_rounding() const noexcept override { return inner_->level_rounding(); }
  AdaptiveLevelCodec* adaptive_levels() noexcept override { return inner_->adaptive_levels(); }
  MixedGrades* mixed_grades() noexcept override { return inner_->mixed_grades(); }
  void require_payload_of(std::uint32_t slice, Payload payload) const override {
    inner_->require_payload_of(slice, payload);
  }
  void finish_mean(std::span<float> mean) const override { inner_->finish_mean(mean); }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override;
  std::size_t encode_with_feedback(std::span<const float> gradient, const EncodeContext& context,
                                   Workspace& workspace, std::span<float> residual,
                                   std::span<std::byte> payload) const override;
  void decode_add(Payload payload, float scale, Workspace& workspace,
                  std::span<float> sum) const override {
    decode_add_all(std::span(&payload, 1), scale, workspace, sum);
  }
  void decode_add_all(std::span<const Payload> payloads, float scale, Workspace& workspace,
                      std::span<float> sum) const override;

 private:
  // Shared by all calls: only the holder of `busy_` uses them.
  std::span<Range> cut(std::size_t count, std::size_t work) const;
  template <typename EncodeRange>
  std::size_t encode_ranges(std::span<Range> ranges, const EncodeContext& context,
                            Workspace& workspace, std::span<std::byte> payload,
                            const EncodeRange& encode_range) const;
  std::size_t move_together(std::span<Range> ranges, std::span<std::byte> payload) const;
  bool split(std::span<const Payload> payloads, std::span<const Range> ranges,
             std::span<Payload> range_payloads) const;
  Workspace& workspace_of(std::size_t part, Workspace& callers) const {
    return part == 0 ? callers : workspaces_[part];
  }

  std::unique_ptr<Compressor> inner_;
  std::size_t least_values_;
  mutable std::mutex busy_;
  mutable WorkerThreads workers_;
  mutable std::vector<Workspace> workspaces_;  // by thread; the first is for kRangePayloads
  mutable std::vector<Range> ranges_;
};

// At most one range per thread, of about equal length; fewer if there are few granules, none if the
// work [values encoded] is too small.
std::span<Range> Parallel::cut(std::size_t count, std::size_t work) const {
  if (count == 0 || work < least_values_) return {};
  const std::size_t granule = inner_->properties().granule;
  const std::size_t unit = granule * ((kMinCut + granule - 1) / granule);
  const std::size_t units = count / unit + (count % unit != 0);
  const std::size_t parts = std::min(units, workers_.count());
  const std::size_t each = units / parts, longer = units % parts;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t length = std::min((each + (i < longer)) * unit, count - begin);
    ranges_[i] = {.begin = begin, .count = length};
    begin += length;
  }
  return std::span(ranges_).first(parts);
}

template <typename EncodeRange>
std::size_t Parallel::encode_ranges(std::span<Range> ranges, const EncodeContext& context,
                                    Workspace& workspace, std::span<std::byte> payload,
                                    const EncodeRange& encode_range) const {
  std::size_t room = 0;
  for (Range& range : ranges) {
    range.from = room;
    range.bytes = inner_->max_payload_bytes(range.count);
    room += range.bytes;
  }
  EQT_CHECK(payload.size() >= room, "a payload buffer of {} bytes for ranges of {}", payload.size(),
            room);
  workers_.run(ranges.size(), [&](std::size_t part) {
    Range& range = ranges[part];
    EncodeContext own = context;
    own.first_index += range.begin;
    own.rows = 0;
    range.bytes = encode_range(range, own, workspace_of(part, workspace),
                               payload.subspan(range.from, range.bytes));
  });
  return move_together(ranges, payload);
}

std::size_t Parallel::move_together(std::span<Range> ranges, std::span<std::byte> payload) const {
  std::size_t total = 0, moved = 0;
  for (Range& range : ranges) {
    range.to = total;
    total += range.bytes;
    if (range.to != range.from) moved += range.bytes;
  }
  // A thread must not write where another still reads.
  const bool apart = ranges.size() > 1 && total <= ranges[1].from;
  if (!apart || moved < kMinMove) {
    for (const Range& range : ranges) {
      if (range.to != range.from)
        std::memmove(payload.data() + range.to, payload.data() + range.from, range.bytes);
    }
    return total;
  }
  const std::size_t begin = total - moved;
  workers_.run(ranges.size(), [&](std::size_t part) {
    const std::size_t first = begin + moved / ranges.size() * part;
    const std::size_t end =
        part + 1 == ranges.size() ? total : begin + moved / ranges.size() * (part + 1);
    for (const Range& range : ranges.subspan(1)) {
      const std::size_t low = std::max(first, range.to),
                        high = std::min(end, range.to + range.bytes);
      if (low < high)
        std::memcpy(payload.data() + low, payload.data() + range.from + (low - range.to),
                    high - low);
    }
  });
  return total;
}

std::size_t Parallel::encode(std::span<const float> values, const EncodeContext& context,
                             Workspace& workspace, std::span<std::byte> payload) const {
  const std::unique_lock lock(busy_, std::try_to_lock);
  const auto ranges = lock ? cut(values.size(), values.size()) : std::span<Range>();
  if (ranges.size() < 2) return inner_->encode(values, context, workspace, payload);
  try {
    return encode_ranges(ranges, context, workspace, payload,
                         [&](const Range& range, const EncodeContext& own, Workspace& scratch,
                             std::span<std::byte> to) {
                           return inner_->encode(values.subspan(range.begin, range.count), own,
                                                 scratch, to);
                         });
  } catch (const Error&) {
    // Encoding everything fails like the range did, but the message has the index in the whole
    // input.
    return inner_->encode(values, context, workspace, payload);
  }
}

std::size_t Parallel::encode_with_feedback(std::span<const float> gradient,
                                           const EncodeContext& context, Workspace& workspace,
                                           std::span<float> residual,
                                           std::span<std::byte> payload) const {
  EQT_CHECK(residual.size() == gradient.size(), "{} residuals for {} values", residual.size(),
            gradient.size());
  const std::unique_lock lock(busy_, std::try_to_lock);
  const auto ranges = lock ? cut(gradient.size(), gradient.size()) : std::span<Range>();
  if (ranges.size() < 2)
    return inner_->encode_with_feedback(gradient, context, workspace, residual, payload);
  try {
    return encode_ranges(ranges, context, workspace, payload,
                         [&](const Range& range, const EncodeContext& own, Workspace& scratch,
                             std::span<std::byte> to) {
                           return inner_->encode_with_feedback(
                               gradient.subspan(range.begin, range.count), own, scratch,
                               residual.subspan(range.begin, range.count), to);
                         });
  } catch (const Error&) {
    // The residual now has the values that could not be encoded, see encode().
    (void)inner_->encode(residual, context, workspace, payload);
    throw;
  }
}

// Finds the bytes of each range in each payload, grouped by range; false if they are not known.
bool Parallel::split(std::span<const Payload> payloads, std::span<const Range> ranges,
                     std::span<Payload> range_payloads) const {
  for (std::size_t k = 0; k < payloads.size(); ++k) {
    Payload rest = payloads[k];
    for (std::size_t i = 0; i + 1 < ranges.size(); ++i) {
      const std::size_t bytes = inner_->prefix_bytes(rest, ranges[i].count);
      if (bytes == 0) return false;
      EQT_CHECK(bytes <= rest.size(), "a prefix of {} bytes in {}", bytes, rest.size());
      range_payloads[i * payloads.size() + k] = rest.first(bytes);
      rest = rest.subspan(bytes);
    }
    range_payloads[(ranges.size() - 1) * payloads.size() + k] = rest;
  }
  return true;
}

void Parallel::decode_add_all(std::span<const Payload> payloads, float scale, Workspace& workspace,
                              std::span<float> sum) const {
  const std::unique_lock lock(busy_, std::try_to_lock);
  const std::size_t work = sum.size() / kDecodeSpeed * payloads.size();
  const auto ranges = lock ? cut(sum.size(), work) : std::span<Range>();
  if (ranges.size() < 2) return inner_->decode_add_all(payloads, scale, workspace, sum);
  const auto range_payloads =
      workspaces_.front().array(kRangePayloads, ranges.size() * payloads.size());
  if (!split(payloads, ranges, range_payloads))
    return inner_->decode_add_all(payloads, scale, workspace, sum);
  try {
    workers_.run(ranges.size(), [&](std::size_t part) {
      const Range& range = ranges[part];
      inner_->decode_add_all(range_payloads.subspan(part * payloads.size(), payloads.size()), scale,
                             workspace_of(part, workspace), sum.subspan(range.begin, range.count));
    });
  } catch (const Error&) {
    // Decoding everything gives the message, as in encode(). The factor is 0, because most values
    // have been added already.
    inner_->decode_add_all(payloads, 0.0f, workspace, sum);
    throw;
  }
}

}  // namespace

std::unique_ptr<Compressor> make_parallel(std::unique_ptr<Compressor> inner, int threads,
                                          std::size_t least_values) {
  if (MixedGrades* const mixed = inner->mixed_grades(); mixed != nullptr && threads >= 2)
    mixed->use_threads(threads, least_values);
  const Properties properties = inner->properties();
  if (threads < 2 || !properties.concatenates) return inner;
  EQT_CHECK(properties.granule > 0, "{} concatenates, but has no granule", codec_name(inner->id()));
  return std::make_unique<Parallel>(std::move(inner), static_cast<std::size_t>(threads),
                                    least_values);
}

}  // namespace eqt::codec
