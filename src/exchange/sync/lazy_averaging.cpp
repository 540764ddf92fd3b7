// SPDX-License-Identifier: Apache-2.0
// Lazily aggregated quantized gradients.
//
// Rounds   1
// Sent     (n - 1) frames of a difference by a rank that sends, (n - 1) headers by one that does
//          not
// State    2 vectors of float64: what the others know of this rank's gradient, and the sum of what
//          all ranks know; the norms of the last D means
// Rule     with v = g - known, delta = v on the grid and e = v - delta, a rank sends nothing if
//            |delta|^2 <= sum_j xi_j |mean_{k-j}|^2 + 3 (|e|^2 + |e of its last message|^2)
//          and fewer than `silence` - 1 steps have passed without a message
// Source   LAQ: J. Sun et al., NeurIPS 2019, arXiv:1909.07588, algorithm 2 and equation 7; without
//          the grid it is LAG-WK: T. Chen et al., NeurIPS 2018, arXiv:1805.09965
// Deviates means in place of sums, so the paper's |theta_{k+1-j} - theta_{k-j}|^2 / (alpha n)^2 is
//          |mean_{k-j}|^2, which stays right when the learning rate changes; all xi are equal; the
//          first step sends on all ranks

#include "sync/lazy_averaging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "codec/bytes.hpp"
#include "codec/frame.hpp"
#include "core/clock.hpp"
#include "core/error.hpp"
#include "pipeline/messages.hpp"
#include "sync/algorithm_parts.hpp"
#include "sync/edge_count.hpp"

namespace eqt::sync {
namespace {

using codec::kFrameHeaderBytes;
using codec::load;
using codec::store;

/// The number is no compressor's: a compressor has no memory of what it sent.
constexpr codec::CodecId kLazyCodec{23};
constexpr std::uint8_t kFormatVersion = 1;

/// Fields of `bits` bits one after the other, the first in the lowest bits of the first byte.
class BitWriter {
 public:
  explicit BitWriter(std::byte* to) : to_(to) {}
  void put(std::uint32_t field, unsigned bits) {
    held_ |= std::uint64_t{field} << filled_;
    for (filled_ += bits; filled_ >= 8; filled_ -= 8, held_ >>= 8)
      *to_++ = static_cast<std::byte>(held_ & 0xFF);
  }
  void finish() {
    if (filled_ > 0) *to_ = static_cast<std::byte>(held_ & 0xFF);
  }

 private:
  std::byte* to_;
  std::uint64_t held_ = 0;
  unsigned filled_ = 0;
};

class BitReader {
 public:
  explicit BitReader(const std::byte* from) : from_(from) {}
  std::uint32_t take(unsigned bits) {
    for (; filled_ < bits; filled_ += 8)
      held_ |= std::to_integer<std::uint64_t>(*from_++) << filled_;
    const auto field = static_cast<std::uint32_t>(held_ & ((std::uint64_t{1} << bits) - 1));
    held_ >>= bits;
    filled_ -= bits;
    return field;
  }
  /// Returns true if the unread bits of the last byte that was read from are zero.
  bool rest_is_zero() const { return held_ == 0; }

