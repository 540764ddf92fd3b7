// SPDX-License-Identifier: Apache-2.0
#include "codec/plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cfenv>
#include <cstddef>
#include <cstring>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/catalogue.hpp"
#include "codec/compressor.hpp"
#include "codec/finite.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/visible.hpp"
#include "core/whole_file.hpp"
#include "equant/compressor_plugin.h"

namespace eqt::codec {
namespace {

// Calls of a plugin's functions: a crash inside is reported as the plugin's, and what it changes in
// how this thread computes is undone.

constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// The message of the plugin that this thread is calling; null: none.
thread_local const char* sentence_of_thread = nullptr;

std::array<struct sigaction, kCrashes.size()> earlier_actions{};

extern "C" void tell_crash(int signal) {
  if (sentence_of_thread != nullptr) {
    [[maybe_unused]] const ssize_t written =
        write(STDERR_FILENO, sentence_of_thread, std::strlen(sentence_of_thread));
    _exit(static_cast<int>(Kind::bug));
  }
  // Not in a plugin: restore the previous handler, which gets the same signal again.
  for (std::size_t i = 0; i < kCrashes.size(); ++i)
    if (kCrashes[i] == signal) sigaction(signal, &earlier_actions[i], nullptr);
  raise(signal);
}

/// The handler runs on this stack, because the thread's own stack may be what is used up.
class HandlerStack {
 public:
  HandlerStack() {
    const stack_t stack = {.ss_sp = memory_.data(), .ss_flags = 0, .ss_size = memory_.size()};
    EQT_CHECK(sigaltstack(&stack, &before_) == 0, "no stack for signal handlers");
  }
  ~HandlerStack() { (void)sigaltstack(&before_, nullptr); }
  HandlerStack(const HandlerStack&) = delete;
  HandlerStack& operator=(const HandlerStack&) = delete;

 private:
  static constexpr std::size_t kBytes = std::size_t{64}
                                        << 10;  // registers of any processor, and the handler
  std::vector<std::byte> memory_ = std::vector<std::byte>(kBytes);
  stack_t before_{};
};

/// The message for a plugin that crashes, formatted before, because a signal handler cannot format.
class CrashMessage {
 public:
  /// @param what "the compressor plugin /home/me/libmine.so"
  explicit CrashMessage(const std::string& what);
  const char* text() const { return text_.c_str(); }

 private:
  std::string text_;
};

/// While it exists, a crash of this thread (a segmentation fault, a stack that is used up, a
/// division by zero, abort()) prints the message and ends the process with exit code 70. When it
/// ends, this thread rounds and treats denormal numbers as it did before.
class PluginCallGuard {
 public:
  explicit PluginCallGuard(const CrashMessage& sentence);
  ~PluginCallGuard();
  PluginCallGuard(const PluginCallGuard&) = delete;
  PluginCallGuard& operator=(const PluginCallGuard&) = delete;

 private:
  const char* before_;
  std::fenv_t arithmetic_;
};

/// Installs the signal handlers. Call it again after a library has replaced them, as MPI does when
/// it starts.
void watch_for_crashes();

CrashMessage::CrashMessage(const std::string& what)
    : text_(fmt::format("equant-train: {}: {} crashed in its own code; run it under a debugger, or "
                        "leave --plugin out\n",
                        kind_name(Kind::bug), what)) {}

PluginCallGuard::PluginCallGuard(const CrashMessage& sentence) : before_(sentence_of_thread) {
  static thread_local const HandlerStack stack;
  std::fegetenv(&arithmetic_);
  sentence_of_thread = sentence.text();
}

PluginCallGuard::~PluginCallGuard() {
  sentence_of_thread = before_;
  std::fesetenv(&arithmetic_);
}

void watch_for_crashes() {
  struct sigaction action {};
  action.sa_handler = tell_crash;
  action.sa_flags = SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    struct sigaction earlier {};
    sigaction(kCrashes[i], &action, &earlier);
    if (earlier.sa_handler != tell_crash) earlier_actions[i] = earlier;
  }
}

using Api = equant_compressor;

constexpr std::uint16_t kPluginNumbers = 0x8000;  // plugins have the numbers from here on
constexpr std::size_t kEdgeBytes = 64;            // on either side of a payload
constexpr std::size_t kReasonBytes = 512;
// Limits of max_payload_bytes(); a compressor's payload should be shorter than its values [bytes].
constexpr std::size_t kMaxBytesPerValue = 64, kMaxBytesAside = 1 << 16;

struct Plugin {
  Plugin(const LoadedPlugin& loaded_, const Api& api_)
      : loaded(loaded_), api(api_), crash("the compressor plugin " + loaded_.path) {}

