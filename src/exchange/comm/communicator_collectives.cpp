// SPDX-License-Identifier: Apache-2.0
// MPI's own collectives, and the agreement of ranks by them.

#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/communicator_state.hpp"
#include "comm/damage.hpp"
#include "core/checksum.hpp"

namespace eqt::comm {
namespace {

constexpr std::size_t kMaxBroadcastBytes = std::size_t{256} << 20;

}  // namespace

void Communicator::broadcast(std::span<std::byte> bytes, Rank root) {
  if (size() == 1) return;
  State& s = *state_;
  constexpr const char* kOperation = "broadcast";
  // MPI counts in int.
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kMaxBroadcastBytes))) {
    const auto fragment = bytes.first(std::min(bytes.size(), kMaxBroadcastBytes));
    const bool sends = rank() == root;
    std::optional<std::vector<std::byte>> other;
    if (sends) other = s.transfers->replacement_for_mpi(fragment);
    std::uint64_t expected = sends ? checksum(fragment) : 0;
    s.broadcast(other ? other->data() : fragment.data(), fragment.size(), root, kOperation);
    s.broadcast(&expected, sizeof expected, root, kOperation);
    s.count_broadcast(fragment.size() + sizeof expected, sends);
    require_undamaged({s.watchdog->step(), kOperation, root}, fragment.size(), expected,
                      checksum(fragment));
  }
}

std::string Communicator::broadcast(const std::string& text, Rank root) {
  std::uint64_t length = text.size();
  broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  if (length > kMaxTextBytes) {
    fail(Kind::wire, "broadcast of a text: expected at most {} bytes from rank {}, found {}",
         kMaxTextBytes, root, length);
  }
  std::string result = rank() == root ? text : std::string(length, '\0');
  broadcast(std::as_writable_bytes(std::span(result.data(), result.size())), root);
  return result;
}

void Communicator::allreduce_sum(std::span<float> values) {
  State& s = *state_;
  if (s.size == 1 || values.empty()) return;
  constexpr const char* kOperation = "dense allreduce";
  s.count_ring(values.size_bytes());
  // MPI_Iallreduce takes twice the time between two ranks, and more among others: Open MPI reduces
  // to one rank, then broadcasts, and makes progress only when it is called.
  const Watchdog::Guard guard(*s.watchdog, kOperation);
  check(MPI_Allreduce(MPI_IN_PLACE, values.data(), checked_int(values.size()), MPI_FLOAT, MPI_SUM,
                      s.comm),
        kOperation);
}

void Communicator::allreduce_sum(std::span<double> values) {
  state_->allreduce(values.data(), values.size(), MPI_DOUBLE, sizeof(double), MPI_SUM,
                    "allreduce of sums");
}

void Communicator::allreduce_max(std::span<float> values) {
  state_->allreduce(values.data(), values.size(), MPI_FLOAT, sizeof(float), MPI_MAX,
                    "allreduce of scales");
}

void Communicator::allreduce_max(std::span<double> values) {
  state_->allreduce(values.data(), values.size(), MPI_DOUBLE, sizeof(double), MPI_MAX,
                    "allreduce of maxima");
}

void Communicator::start_max(std::span<double> values) {
  State& s = *state_;
  EQT_CHECK(s.maximum == MPI_REQUEST_NULL, "a second maximum of {} values", values.size());
  if (s.size == 1) return;
  check(MPI_Iallreduce(MPI_IN_PLACE, values.data(), checked_int(values.size()), MPI_DOUBLE, MPI_MAX,
                       s.comm, &s.maximum),
        "agreement of ranks");
  s.count_ring(values.size_bytes());
}

void Communicator::finish_max() {
  if (state_->maximum != MPI_REQUEST_NULL) state_->wait(state_->maximum, "agreement of ranks");
}

void Communicator::blocking_barrier() {
  State& s = *state_;
  constexpr const char* kOperation = "MPI_Barrier of a benchmark";
  const Watchdog::Guard guard(*s.watchdog, kOperation);
  check(MPI_Barrier(s.comm), kOperation);
}

std::vector<std::uint64_t> Communicator::allgather(std::uint64_t value) {
  State& s = *state_;
  std::vector<std::uint64_t> values(static_cast<std::size_t>(s.size), value);
  if (s.size == 1) return values;
  constexpr const char* kOperation = "allgather";
  struct Checked {
    std::uint64_t value, checksum;
  };
  const auto checksum_of = [](const std::uint64_t& of, std::size_t sender) {
    return checksum(std::as_bytes(std::span(&of, 1)), sender);
  };
  Checked mine{value, checksum_of(value, static_cast<std::size_t>(s.rank))};
  const auto other = s.transfers->replacement_for_mpi(std::as_bytes(std::span(&value, 1)));
  if (other) std::memcpy(&mine.value, other->data(), sizeof mine.value);
  std::vector<Checked> all(values.size());
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, s.comm,
                       &request),
        kOperation);
  const std::uint64_t moved = (all.size() - 1) * sizeof mine;
  s.transfers->count(moved, moved, all.size() - 1);
  s.wait(request, kOperation);
  for (std::size_t r = 0; r < all.size(); ++r) {
    require_undamaged({s.watchdog->step(), kOperation, static_cast<Rank>(r)}, sizeof value,
                      all[r].checksum, checksum_of(all[r].value, r));
    values[r] = all[r].value;
  }
  return values;
}

std::vector<std::string> Communicator::allgather(const std::string& text) {
  std::vector<std::string> texts;
  for (Rank r = 0; r < size(); ++r) texts.push_back(broadcast(text, r));
  return texts;
}

void Communicator::agree(const std::optional<Error>& local) {
  const auto codes =
      allgather(local ? static_cast<std::uint64_t>(local->exit_code()) : std::uint64_t{0});
  const auto failed = std::find_if(codes.begin(), codes.end(), [](auto code) { return code != 0; });
  if (failed == codes.end()) return;
  const auto first = static_cast<Rank>(failed - codes.begin());
  const std::string sentence = broadcast(local ? local->what() : std::string(), first);
  const bool everywhere =
      std::all_of(codes.begin(), codes.end(), [](auto code) { return code != 0; });
  throw AgreedError(static_cast<Kind>(*failed),
                    everywhere ? sentence : fmt::format("rank {}: {}", first, sentence));
}

void Communicator::require_same(std::uint64_t value, std::string_view what) {
  const auto values = allgather(value);
  for (std::size_t r = 0; r < values.size(); ++r) {
    if (values[r] != values[0]) {
      fail(Kind::bug, "expected the same {} on all ranks, found {:x} on rank 0 and {:x} on rank {}",
           what, values[0], values[r], r);
    }
  }
}

}  // namespace eqt::comm
