// SPDX-License-Identifier: Apache-2.0
#include "codec/plugin.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "codec/catalogue.hpp"
#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/child.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt;
using codec::CompressorRow;

namespace {

std::string plugin(const char* name) { return std::string(EQT_PLUGIN_DIR "/") + name + ".so"; }

/// Loads a plugin unless an earlier test did, and makes its compressor.
std::unique_ptr<codec::Compressor> made(const char* file, const char* name,
                                        const codec::CompressorOptions& options = {}) {
  if (CompressorRow::all().find(name) == nullptr) codec::load_plugin(plugin(file));
  return codec::make_compressor(name, options);
}

Error error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(std::string(error.what()).find('\n') == std::string::npos);
    return error;
  }
  return Error(Kind::interrupted, "no error");
}

void expect(const Error& error, Kind kind, const std::string& part) {
  INFO(error.what());
  CHECK(error.kind() == kind);
  CHECK(std::string(error.what()).find(part) != std::string::npos);
}

std::vector<std::byte> encoded(const codec::Compressor& compressor, std::span<const float> values) {
  Workspace workspace;
  std::vector<std::byte> payload(compressor.max_payload_bytes(values.size()));
  payload.resize(compressor.encode(values, {}, workspace, payload));
  return payload;
}

}  // namespace

TEST_CASE("the example of the documentation works like other compressors", "[plugin]") {
  const auto compressor = made("mean_sign", "mean-sign");
  const CompressorRow& row = *CompressorRow::all().at("mean-sign");
  CHECK(row.about == "the sign of every value and the mean magnitude (an example of a plugin)");
  CHECK(codec::codec_name(compressor->id()) == "mean-sign");
  CHECK(static_cast<int>(compressor->id()) >= 0x8000);
  CHECK(compressor->properties().needs_feedback);
  CHECK_FALSE(compressor->properties().lossless);

  const std::vector<float> values = {1, -2, 3, 0, -4, 1, 1, 0, -6};
  const std::vector<std::byte> payload = encoded(*compressor, values);
  CHECK(payload.size() == 6);
  Workspace workspace;
  std::vector<float> sum(values.size(), 10.0f);
  compressor->decode_add(payload, 0.5f, workspace, sum);
  CHECK(sum == std::vector<float>{11, 9, 11, 11, 9, 11, 11, 11, 9});
  CHECK(encoded(*compressor, {}).empty());
}

TEST_CASE("a loaded plugin is identified by its path and the hash of its bytes", "[plugin]") {
  (void)made("floats", "floats");
  const auto found =
      std::ranges::find(codec::loaded_plugins(), "floats", &codec::LoadedPlugin::name);
  REQUIRE(found != codec::loaded_plugins().end());
  CHECK(found->path == plugin("floats"));
  CHECK(found->hash != 0);
}

TEST_CASE("values and payloads are checked before and after a plugin's functions", "[plugin]") {
  const auto compressor = made("floats", "floats");
  expect(error_of([&] {
           (void)encoded(*compressor, std::vector{1.0f, std::nanf("")});
         }),
         Kind::diverged, "index 1");
  Workspace workspace;
  std::vector<float> sum(2);
  const std::vector<std::byte> payload = encoded(*compressor, std::vector{1.0f, 2.0f});
  expect(error_of([&] { compressor->decode_add(std::span(payload).first(7), 1, workspace, sum); }),
         Kind::wire, "compressor floats");
  std::vector<std::byte> damaged = payload;
  damaged[3] = damaged[2] = std::byte{0xFF};
  expect(error_of([&] { compressor->decode_add(damaged, 1, workspace, sum); }), Kind::wire,
         "NaN or infinity");
}

TEST_CASE("a file that is no plugin of this version is refused", "[plugin]") {
  const auto load = [](const std::string& path) {
    return error_of([&] { codec::load_plugin(path); });
  };
  expect(load("/nowhere/libmine.so"), Kind::usage,
         "a shared object for --plugin at /nowhere/libmine.so, but No such file");
  expect(load(EQT_SOURCE_DIR), Kind::usage, "but Is a directory");
  expect(load("/dev/zero"), Kind::usage, "no regular file");
  const test::TemporaryFolder folder;
  const std::string pipe = folder.path() + "/pipe.so";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  expect(load(pipe), Kind::usage, "no regular file");
  expect(load(EQT_SOURCE_DIR "/README.md"), Kind::usage, "a shared object at");
  expect(load(plugin("no_symbol")), Kind::usage, "equant_compressor_plugin()");
  expect(load(plugin("other_version")), Kind::usage, "of version 1, found 2");
  expect(load(plugin("bad_name")), Kind::usage, "a name of letters");
  expect(load(plugin("taken_name")), Kind::usage, "\"qsgd\"");
}

TEST_CASE("a plugin that violates the interface is refused with its name", "[plugin]") {
  expect(error_of([] { (void)made("writes_past", "writes-past"); }), Kind::bug,
         "outside its payload");
  expect(error_of([] { (void)made("not_deterministic", "not-deterministic"); }), Kind::usage,
         "the same payload each time for the same 1000 values");
  expect(error_of([] { (void)made("fails_to_encode", "fails-to-encode"); }), Kind::bug,
         "failed with 7 to encode");
  expect(error_of([] { (void)made("refuses_options", "refuses-options", {.bits = 4}); }),
         Kind::usage, "compressor refuses-options: expected compressor.bits 8");
  CHECK(made("refuses_options", "refuses-options", {.bits = 8}) != nullptr);
}

TEST_CASE("a plugin that crashes ends the process with a message and exit code 70", "[plugin]") {
  const test::ChildEnd at_start = test::run_child([] { (void)made("crashes", "crashes"); });
  CHECK(at_start.code == 70);
  CHECK(at_start.said.find("crashes.so crashed in its own code") != std::string::npos);
  const test::ChildEnd later = test::run_child([] {
    const auto compressor = made("crashes_at_size", "crashes-at-size");
    (void)encoded(*compressor, std::vector<float>(2000, 1.0f));
  });
  CHECK(later.code == 70);
  CHECK(later.said.find("crashes_at_size.so crashed in its own code") != std::string::npos);
}

TEST_CASE("a plugin that uses up the stack of any thread ends the process likewise", "[plugin]") {
  const auto overflow = [] { (void)made("uses_up_the_stack", "uses-up-the-stack"); };
  for (const bool on_thread : {false, true}) {
    const test::ChildEnd end = test::run_child([&] {
      if (on_thread) std::thread(overflow).join();
      overflow();
    });
    CHECK(end.code == 70);
    CHECK(end.said.find("uses_up_the_stack.so crashed in its own code") != std::string::npos);
  }
}

TEST_CASE("the arithmetic of a thread is what it was before a plugin's function", "[plugin]") {
  const auto compressor = made("rounds_upward", "rounds-upward");
  (void)encoded(*compressor, std::vector{1.0f, 2.0f});
  CHECK(std::fegetround() == FE_TONEAREST);
  volatile float denormal = 1e-40f;
  CHECK(denormal * 1.0f != 0.0f);
}
