// SPDX-License-Identifier: Apache-2.0
#include "codec/parallel.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "codec/integer/integer_codec.hpp"
#include "codec/worker_threads.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

using Payload = std::span<const std::byte>;

constexpr ScratchArray<Payload> kPiecePayloads{0};

// Runs are cut at multiples of this many values at least, so that threads share no cache line.
constexpr std::size_t kLeastCut = 64;
// Decoding is faster than encoding by about this factor.
constexpr std::size_t kDecodeSpeed = 4;
// One thread moves fewer bytes than this.
constexpr std::size_t kLeastMove = std::size_t{1} << 18;

// The range that one thread encodes or decodes.
struct Run {
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
        runs_(threads) {}

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
  std::span<Run> cut(std::size_t count, std::size_t work) const;
  template <typename EncodeRun>
  std::size_t encode_runs(std::span<Run> runs, const EncodeContext& context, Workspace& workspace,
                          std::span<std::byte> payload, const EncodeRun& encode_run) const;
  std::size_t move_together(std::span<Run> runs, std::span<std::byte> payload) const;
  bool split(std::span<const Payload> payloads, std::span<const Run> runs,
             std::span<Payload> pieces) const;
  Workspace& workspace_of(std::size_t part, Workspace& callers) const {
    return part == 0 ? callers : workspaces_[part];
  }

  std::unique_ptr<Compressor> inner_;
  std::size_t least_values_;
  mutable std::mutex busy_;
  mutable WorkerThreads workers_;
  mutable std::vector<Workspace>
      workspaces_;  // by thread; the first is for pieces, not for the caller
  mutable std::vector<Run> runs_;
};

// At most one run per thread, of about equal length; fewer if there are few granules, none if the
// work [values encoded] is too small.
std::span<Run> Parallel::cut(std::size_t count, std::size_t work) const {
  if (count == 0 || work < least_values_) return {};
  const std::size_t granule = inner_->properties().granule;
  const std::size_t unit = granule * ((kLeastCut + granule - 1) / granule);
  const std::size_t units = count / unit + (count % unit != 0);
  const std::size_t parts = std::min(units, workers_.count());
  const std::size_t each = units / parts, longer = units % parts;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < parts; ++i) {
    const std::size_t length = std::min((each + (i < longer)) * unit, count - begin);
    runs_[i] = {.begin = begin, .count = length};
    begin += length;
  }
  return std::span(runs_).first(parts);
}

template <typename EncodeRun>
std::size_t Parallel::encode_runs(std::span<Run> runs, const EncodeContext& context,
                                  Workspace& workspace, std::span<std::byte> payload,
                                  const EncodeRun& encode_run) const {
  std::size_t room = 0;
  for (Run& run : runs) {
    run.from = room;
    run.bytes = inner_->max_payload_bytes(run.count);
    room += run.bytes;
  }
  EQT_CHECK(payload.size() >= room, "a payload buffer of {} bytes for runs of {}", payload.size(),
            room);
  workers_.run(runs.size(), [&](std::size_t part) {
    Run& run = runs[part];
    EncodeContext own = context;
    own.first_index += run.begin;
    own.rows = 0;
    run.bytes =
        encode_run(run, own, workspace_of(part, workspace), payload.subspan(run.from, run.bytes));
  });
  return move_together(runs, payload);
}

std::size_t Parallel::move_together(std::span<Run> runs, std::span<std::byte> payload) const {
  std::size_t total = 0, moved = 0;
  for (Run& run : runs) {
    run.to = total;
    total += run.bytes;
    if (run.to != run.from) moved += run.bytes;
  }
  // A thread must not write where another still reads.
  const bool apart = runs.size() > 1 && total <= runs[1].from;
  if (!apart || moved < kLeastMove) {
    for (const Run& run : runs) {
      if (run.to != run.from)
        std::memmove(payload.data() + run.to, payload.data() + run.from, run.bytes);
    }
    return total;
  }
  const std::size_t begin = total - moved;
  workers_.run(runs.size(), [&](std::size_t part) {
    const std::size_t first = begin + moved / runs.size() * part;
    const std::size_t end =
        part + 1 == runs.size() ? total : begin + moved / runs.size() * (part + 1);
    for (const Run& run : runs.subspan(1)) {
      const std::size_t low = std::max(first, run.to), high = std::min(end, run.to + run.bytes);
      if (low < high)
        std::memcpy(payload.data() + low, payload.data() + run.from + (low - run.to), high - low);
    }
  });
  return total;
}

