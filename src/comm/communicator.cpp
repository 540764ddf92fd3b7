#include "comm/communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <thread>

#include "comm/watchdog.hpp"

namespace eqt::comm {
namespace {

/// Tags stay far below 32767, the least upper bound that MPI guarantees.
enum Tag : int { kFrameTag = 1 };

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  fail(Kind::mpi, "{} failed: {}", call, text.data());
}

int checked_int(std::size_t count) {
  EQT_CHECK(count <= static_cast<std::size_t>(INT_MAX), "an MPI message of {} elements", count);
  return static_cast<int>(count);
}

/// Sleeps that grow while nothing happens: short waits stay short, long ones leave the core alone.
class Patience {
 public:
  void pause() {
    if (++polls_ <= kEagerPolls) {
      std::this_thread::yield();
      return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(sleep_us_));
    sleep_us_ = std::min(sleep_us_ * 2, kLongestSleepUs);
  }

 private:
  static constexpr int kEagerPolls = 20;
  static constexpr int kLongestSleepUs = 200;  // an MPI message on 1 GbE takes about 50 us
  int polls_ = 0;
  int sleep_us_ = 5;
};

}  // namespace

struct Communicator::State {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 1;
  int local_size = 1;
  ByteCount count;
  std::unique_ptr<Watchdog> watchdog;
  std::atomic<bool> cancelled{false};
  std::vector<MPI_Request> requests;
  std::vector<MPI_Status> statuses;

  void wait_all(const char* operation) {
    const Watchdog::Guard guard(*watchdog, operation);
    statuses.resize(requests.size());
    Patience patience;
    for (int done = 0;;) {
      check(MPI_Testall(checked_int(requests.size()), requests.data(), &done, statuses.data()),
            operation);
      if (done != 0) break;
      if (cancelled.load(std::memory_order_relaxed)) {
        fail(Kind::mpi, "{} was given up because of another error", operation);
      }
      patience.pause();
    }
    requests.clear();
  }

  /// What a ring allreduce of `bytes` sends per rank: 2 (n-1)/n of them.
  void count_ring(std::size_t bytes) {
    const auto n = static_cast<std::uint64_t>(size);
    const std::uint64_t moved = 2 * bytes * (n - 1) / n;
    count.sent_bytes += moved;
    count.received_bytes += moved;
    count.messages += 2 * (n - 1);
  }

  void allreduce(void* values, std::size_t n, MPI_Datatype type, std::size_t value_bytes, MPI_Op op,
                 const char* operation) {
    if (size == 1 || n == 0) return;
    requests.resize(1);
    check(MPI_Iallreduce(MPI_IN_PLACE, values, checked_int(n), type, op, comm, requests.data()),
          operation);
    count_ring(n * value_bytes);
    wait_all(operation);
  }
};

Communicator::Communicator(const Session&, double timeout_seconds)
    : state_(std::make_unique<State>()) {
  State& s = *state_;
  check(MPI_Comm_dup(MPI_COMM_WORLD, &s.comm), "MPI_Comm_dup");
  // Under the default handler the codes that check() looks at never arrive.
  check(MPI_Comm_set_errhandler(s.comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(s.comm, &s.rank), "MPI_Comm_rank");
  check(MPI_Comm_size(s.comm, &s.size), "MPI_Comm_size");
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(s.comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host),
        "MPI_Comm_split_type");
  check(MPI_Comm_size(host, &s.local_size), "MPI_Comm_size");
  check(MPI_Comm_free(&host), "MPI_Comm_free");
  const auto most_messages = 2 * static_cast<std::size_t>(s.size);
  s.requests.reserve(most_messages);
  s.statuses.reserve(most_messages);
  set_timeout(timeout_seconds);
}

Communicator::~Communicator() {
  // Freeing is collective: while an error unwinds on one rank the others will not come.
  if (std::uncaught_exceptions() == 0) MPI_Comm_free(&state_->comm);
}

Rank Communicator::rank() const noexcept { return state_->rank; }
int Communicator::size() const noexcept { return state_->size; }
int Communicator::ranks_on_this_host() const noexcept { return state_->local_size; }
ByteCount Communicator::byte_count() const noexcept { return state_->count; }
void Communicator::set_step(StepId step) noexcept { state_->watchdog->set_step(step); }
void Communicator::cancel() noexcept { state_->cancelled.store(true); }

void Communicator::set_timeout(double seconds) {
  state_->watchdog = std::make_unique<Watchdog>(seconds, state_->rank, state_->size);
}

void Communicator::broadcast(std::span<std::byte> bytes, Rank root) {
  if (bytes.empty() || size() == 1) return;
  State& s = *state_;
  s.requests.resize(1);
  check(MPI_Ibcast(bytes.data(), checked_int(bytes.size()), MPI_BYTE, root, s.comm,
                   s.requests.data()),
        "broadcast");
  (rank() == root ? s.count.sent_bytes : s.count.received_bytes) += bytes.size();
  s.wait_all("broadcast");
}

std::string Communicator::broadcast(const std::string& text, Rank root) {
  std::uint64_t length = text.size();
  broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  std::string result = rank() == root ? text : std::string(length, '\0');
  broadcast(std::as_writable_bytes(std::span(result.data(), result.size())), root);
  return result;
}

void Communicator::allreduce_sum(std::span<float> values) {
  state_->allreduce(values.data(), values.size(), MPI_FLOAT, sizeof(float), MPI_SUM,
                    "dense allreduce");
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

std::vector<std::uint64_t> Communicator::allgather(std::uint64_t value) {
  State& s = *state_;
  std::vector<std::uint64_t> values(static_cast<std::size_t>(s.size), value);
  if (s.size == 1) return values;
  s.requests.resize(1);
  // NOLINTNEXTLINE(mpi-type-mismatch): the check knows unsigned long only by MPI_UNSIGNED_LONG
  check(MPI_Iallgather(&value, 1, MPI_UINT64_T, values.data(), 1, MPI_UINT64_T, s.comm,
                       s.requests.data()),
        "allgather");
  s.wait_all("allgather");
  return values;
}

std::vector<std::string> Communicator::allgather(const std::string& text) {
  std::vector<std::string> texts;
  for (Rank r = 0; r < size(); ++r) texts.push_back(broadcast(text, r));
  return texts;
}

void Communicator::exchange(std::span<const Outgoing> outgoing, std::span<Incoming> incoming,
                            const char* operation) {
  State& s = *state_;
  s.requests.clear();
  // Receives first: a message that finds its room waiting is not copied through MPI's own buffers.
  for (const Incoming& in : incoming) {
    s.requests.emplace_back();
    check(MPI_Irecv(in.room.data(), checked_int(in.room.size()), MPI_BYTE, in.from, kFrameTag,
                    s.comm, &s.requests.back()),
          operation);
  }
  for (const Outgoing& out : outgoing) {
    s.requests.emplace_back();
    check(MPI_Isend(out.bytes.data(), checked_int(out.bytes.size()), MPI_BYTE, out.to, kFrameTag,
                    s.comm, &s.requests.back()),
          operation);
    s.count.sent_bytes += out.bytes.size();
    ++s.count.messages;
  }
  s.wait_all(operation);
  for (std::size_t i = 0; i < incoming.size(); ++i) {
    int bytes = 0;
    check(MPI_Get_count(&s.statuses[i], MPI_BYTE, &bytes), operation);
    incoming[i].bytes = static_cast<std::size_t>(bytes);
    s.count.received_bytes += incoming[i].bytes;
  }
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