  LoadedPlugin loaded;
  const Api& api;
  CrashMessage crash;
  CompressorRow row = {};
};

/// Calls a function of the plugin, and catches what it throws.
template <typename Call>
auto inside(const Plugin& plugin, const char* function, const Call& call) {
  const PluginCallGuard guard(plugin.crash);
  try {
    return call();
  } catch (...) {
    fail(Kind::bug, "the compressor plugin {} let an exception out of {}(); it must catch its own",
         plugin.loaded.path, function);
  }
}

Properties properties_of(const Api& api) {
  const auto has = [&](std::uint64_t property) { return (api.properties & property) != 0; };
  return {.lossless = has(EQUANT_LOSSLESS),
          .unbiased = has(EQUANT_UNBIASED),
          .random = has(EQUANT_RANDOM),
          .sparse = has(EQUANT_SPARSE),
          .needs_feedback = has(EQUANT_NEEDS_FEEDBACK),
          .granule = api.granule};
}

equant_context context_of(const EncodeContext& context) {
  const RandomStream random(context.key);
  return {.random = std::uint64_t{random.first()} << 32 | random.second(),
          .first_index = context.first_index,
          .rows = context.rows};
}

class PluginCompressor final : public Compressor {
 public:
  PluginCompressor(const Plugin& plugin, const CompressorOptions& options)
      : plugin_(plugin), self_(create(plugin, options), Destroy{&plugin}) {}

  CodecId id() const noexcept override { return plugin_.row.id; }
  std::uint8_t format_version() const noexcept override {
    return static_cast<std::uint8_t>(plugin_.api.format);
  }
  Properties properties() const noexcept override { return properties_of(plugin_.api); }

  std::size_t max_payload_bytes(std::size_t count) const override {
    if (count == 0) return 0;
    const std::size_t bytes = inside(plugin_, "max_payload_bytes", [&] {
      return plugin_.api.max_payload_bytes(self_.get(), count);
    });
    if (bytes == 0 || bytes > kMaxBytesAside + kMaxBytesPerValue * count) {
      fail(Kind::bug,
           "expected 1 to {} bytes from max_payload_bytes() of the compressor plugin {} for {} "
           "values, found {}",
           kMaxBytesAside + kMaxBytesPerValue * count, plugin_.loaded.path, count, bytes);
    }
    return bytes;
  }

  std::size_t encode(std::span<const float> values, const EncodeContext& context,
                     Workspace& /*workspace*/, std::span<std::byte> payload) const override {
    require_finite(plugin_.row.name, values);
    if (values.empty()) return 0;
    const std::span<const std::uint8_t> encoded = encoded_between_edges(values, context, kEdge);
    EQT_CHECK(payload.size() >= encoded.size(), "a payload buffer of {} bytes for {}",
              payload.size(), encoded.size());
    std::memcpy(payload.data(), encoded.data(), encoded.size());
    return encoded.size();
  }

  void decode_add(std::span<const std::byte> payload, float scale, Workspace& /*workspace*/,
                  std::span<float> sum) const override {
    if (sum.empty() && payload.empty()) return;
    const int code = inside(plugin_, "decode_add", [&] {
      return plugin_.api.decode_add(self_.get(),
                                    reinterpret_cast<const std::uint8_t*>(payload.data()),
                                    payload.size(), scale, sum.data(), sum.size());
    });
    if (code != 0 || first_non_finite(sum) < sum.size()) {
      fail(Kind::wire,
           "compressor {}: expected a payload of {} values, found {} bytes that {}; the ranks run "
           "different configs or builds, or the plugin is wrong",
           plugin_.row.name, sum.size(), payload.size(),
           code != 0 ? fmt::format("its plugin refuses with {}", code)
                     : "decode to NaN or infinity");
    }
  }

