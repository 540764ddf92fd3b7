// SPDX-License-Identifier: Apache-2.0
#include "equant/codec.h"

#include <memory>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "codec/message.hpp"
#include "config/run_config.hpp"
#include "core/error.hpp"
#include "core/version.hpp"
#include "core/workspace.hpp"

struct equant_codec {
  std::unique_ptr<eqt::codec::Compressor> compressor;
  eqt::Workspace workspace;
};

namespace {

thread_local std::string last_error;

/// Calls `f` and turns what it throws into a code and the thread's sentence.
template <typename F>
int guarded(F&& f) noexcept {
  try {
    f();
    return EQUANT_OK;
  } catch (const eqt::Error& error) {
    last_error = error.what();
    return error.exit_code();
  } catch (const std::exception& error) {
    last_error = error.what();
    return EQUANT_BUG;
  }
}

void expect(bool fulfilled, const char* expectation) {
  if (!fulfilled) eqt::fail(eqt::Kind::usage, "expected {}", expectation);
}

/// "KEY=VALUE KEY=VALUE" as the config keys compressor.KEY.
std::unique_ptr<eqt::codec::Compressor> compressor_of(const std::string& name,
                                                      const std::string& options) {
  std::vector<std::string> sets = {"compressor.name=" + name};
  std::istringstream words(options);
  for (std::string word; words >> word;) sets.push_back("compressor." + word);
  return eqt::config::parse_config("{}", "options", sets).compressor.make();
}

eqt::codec::Segment segment_of(const equant_message& message, std::size_t count) {
  return {.slice = message.index, .begin = 0, .count = count, .rows = message.rows};
}

}  // namespace

extern "C" {

int equant_codec_abi(void) { return EQUANT_CODEC_ABI; }

const char* equant_codec_version(void) {
  static const std::string text = eqt::version();
  return text.c_str();
}

const char* equant_codec_error(void) { return last_error.c_str(); }

equant_codec* equant_codec_create(const char* name, const char* options) {
  equant_codec* created = nullptr;
  (void)guarded([&] {
    expect(name != nullptr && options != nullptr, "a name and options, found NULL");
    auto codec = std::make_unique<equant_codec>();
    codec->compressor = compressor_of(name, options);
    created = codec.release();
  });
  return created;
}

void equant_codec_destroy(equant_codec* codec) { delete codec; }

int equant_codec_needs_feedback(const equant_codec* codec) {
  return codec->compressor->properties().needs_feedback ? 1 : 0;
}

int equant_codec_is_unbiased(const equant_codec* codec) {
  return codec->compressor->properties().unbiased ? 1 : 0;
}

size_t equant_codec_max_bytes(const equant_codec* codec, size_t count) {
  const eqt::codec::Segment segment = {.count = count};
  return eqt::codec::max_message_bytes(*codec->compressor, {&segment, 1});
}

int equant_codec_encode(equant_codec* codec, const equant_message* message, const float* values,
                        size_t count, float* residual, void* out, size_t capacity,
                        size_t* written) {
  return guarded([&] {
    expect(capacity >= equant_codec_max_bytes(codec, count),
           "room for equant_codec_max_bytes(), found less");
    expect(message->rows == 0 || count % message->rows == 0,
           "values that fill whole rows, found a rest");
    const eqt::codec::Segment segment = segment_of(*message, count);
    const eqt::codec::MessageContext context = {
        .run_seed = message->seed,
        .step = message->step,
        .rank = message->rank,
        .index = message->index,
        .density = {},
        .scales = {},
        .residual = residual == nullptr ? std::span<float>{} : std::span<float>{residual, count}};
    *written =
        eqt::codec::encode_message(*codec->compressor, {&segment, 1}, {values, count}, context,
                                   codec->workspace, {static_cast<std::byte*>(out), capacity});
  });
}

int equant_codec_decode_add(equant_codec* codec, const equant_message* message, const void* bytes,
                            size_t byte_count, float scale, float* sum, size_t count) {
  return guarded([&] {
    const eqt::codec::Segment segment = segment_of(*message, count);
    eqt::codec::decode_message_add(
        *codec->compressor, {&segment, 1}, {static_cast<const std::byte*>(bytes), byte_count},
        message->step, message->index, scale, codec->workspace, {sum, count});
  });
}

int equant_codec_finish_mean(equant_codec* codec, float* mean, size_t count) {
  return guarded([&] { codec->compressor->finish_mean({mean, count}); });
}

}  // extern "C"