 private:
  const std::byte* from_;
  std::uint64_t held_ = 0;
  unsigned filled_ = 0;
};

void require_float(double value) {
  if (std::isfinite(static_cast<float>(value))) return;
  fail(Kind::diverged,
       "the change of the gradient: expected a finite float32, found {}; try a smaller "
       "optimizer.learning_rate",
       value);
}

double square(double value) { return value * value; }

}  // namespace

LazyDifference::LazyDifference(std::size_t count, unsigned bits)
    : count_(count), bits_(bits), last_code_((std::uint32_t{1} << bits) - 1) {
  EQT_CHECK(bits <= kMostLazyBits, "codes of {} bits", bits);
  if (payload_bytes() > UINT32_MAX)
    fail(Kind::usage,
         "synchronization.laq_bits: expected messages of less than 4 GiB, found {} values of {} "
         "bits; set fewer bits",
         count, bits == 0 ? 32 : bits);
}

std::size_t LazyDifference::payload_bytes() const noexcept {
  if (bits_ == 0) return count_ * sizeof(float);
  return sizeof(float) + (count_ * bits_ + 7) / 8;
}

std::size_t LazyDifference::frame_bytes() const noexcept {
  return kFrameHeaderBytes + payload_bytes();
}

/// Divided last, so that both ends of the grid are exact.
float LazyDifference::point(double radius, std::uint32_t code) const noexcept {
  const double steps = 2.0 * code - last_code_;
  return static_cast<float>(radius * steps / last_code_);
}

LazyDifference::Squares LazyDifference::encode_exact(std::span<const float> gradient,
                                                     std::span<const double> known,
                                                     std::span<std::byte> payload) const {
  Squares squares;
  for (std::size_t i = 0; i < count_; ++i) {
    const double exact = static_cast<double>(gradient[i]) - known[i];
    require_float(exact);
    const auto delta = static_cast<float>(exact);
    store(payload.data() + i * sizeof(float), delta);
    squares.sent += square(delta);
  }
  squares.exact = squares.sent;
  return squares;
}

LazyDifference::Squares LazyDifference::encode_codes(std::span<const float> gradient,
                                                     std::span<const double> known,
                                                     std::span<std::byte> payload) const {
  double largest = 0;
  for (std::size_t i = 0; i < count_; ++i)
    largest = std::max(largest, std::abs(static_cast<double>(gradient[i]) - known[i]));
  require_float(largest);
  const auto stored = static_cast<float>(largest);
  store(payload.data(), stored);
  const double radius = static_cast<double>(stored);
  const double points_per_unit = radius > 0 ? last_code_ / (2 * radius) : 0;
  Squares squares;
  BitWriter writer(payload.data() + sizeof(float));
  for (std::size_t i = 0; i < count_; ++i) {
    const double exact = static_cast<double>(gradient[i]) - known[i];
    // R may have been rounded to a float32 below the largest magnitude.
    const double place = std::floor((exact + radius) * points_per_unit + 0.5);
    const auto code =
        static_cast<std::uint32_t>(std::clamp(place, 0.0, static_cast<double>(last_code_)));
    writer.put(code, bits_);
    const double delta = static_cast<double>(point(radius, code));
    squares.sent += square(delta);
    squares.error += square(exact - delta);
    squares.exact += square(exact);
  }
  writer.finish();
  return squares;
}

LazyDifference::Squares LazyDifference::encode(std::span<const float> gradient,
                                               std::span<const double> known, StepId step,
                                               std::span<std::byte> frame) const {
  EQT_CHECK(gradient.size() == count_ && known.size() == count_, "{} values of {} that are known",
            gradient.size(), known.size());
  codec::write_header({.codec = kLazyCodec,
                       .format_version = kFormatVersion,
                       .step = step,
                       .count = count_,
                       .payload_bytes = static_cast<std::uint32_t>(payload_bytes())},
                      frame);
  const auto payload = frame.subspan(kFrameHeaderBytes);
  return bits_ == 0 ? encode_exact(gradient, known, payload)
                    : encode_codes(gradient, known, payload);
}

std::size_t LazyDifference::encode_nothing(StepId step, std::span<std::byte> frame) const {
  codec::write_header({.codec = kLazyCodec,
                       .format_version = kFormatVersion,
                       .flags = codec::kNothingSent,
                       .step = step,
                       .count = count_},
                      frame);
  return kFrameHeaderBytes;
}

void LazyDifference::add_exact(std::span<const std::byte> payload, std::span<double> values) const {
  for (std::size_t i = 0; i < count_; ++i) {
    const auto delta = load<float>(payload.data() + i * sizeof(float));
    if (!std::isfinite(delta)) fail(Kind::wire, "laq: expected finite values, found {}", delta);
    values[i] += static_cast<double>(delta);
  }
}

void LazyDifference::add_codes(std::span<const std::byte> payload, std::span<double> values) const {
  const auto stored = load<float>(payload.data());
  if (!std::isfinite(stored) || std::signbit(stored))
    fail(Kind::wire, "laq: expected a finite radius of at least 0, found {}", stored);
  const double radius = static_cast<double>(stored);
  BitReader reader(payload.data() + sizeof(float));
  for (std::size_t i = 0; i < count_; ++i)
    values[i] += static_cast<double>(point(radius, reader.take(bits_)));
  if (!reader.rest_is_zero())
    fail(Kind::wire, "laq: expected zeros in the unused bits of the last byte, found others");
}

bool LazyDifference::decode_add(std::span<const std::byte> frame, StepId step,
                                std::span<double> values) const {
  const bool sent = frame.size() != kFrameHeaderBytes;
  const auto payload =
      codec::open_frame(frame, {.codec = kLazyCodec,
                                .format_version = kFormatVersion,
                                .flags = sent ? std::uint8_t{0} : codec::kNothingSent,
                                .step = step,
                                .count = count_});
  if (!sent) return false;
  if (payload.size() != payload_bytes())
    fail(Kind::wire, "laq: expected a payload of {} bytes, found {}", payload_bytes(),
         payload.size());
  if (bits_ == 0) {
    add_exact(payload, values);
  } else {
    add_codes(payload, values);
  }
  return true;
}

LazyMean::LazyMean(comm::Communicator& comm, std::size_t count, const LazyMeanOptions& options)
    : comm_(comm),
      options_(options),
      difference_(count, options.bits),
      known_(count),
      sum_(count),
      squares_(options.history),
      quiet_(options.silence - 1),
      own_(difference_.frame_bytes()),
      received_(static_cast<std::size_t>(comm.size())) {
  EQT_CHECK(options.history > 0 && options.silence > 0, "a history of {} steps, silence {}",
            options.history, options.silence);
  for (Rank r = 0; r < comm.size(); ++r) {
    if (r == comm.rank()) continue;
    auto& buffer = received_[static_cast<std::size_t>(r)];
    buffer.resize(difference_.frame_bytes());
    incoming_.push_back({r, buffer, 0});
  }
}

bool LazyMean::may_skip(const LazyDifference::Squares& squares) const {
  if (quiet_ + 1 >= options_.silence) return false;
  const double moved = std::accumulate(squares_.begin(), squares_.end(), 0.0);
  const double weight = options_.weight / static_cast<double>(options_.history);
  return squares.sent <= weight * moved + 3 * (squares.error + error_);
}

std::size_t LazyMean::encode(StepId step, std::span<const float> gradient, LazyMeanResult& result) {
  const Stopwatch encode;
  const LazyDifference::Squares squares = difference_.encode(gradient, known_, step, own_);
  std::size_t bytes = own_.size();
  if (may_skip(squares)) {
    bytes = difference_.encode_nothing(step, own_);
    ++quiet_;
  } else {
    quiet_ = 0;
    error_ = squares.error;
    if (options_.bits > 0 && squares.exact > 0)
      result.quantization_variance = squares.error / squares.exact;
  }
  result.traffic.encode_seconds = encode.seconds();
  result.traffic.encoded_bytes = bytes;
  result.traffic.encoded_values = known_.size();
  return bytes;
}

void LazyMean::exchange(std::size_t own_bytes) {
  outgoing_.clear();
  for (const comm::Incoming& in : incoming_)
    outgoing_.push_back({in.from, std::span<const std::byte>(own_).first(own_bytes)});
  comm_.exchange(outgoing_, incoming_, "laq");
}

/// In the order of ranks, with the bytes that travelled: so sums are the same everywhere.
void LazyMean::add_up(StepId step, std::size_t own_bytes, LazyMeanResult& result) {
  const Stopwatch decode;
  const auto own = std::span<const std::byte>(own_).first(own_bytes);
  auto in = incoming_.begin();
  for (Rank r = 0; r < comm_.size(); ++r) {
    if (r == comm_.rank()) {
      result.senders += difference_.decode_add(own, step, sum_);
      difference_.decode_add(own, step, known_);
      continue;
    }
    try {
      result.senders += difference_.decode_add(in->buffer.first(in->bytes), step, sum_);
    } catch (const Error& error) {
      pipeline::rethrow_refused(error, "laq", step, r);
    }
    ++in;
  }
  result.traffic.decode_seconds = decode.seconds();
}

LazyMeanResult LazyMean::mean(StepId step, std::span<float> gradient) {
  LazyMeanResult result;
  const std::size_t own_bytes = encode(step, gradient, result);
  const Stopwatch transfer;
  exchange(own_bytes);
  result.traffic.transfer_seconds = transfer.seconds();
  add_up(step, own_bytes, result);
  const double ranks = comm_.size();
  double square = 0;
  for (std::size_t i = 0; i < sum_.size(); ++i) {
    const double mean = sum_[i] / ranks;
    square += mean * mean;
    gradient[i] = static_cast<float>(mean);
  }
  squares_[static_cast<std::size_t>(step % squares_.size())] = square;
  sent_ += result.senders;
  skipped_ += static_cast<std::uint64_t>(comm_.size()) - result.senders;
  return result;
}

void LazyMean::visit_state(StateVisitor& visitor) {
  visitor.doubles("known", known_, Across::fresh);
  visitor.doubles("sum", sum_, Across::fresh);
  visitor.doubles("squares", squares_, Across::fresh);
  visitor.real("error", error_, Across::fresh);
  visitor.number("quiet", quiet_, Across::fresh);
  visitor.number("sent", sent_, Across::same);
  visitor.number("skipped", skipped_, Across::same);
}

namespace {

class LazyAveraging final : public Synchronizer {
 public:
  LazyAveraging(const LazyAveragingParts& parts, const LazyAveragingOptions& options)
      : p_(parts), options_(options), mean_(parts.comm, parts.gradient.size(), options.rule) {}