  /// Encodes and decodes two vectors twice. @throws Error{usage} unless the payloads and the values
  /// are the same both times
  void require_deterministic() const;

 private:
  static constexpr std::uint8_t kEdge = 0xA5;

  struct Destroy {
    const Plugin* plugin;
    void operator()(void* self) const {
      const PluginCallGuard guard(plugin->crash);
      plugin->api.destroy(self);
    }
  };

  static void* create(const Plugin& plugin, const CompressorOptions& options) {
    const equant_options given = {.bits = options.bits,
                                  .rank = options.rank,
                                  .bucket_size = options.bucket_size,
                                  .density = options.density,
                                  .threshold = options.threshold,
                                  .clip = options.clip};
    std::array<char, kReasonBytes> reason{};
    void* const self = inside(plugin, "create", [&] {
      return plugin.api.create(&given, reason.data(), reason.size() - 1);
    });
    reason.back() = '\0';
    if (self == nullptr) {
      fail(Kind::usage, "compressor {}: {}", plugin.row.name,
           reason.front() == '\0' ? "its plugin refuses these options" : reason.data());
    }
    return self;
  }

  /// Encodes into this thread's buffer, where the payload stays until the next call. Marked bytes
  /// around it show whether the plugin wrote outside.
  std::span<const std::uint8_t> encoded_between_edges(std::span<const float> values,
                                                      const EncodeContext& context,
                                                      std::uint8_t fill) const {
    thread_local std::vector<std::uint8_t> buffer;
    const std::size_t room = max_payload_bytes(values.size());
    buffer.assign(room + 2 * kEdgeBytes, fill);
    const equant_context given = context_of(context);
    std::size_t bytes = 0;
    const int code = inside(plugin_, "encode", [&] {
      return plugin_.api.encode(self_.get(), &given, values.data(), values.size(),
                                buffer.data() + kEdgeBytes, &bytes);
    });
    if (code != 0) {
      fail(Kind::bug, "the compressor plugin {} failed with {} to encode {} values",
           plugin_.loaded.path, code, values.size());
    }
    const auto is_edge = [&](std::uint8_t byte) { return byte == fill; };
    const std::span<const std::uint8_t> all = buffer;
    if (bytes > room || !std::ranges::all_of(all.first(kEdgeBytes), is_edge) ||
        !std::ranges::all_of(all.last(kEdgeBytes), is_edge)) {
      fail(Kind::bug,
           "expected the compressor plugin {} to write at most {} bytes, its own "
           "max_payload_bytes() for {} values, found that it wrote {}",
           plugin_.loaded.path, room, values.size(),
           bytes > room ? fmt::format("{}", bytes) : "outside its payload");
    }
    return all.subspan(kEdgeBytes, bytes);
  }

