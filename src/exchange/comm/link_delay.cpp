// SPDX-License-Identifier: Apache-2.0
#include "comm/link_delay.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <system_error>

#include "core/error.hpp"
#include "core/random.hpp"

namespace eqt::comm {
namespace {

constexpr double kMostMilliseconds = 60000;

template <typename Number>
bool read(std::string_view text, Number& number) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && error == std::errc() && rest == text.data() + text.size() &&
         text[0] != '-';
}

bool read_milliseconds(std::string_view text, double& seconds) {
  double milliseconds = 0;
  if (!read(text, milliseconds) || !(milliseconds <= kMostMilliseconds)) return false;
  seconds = milliseconds / 1000;
  return true;
}

bool read_setting(std::string_view key, std::string_view value, LinkDelay& delay) {
  if (key == "latency_ms") return read_milliseconds(value, delay.latency_seconds);
  if (key == "jitter_ms") return read_milliseconds(value, delay.jitter_seconds);
  if (key == "seed") return read(value, delay.seed);
  return key == "rank" && read(value, delay.rank.emplace());
}

bool read_all(std::string_view text, LinkDelay& delay) {
  std::string seen = ",";
  while (true) {
    const std::string_view setting = text.substr(0, text.find(','));
    const std::size_t equals = setting.find('=');
    if (equals == std::string_view::npos) return false;
    const std::string_view key = setting.substr(0, equals);
    if (seen.find(fmt::format(",{},", key)) != std::string::npos) return false;
    if (!read_setting(key, setting.substr(equals + 1), delay)) return false;
    seen += fmt::format("{},", key);
    if (setting.size() == text.size()) break;
    text.remove_prefix(setting.size() + 1);
  }
  return delay.latency_seconds > 0 || delay.jitter_seconds > 0;
}

}  // namespace

LinkDelay parse_link_delay(std::string_view text) {
  LinkDelay delay;
  if (!read_all(text, delay))
    fail(Kind::usage,
         "EQT_LINK: expected latency_ms=NUMBER,jitter_ms=NUMBER[,seed=N][,rank=R] with one of the "
         "first two above 0 and both up to {}, found \"{}\"; correct or unset it",
         kMostMilliseconds, text);
  return delay;
}

std::string text_of(const LinkDelay& delay) {
  return fmt::format("latency_ms={:.12g},jitter_ms={:.12g},seed={}{}", 1000 * delay.latency_seconds,
                     1000 * delay.jitter_seconds, delay.seed,
                     delay.rank ? fmt::format(",rank={}", *delay.rank) : std::string());
}

std::optional<LinkDelay> link_delay_from_environment(int ranks) {
  const char* const text = std::getenv(kLinkVariable);
  if (text == nullptr) return {};
  const LinkDelay delay = parse_link_delay(text);
  if (delay.rank && *delay.rank >= ranks)
    fail(Kind::usage, "{}: expected a rank from 0 to {}, found rank={}; correct it", kLinkVariable,
         ranks - 1, *delay.rank);
  return delay;
}

double seconds_held(const LinkDelay& delay, Rank sender, Rank receiver, std::uint32_t channel,
                    std::uint64_t number) {
  if (delay.jitter_seconds == 0) return delay.latency_seconds;
  const RandomStream random(
      make_key(delay.seed, number, static_cast<std::uint32_t>(sender), RandomPurpose::link),
      channel);
  return delay.latency_seconds +
         delay.jitter_seconds * 0x1p-32 * random.bits(static_cast<std::uint32_t>(receiver));
}

}  // namespace eqt::comm