  void begin(StepId step, std::uint64_t) override { step_ = step; }
  void slice_ready(std::size_t) override {}

  SyncResult finish() override {
    StepId step = step_;
    if (options_.fault) step = options_.fault->inject_in_bucket(p_.comm.rank(), step, 0);
    add_weight_decay();
    check_finite("the gradient");
    const comm::ByteCount before = p_.comm.byte_count();
    const LazyMeanResult mean = mean_.mean(step, p_.gradient);
    SyncResult result{.traffic = mean.traffic, .quantization_variance = mean.quantization_variance};
    count_bytes(before, p_.comm.byte_count(), result.traffic);
    check_finite("the mean gradient");
    if (step_ + 1 == options_.total_steps) result.note = messages();
    return result;
  }

  void visit_state(StateVisitor& visitor) override { visit_in(visitor, "lazy mean", mean_); }

 private:
  /// Where the loss is least, its gradient is not zero but for the decay; the rule needs the sum.
  void add_weight_decay() {
    if (options_.weight_decay == 0) return;
    for (std::size_t i = 0; i < p_.gradient.size(); ++i)
      p_.gradient[i] += options_.weight_decay * p_.parameters[i];
  }

  void check_finite(std::string_view what) {
    require_finite(p_.layout, p_.gradient, 0, what, step_, p_.comm.rank(), p_.divergence);
  }