  const Plugin& plugin_;
  std::unique_ptr<void, Destroy> self_;
};

void PluginCompressor::require_deterministic() const {
  constexpr std::array<std::size_t, 2> kCounts = {1000, 37};
  EncodeContext context;
  context.key = {.run_seed = 1, .step = 2, .rank = 3, .slice = 4};
  const RandomStream random({.run_seed = 5});
  for (const std::size_t count : kCounts) {
    std::vector<float> values(count);
    for (std::uint32_t i = 0; i < count; ++i)
      values[i] = i % 7 == 3 ? 0.0f : random.uniform(i) + random.uniform(i + 4096) - 1;
    const auto encoded = [&](std::uint8_t fill) {
      const auto bytes = encoded_between_edges(values, context, fill);
      return std::vector<std::uint8_t>(bytes.begin(), bytes.end());
    };
    const std::vector<std::uint8_t> first = encoded(kEdge), second = encoded(0x3C);
    const auto decoded = [&] {
      Workspace workspace;
      std::vector<float> sum(count);
      decode_add(std::as_bytes(std::span(first)), 0.5f, workspace, sum);
      return sum;
    };
    const std::vector<float> sum = decoded(), again = decoded();
    const bool same = std::memcmp(sum.data(), again.data(), count * sizeof(float)) == 0;
    if (first == second && same) continue;
    fail(Kind::usage,
         "expected the compressor plugin {} to give the same {} each time for the same {} values, "
         "found others; all that it draws must follow from equant_context.random",
         plugin_.loaded.path, first == second ? "decoded values" : "payload", count);
  }
}

/// All plugins; their addresses never change.
std::deque<Plugin>& plugins() {
  static std::deque<Plugin> loaded;
  return loaded;
}

std::unique_ptr<Compressor> make_plugin(const CompressorRow& row,
                                        const CompressorOptions& options) {
  const auto owner =
      std::ranges::find_if(plugins(), [&](const Plugin& plugin) { return &plugin.row == &row; });
  EQT_CHECK(owner != plugins().end(), "compressor {} is no plugin's", row.name);
  watch_for_crashes();
  auto compressor = std::make_unique<PluginCompressor>(*owner, options);
  compressor->require_deterministic();
  return compressor;
}

constexpr FileLimits kObject{.what = "a shared object for --plugin",
                             .max_bytes = std::uint64_t{1} << 30,
                             .remedy = "name the .so that the compiler made of the plugin",
                             .kind = Kind::usage};

/// Opens the shared object. @throws Error{usage} unless it is a plugin of this version
const Api& open_plugin(const std::string& path, const CrashMessage& crash) {
  const PluginCallGuard guard(crash);  // the shared object's constructors run now
  void* const object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr)
    fail(Kind::usage, "--plugin: expected a shared object at {}, but {}", path, dlerror());
  constexpr const char* kEntry = "equant_compressor_plugin";
  const auto entry = reinterpret_cast<const Api* (*)()>(dlsym(object, kEntry));
  if (entry == nullptr) {
    fail(Kind::usage,
         "--plugin: expected a function {}() in {}, found none; see "
         "include/equant/compressor_plugin.h",
         kEntry, path);
  }
  const Api* const api = entry();
  if (api == nullptr) fail(Kind::usage, "--plugin: {} in {} returns nothing", kEntry, path);
  if (api->version != EQUANT_PLUGIN_VERSION) {
    fail(Kind::usage,
         "--plugin: expected a plugin of version {}, found {} in {}; compile it again with this "
         "program's equant/compressor_plugin.h",
         EQUANT_PLUGIN_VERSION, api->version, path);
  }
  return *api;
}

bool is_name(const char* name) {
  if (name == nullptr) return false;
  const std::string_view text(name);
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  };
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, allowed);
}

void require_whole(const Api& api, const std::string& path) {
  const auto refuse = [&](const char* expected) {
    fail(Kind::usage, "--plugin: expected {} in what {} says of itself", expected, path);
  };
  if (!is_name(api.name)) refuse("a name of letters a to z, digits and '-', at most 64,");
  if (api.about == nullptr || !is_visible(api.about))
    refuse("one line about the compressor, without control characters,");
  if (api.format < 1 || api.format > 255) refuse("a format from 1 to 255");
  if (api.create == nullptr || api.destroy == nullptr || api.max_payload_bytes == nullptr ||
      api.encode == nullptr || api.decode_add == nullptr)
    refuse("all five functions");
}

std::vector<LoadedPlugin>& loaded() {
  static std::vector<LoadedPlugin> facts;
  return facts;
}

}  // namespace

void load_plugin(const std::string& path) {
  const std::string absolute = std::filesystem::absolute(path).string();
  LoadedPlugin facts{
      .path = absolute, .name = {}, .hash = checksum(read_whole_bytes(absolute, kObject))};
  watch_for_crashes();
  const CrashMessage message("the compressor plugin " + absolute);
  const Api& api = open_plugin(absolute, message);
  require_whole(api, absolute);
  facts.name = api.name;
  Plugin& plugin = plugins().emplace_back(facts, api);
  const auto number = static_cast<std::uint16_t>(checksum(std::as_bytes(std::span(facts.name))));
  plugin.row = {.name = api.name,
                .about = api.about,
                .id = CodecId{static_cast<std::uint16_t>(number | kPluginNumbers)},
                .make = make_plugin,
                .reads = {Option::bits, Option::rank, Option::bucket_size, Option::density,
                          Option::threshold, Option::clip}};
  add_compressor(plugin.row);
  loaded().push_back(facts);
}

std::span<const LoadedPlugin> loaded_plugins() { return loaded(); }

}  // namespace eqt::codec