std::size_t Parallel::encode(std::span<const float> values, const EncodeContext& context,
                             Workspace& workspace, std::span<std::byte> payload) const {
  const std::unique_lock lock(busy_, std::try_to_lock);
  const auto runs = lock ? cut(values.size(), values.size()) : std::span<Run>();
  if (runs.size() < 2) return inner_->encode(values, context, workspace, payload);
  try {
    return encode_runs(
        runs, context, workspace, payload,
        [&](const Run& run, const EncodeContext& own, Workspace& scratch, std::span<std::byte> to) {
          return inner_->encode(values.subspan(run.begin, run.count), own, scratch, to);
        });
  } catch (const Error&) {
    // Encoding everything fails like the run did, but the message has the index in the whole input.
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
  const auto runs = lock ? cut(gradient.size(), gradient.size()) : std::span<Run>();
  if (runs.size() < 2)
    return inner_->encode_with_feedback(gradient, context, workspace, residual, payload);
  try {
    return encode_runs(
        runs, context, workspace, payload,
        [&](const Run& run, const EncodeContext& own, Workspace& scratch, std::span<std::byte> to) {
          return inner_->encode_with_feedback(gradient.subspan(run.begin, run.count), own, scratch,
                                              residual.subspan(run.begin, run.count), to);
        });
  } catch (const Error&) {
    // The residual now has the values that could not be encoded, see encode().
    (void)inner_->encode(residual, context, workspace, payload);
    throw;
  }
}

// Finds the bytes of each run in each payload, grouped by run; false if they are not known.
bool Parallel::split(std::span<const Payload> payloads, std::span<const Run> runs,
                     std::span<Payload> pieces) const {
  for (std::size_t k = 0; k < payloads.size(); ++k) {
    Payload rest = payloads[k];
    for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
      const std::size_t bytes = inner_->prefix_bytes(rest, runs[i].count);
      if (bytes == 0) return false;
      EQT_CHECK(bytes <= rest.size(), "a prefix of {} bytes in {}", bytes, rest.size());
      pieces[i * payloads.size() + k] = rest.first(bytes);
      rest = rest.subspan(bytes);
    }
    pieces[(runs.size() - 1) * payloads.size() + k] = rest;
  }
  return true;
}

void Parallel::decode_add_all(std::span<const Payload> payloads, float scale, Workspace& workspace,
                              std::span<float> sum) const {
  const std::unique_lock lock(busy_, std::try_to_lock);
  const std::size_t work = sum.size() / kDecodeSpeed * payloads.size();
  const auto runs = lock ? cut(sum.size(), work) : std::span<Run>();
  if (runs.size() < 2) return inner_->decode_add_all(payloads, scale, workspace, sum);
  const auto pieces = workspaces_.front().array(kPiecePayloads, runs.size() * payloads.size());
  if (!split(payloads, runs, pieces))
    return inner_->decode_add_all(payloads, scale, workspace, sum);
  try {
    workers_.run(runs.size(), [&](std::size_t part) {
      const Run& run = runs[part];
      inner_->decode_add_all(pieces.subspan(part * payloads.size(), payloads.size()), scale,
                             workspace_of(part, workspace), sum.subspan(run.begin, run.count));
    });
  } catch (const Error&) {
    // For the message, as in encode(); factor 0, because most values have been added already.
    inner_->decode_add_all(payloads, 0.0f, workspace, sum);
    throw;
  }
}

}  // namespace

std::unique_ptr<Compressor> make_parallel(std::unique_ptr<Compressor> inner, int threads,
                                          std::size_t least_values) {
  const Properties properties = inner->properties();
  if (threads < 2 || !properties.concatenates) return inner;
  EQT_CHECK(properties.granule > 0, "{} concatenates, but has no granule", codec_name(inner->id()));
  return std::make_unique<Parallel>(std::move(inner), static_cast<std::size_t>(threads),
                                    least_values);
}

}  // namespace eqt::codec
