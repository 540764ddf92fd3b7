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

#include "sync/lazy/lazy_mean.hpp"

#include <numeric>

#include "core/clock.hpp"
#include "core/error.hpp"
#include "pipeline/messages.hpp"

namespace eqt::sync {

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

}  // namespace eqt::sync