  std::string messages() const {
    const std::uint64_t sent = mean_.messages_sent(), all = sent + mean_.messages_skipped();
    return fmt::format("laq: {} of {} gradients were sent, {} were left out", sent, all,
                       mean_.messages_skipped());
  }

  const LazyAveragingParts p_;
  const LazyAveragingOptions options_;
  LazyMean mean_;
  StepId step_ = 0;
};

}  // namespace

std::unique_ptr<Synchronizer> make_lazy_averaging(const LazyAveragingParts& parts,
                                                  const LazyAveragingOptions& options) {
  return std::make_unique<LazyAveraging>(parts, options);
}

namespace {

constexpr std::string_view kLaqKeys[] = {"laq_bits", "laq_history", "laq_weight", "laq_silence"};

}  // namespace

const AlgorithmRow kLaq = {
    .name = "laq",
    .about =
        "the mean of all ranks' gradients, of which a rank sends changes that matter (LAQ, LAG)",
    .keys = kLaqKeys,
    .lazy = true,
    .models_remembered = 4,
    .make = [](AlgorithmParts parts, const AlgorithmSettings& settings) {
      return BuiltAlgorithm{
          .synchronizer = make_lazy_averaging({.comm = parts.comm,
                                               .parameters = parts.parameters,
                                               .gradient = parts.gradient,
                                               .layout = parts.layout,
                                               .divergence = parts.divergence},
                                              {.rule = settings.lazy,
                                               .weight_decay = settings.weight_decay,
                                               .total_steps = settings.rounds.total_steps,
                                               .fault = parts.fault}),
          .directs = true};
    }};

}  // namespace eqt::sync
