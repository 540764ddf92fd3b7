// Top-k and DGC's codec: the k values of largest magnitude with their indices.
//
// Source   top-k: A. F. Aji and K. Heafield, EMNLP 2017, arXiv:1704.05021; its contraction:
//          S. Stich et al., NeurIPS 2018, arXiv:1809.07599; DGC: Y. Lin et al., ICLR 2018,
//          arXiv:1712.01887, whose momentum correction lives in the collective room
// Symbols  d values, k = max(1, floor(density d)) of them kept; ties: the lowest index first
// Payload  k u32; k indices u32, strictly ascending; k values float32, finite, in the same order
// Size     4 + 8 k bytes
// Error    |in - out|^2 <= (1 - k/d) |in|^2, deterministic, biased: needs error feedback
// Differs  from DGC, which estimates the threshold from a sample: the selection here is exact

#include "codec/sparse.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "codec/bytes.hpp"
#include "codec/codecs.hpp"
#include "codec/finite.hpp"
#include "codec/largest.hpp"
#include "core/error.hpp"

namespace eqt::codec {
namespace {

constexpr std::size_t kEntryBytes = sizeof(std::uint32_t) + sizeof(float);

/// A payload whose size has been checked against its k.
struct Entries {
  std::size_t k = 0;
  const std::byte* indices = nullptr;
  const std::byte* values = nullptr;
};

Entries open_payload(std::span<const std::byte> payload, std::size_t count) {
  if (count == 0 && payload.empty()) return {};
  if (payload.size() < sizeof(std::uint32_t)) {
    fail(Kind::wire,
         "sparse payload: expected at least 4 bytes for {} values, found {}; the ranks "
         "run different configs or builds",
         count, payload.size());
  }
  const std::size_t k = load<std::uint32_t>(payload.data());
  if (k == 0 || k > count) {
    fail(Kind::wire,
         "sparse payload: expected 1 to {} entries, found {}; the ranks run different "
         "configs or builds",
         count, k);
  }
  const std::size_t expected = sizeof(std::uint32_t) + k * kEntryBytes;
  if (payload.size() != expected) {
    fail(Kind::wire,
         "sparse payload: expected {} bytes for {} entries, found {}; the ranks run "
         "different configs or builds",
         expected, k, payload.size());
  }
  const std::byte* indices = payload.data() + sizeof(std::uint32_t);
  return {k, indices, indices + k * sizeof(std::uint32_t)};
}

/// Calls take(index, value) for each entry, after checking it.
template <typename Take>
void for_each_entry(std::span<const std::byte> payload, std::size_t count, Take take) {
  const Entries entries = open_payload(payload, count);
  std::size_t lowest = 0;
  for (std::size_t i = 0; i < entries.k; ++i) {
    const std::size_t index = load<std::uint32_t>(entries.indices + i * sizeof(std::uint32_t));
    const float value = load<float>(entries.values + i * sizeof(float));
    if (index < lowest || index >= count) [[unlikely]] {
      fail(Kind::wire,
           "sparse payload: expected index {} of {} entries in {} ... {}, found {}; check "
           "the network and memory",
           i, entries.k, lowest, count - 1, index);
    }
    if (!std::isfinite(value)) [[unlikely]] {
      fail(Kind::wire,
           "sparse payload: expected a finite value in entry {} of {}, found {}; check "
           "the network and memory",
           i, entries.k, value);
    }
    lowest = index + 1;
    take(index, value);
  }
}

double checked_density(double density, std::string_view name) {
  if (!(density > 0 && density <= 1)) {
    fail(Kind::usage, "compressor {}: expected a density above 0 and up to 1, found {}; try 0.01",
         name, density);
  }
  return density;
}

/// k of `count` values.
std::size_t entries(double density, std::size_t count) {
  const auto share = static_cast<std::size_t>(density * static_cast<double>(count));
  return std::clamp<std::size_t>(share, 1, count);
}

class Sparse final : public Compressor {
 public:
  Sparse(CodecId id, const TopKOptions& options)
      : id_(id), density_(checked_density(options.density, codec_name(id))) {}

  CodecId id() const noexcept override { return id_; }
  std::uint8_t format_version() const noexcept override { return 1; }
  Properties properties() const noexcept override {
    return {.sparse = true, .needs_feedback = true, .granule = 0};
  }

  /// For every density that a context may ask for.
  std::size_t max_payload_bytes(std::size_t count) const override {
    return count == 0 ? 0 : sizeof(std::uint32_t) + count * kEntryBytes;
  }

  std::optional<double> variance_bound(std::size_t count) const override {
    if (count == 0) return 0.0;
    return 1 - static_cast<double>(entries(density_, count)) / static_cast<double>(count);
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& workspace, std::span<std::byte> payload) const override {
    EQT_CHECK(payload.size() >= max_payload_bytes(values.size()),
              "a payload buffer of {} bytes for {} values", payload.size(), values.size());
    if (values.empty()) return 0;
    const double density = checked_density(context.density.value_or(density_), codec_name(id_));
    const std::size_t k = entries(density, values.size());
    const auto indices = largest_magnitudes(values, k, workspace);
    if (indices.empty()) require_finite(codec_name(id_), values);

    store(payload.data(), static_cast<std::uint32_t>(k));
    std::byte* to = payload.data() + sizeof(std::uint32_t);
    std::memcpy(to, indices.data(), indices.size_bytes());
    to += indices.size_bytes();
    for (const std::uint32_t index : indices) {
      store(to, values[index]);
      to += sizeof(float);
    }
    return sizeof(std::uint32_t) + k * kEntryBytes;
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                  std::span<float> sum) const override {
    for_each_entry(payload, sum.size(),
                   [&](std::size_t index, float value) { sum[index] += scale * value; });
  }

 private:
  CodecId id_;
  double density_;
};

}  // namespace

void zero_sent(std::span<const std::byte> payload, std::span<float> values) {
  for_each_entry(payload, values.size(),
                 [&](std::size_t index, float /*value*/) { values[index] = 0; });
}

std::unique_ptr<Compressor> make_topk(const TopKOptions& options) {
  return std::make_unique<Sparse>(CodecId::topk, options);
}

std::unique_ptr<Compressor> make_dgc(const TopKOptions& options) {
  return std::make_unique<Sparse>(CodecId::dgc, options);
}

}  // namespace eqt::codec
