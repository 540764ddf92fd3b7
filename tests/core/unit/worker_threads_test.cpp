// SPDX-License-Identifier: Apache-2.0
// WorkerThreads: calls every part once, keeps its threads, and passes errors to the caller.

#include "core/worker_threads.hpp"

#include <atomic>
#include <set>
#include <stdexcept>
#include <string>

#include "support/catch.hpp"

using eqt::WorkerThreads;

TEST_CASE("every part is called once, the first on the caller's thread", "[threads]") {
  for (const std::size_t count : {1u, 2u, 5u}) {
    WorkerThreads workers(count);
    REQUIRE(workers.count() == count);
    for (std::size_t round = 0; round < 200; ++round) {
      const std::size_t parts = round % (count + 1);
      std::vector<std::atomic<int>> calls(count);
      std::vector<std::thread::id> ids(count);
      workers.run(parts, [&](std::size_t part) {
        ++calls.at(part);
        ids.at(part) = std::this_thread::get_id();
      });
      for (std::size_t i = 0; i < count; ++i) CHECK(calls[i] == (i < parts ? 1 : 0));
      if (parts == 0) continue;
      CHECK(ids[0] == std::this_thread::get_id());
      CHECK(std::set(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(parts)).size() ==
            parts);
    }
  }
}

TEST_CASE("the error of the first part that failed reaches the caller", "[threads]") {
  WorkerThreads workers(4);
  for (std::size_t first = 0; first < 4; ++first) {
    std::atomic<int> finished = 0;
    std::string found;
    try {
      workers.run(4, [&](std::size_t part) {
        if (part >= first) throw std::runtime_error(std::to_string(part));
        ++finished;
      });
    } catch (const std::runtime_error& error) {
      found = error.what();
    }
    CHECK(found == std::to_string(first));
    CHECK(finished == static_cast<int>(first));
    std::atomic<int> calls = 0;
    workers.run(4, [&](std::size_t) { ++calls; });  // no calls of the task before
    CHECK(calls == 4);
  }
}
