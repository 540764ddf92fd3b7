// SPDX-License-Identifier: Apache-2.0
// Each cause that ends the program has its own message: memory, threads, files, anything else.

#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "comm/session.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;

namespace {

template <typename Exception>
comm::Failure failure_of(const Exception& exception) {
  try {
    throw exception;
  } catch (...) {
    return comm::current_failure();
  }
}

template <typename Exception>
void expect(const Exception& exception, Kind kind, const std::string& part) {
  const comm::Failure failure = failure_of(exception);
  INFO(failure.sentence);
  CHECK(failure.kind == kind);
  CHECK(failure.sentence.find(part) != std::string::npos);
  CHECK(failure.sentence.find("standard output") == std::string::npos);
}

}  // namespace

TEST_CASE("each failure of the system has its own message", "[failure]") {
  const auto again = std::make_error_code(std::errc::resource_unavailable_try_again);
  const auto denied = std::make_error_code(std::errc::permission_denied);
  expect(Error(Kind::data, "a sentence"), Kind::data, "a sentence");
  expect(std::bad_alloc(), Kind::usage, "out of memory");
  expect(std::bad_array_new_length(), Kind::usage, "out of memory");
  expect(std::system_error(again), Kind::usage, "thread");
  expect(std::filesystem::filesystem_error("status", "some/where", denied), Kind::output,
         "some/where");
  expect(std::system_error(denied), Kind::bug, "denied");
  expect(std::runtime_error("a reason"), Kind::bug, "a reason");
  expect(7, Kind::bug, "unknown type");
}
