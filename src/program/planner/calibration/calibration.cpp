// SPDX-License-Identifier: Apache-2.0
#include "planner/calibration/calibration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "planner/checked_object.hpp"

namespace eqt::planner {
namespace {

using config::Json;
using nlohmann::ordered_json;
using Type = Key::Type;

constexpr double kMostSeconds = 1e6, kMostCount = 1e15;
constexpr double kMostRate = 1e15;  // [bytes/s]

constexpr Key kCalibrationKeys[] = {
    {"processor", Type::text, "name of the processor that was measured", true},
    {"version", Type::text, "of the program that made it", true},
    {"made_from", Type::list, "what it was made from"},
    {"codecs", Type::list, "speeds of compressors, as bench codecs --json prints them"},
    {"communication", Type::object, "handling of messages on a core"},
    {"links_between_hosts", Type::object, "lowest rates and longest latency"},
    {"links_within_host", Type::object, "lowest rates and longest latency"},
    {"runs", Type::list, "computing times of runs"},
    {"matmul", Type::list, "speed of matrix products"},
    {"guessed", Type::list, "what was not measured"},
};
constexpr Key kCommunicationKeys[] = {
    {"add_seconds", Type::number, "of a value", true, 0, false, 1},
    {"message_seconds", Type::number, "of a message, on each side", true, 0, false, 1},
    {"byte_seconds", Type::number, "of a byte, on each side", true, 0, false, 1},
};
constexpr Key kMeasuredLinkKeys[] = {
    {"count", Type::integer, "directions that were measured", true, 1, false, kMostCount},
    {"latency_seconds", Type::number, "of a message", true, 0, false, kMostSeconds},
    {"bytes_per_second", Type::number, "in one direction", true, 0, true, kMostRate},
    {"duplex_bytes_per_second", Type::number, "while both directions are busy", true, 0, true,
     kMostRate},
};
constexpr Key kRunKeys[] = {
    {"run", Type::text, "folder", true},
    {"host", Type::text, "of rank 0", true},
    {"model", Type::text, "model.name", true},
    {"precision", Type::text, "model.precision", true},
    {"dataset", Type::text, "data.name", true},
    {"parameters", Type::integer, "values of the gradient", true, 1, false, kMostCount},
    {"threads_per_rank", Type::integer, "threads", true, 1, false, 65536},
    {"batch_size", Type::integer, "of a rank", true, 1, false, kMostCount},
    {"steps", Type::integer, "whose records were read", true, 1, false, kMostCount},
    {"step_seconds", Type::number, "forward and backward pass", true, 0, true, kMostSeconds},
    {"update_seconds", Type::number, "the optimizer's part", true, 0, false, kMostSeconds},
    {"sent_bytes", Type::number, "by a rank in a step", true, 0, false, kMostCount},
    {"profile", Type::object, "when gradients are ready"},
};

constexpr Key kMatmulKeys[] = {
    {"host", Type::text, "of the ranks", true},
    {"threads", Type::integer, "of a rank", true, 1, false, 65536},
    {"flops", Type::number, "operations a second of a rank", true, 0, true, 1e18},
};

constexpr Key kProfileKeys[] = {
    {"forward_seconds", Type::number, "until the first gradient is ready", true, 0, true, 1e6},
    {"backward_seconds", Type::number, "from then on", true, 0, false, 1e6},
    {"slices", Type::list, "tensors, the last one first", true},
};

constexpr Key kSliceKeys[] = {
    {"slice", Type::text, "name of the tensor", true},
    {"ready_seconds", Type::number, "since the start of the forward pass", true, 0, true, 1e6},
};

/// @throws Error{usage} as CheckedObject
Profile profile_of(const CheckedObject& object) {
  Profile profile = {.forward = object.number("forward_seconds", 0),
                     .backward = object.number("backward_seconds", 0)};
  const Json& slices = object.list("slices");
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const CheckedObject slice(slices[i], kSliceKeys,
                              fmt::format("{}.slices[{}]", object.place(), i));
    profile.slices.push_back(
        {.name = slice.text("slice"), .ready = slice.number("ready_seconds", 0)});
  }
  return profile;
}

ordered_json json_of(const Profile& profile) {
  ordered_json slices = ordered_json::array();
  for (const Profile::Slice& slice : profile.slices)
    slices.push_back({{"slice", slice.name}, {"ready_seconds", slice.ready}});
  return {{"forward_seconds", profile.forward},
          {"backward_seconds", profile.backward},
          {"slices", std::move(slices)}};
}

std::vector<std::string> texts_of(const CheckedObject& object, const char* key) {
  std::vector<std::string> texts;
  if (!object.has(key)) return texts;
  for (const Json& text : object.list(key)) {
    if (!text.is_string() || !is_name(text.get_ref<const std::string&>()))
      fail(Kind::usage,
           "{}.{}: expected a list of texts without control characters, found {} in it; make the "
           "calibration again",
           object.place(), key, config::shown(text));
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

MeasuredLinks links_of(const CheckedObject& object) {
  return {.count = static_cast<std::uint64_t>(object.number("count", 0)),
          .latency_seconds = object.number("latency_seconds", 0),
          .bytes_per_second = object.number("bytes_per_second", 0),
          .duplex_bytes_per_second = object.number("duplex_bytes_per_second", 0)};
}

RunTimes run_of(const CheckedObject& object) {
  const auto count = [&](const char* key) {
    return static_cast<std::uint64_t>(object.number(key, 0));
  };
  RunTimes run = {.run = object.text("run"),
                  .host = object.text("host"),
                  .model = object.text("model"),
                  .precision = object.text("precision"),
                  .dataset = object.text("dataset"),
                  .parameters = count("parameters"),
                  .threads_per_rank = count("threads_per_rank"),
                  .batch_size = count("batch_size"),
                  .steps = count("steps"),
                  .step_seconds = object.number("step_seconds", 0),
                  .update_seconds = object.number("update_seconds", 0),
                  .sent_bytes = object.number("sent_bytes", 0)};
  if (object.has("profile")) run.profile = profile_of(object.object("profile", kProfileKeys));
  return run;
}

ordered_json json_of(const MeasuredLinks& links) {
  return {{"count", links.count},
          {"latency_seconds", links.latency_seconds},
          {"bytes_per_second", links.bytes_per_second},
          {"duplex_bytes_per_second", links.duplex_bytes_per_second}};
}

ordered_json json_of(const RunTimes& run) {
  ordered_json json = {{"run", run.run},
                       {"host", run.host},
                       {"model", run.model},
                       {"precision", run.precision},
                       {"dataset", run.dataset},
                       {"parameters", run.parameters},
                       {"threads_per_rank", run.threads_per_rank},
                       {"batch_size", run.batch_size},
                       {"steps", run.steps},
                       {"step_seconds", run.step_seconds},
                       {"update_seconds", run.update_seconds},
                       {"sent_bytes", run.sent_bytes}};
  if (run.profile) json["profile"] = json_of(*run.profile);
  return json;
}

/// Lines of JSON, the first of which is complete and has a compressor.
bool are_codec_lines(const std::string& text, const std::string& origin) {
  const std::size_t begin = text.find_first_not_of("\n");
  if (begin == std::string::npos) return false;
  const Json first =
      config::parse_value(text.substr(begin, text.find('\n', begin) - begin), origin);
  return first.is_object() && first.contains("compressor");
}

}  // namespace

MachineCosts Calibration::machine() const {
  MachineCosts costs;
  if (communication) {
    costs.communication = *communication;
    std::erase_if(costs.guessed, [](const auto& what) { return what != "update"; });
  }
  if (!runs.empty()) {
    costs.update = runs.front().update_seconds / static_cast<double>(runs.front().parameters);
    std::erase(costs.guessed, "update");
  }
  return costs;
}

CodecSpeeds Calibration::codec_speeds(const std::string& origin) const {
  return codecs.empty() ? CodecSpeeds() : CodecSpeeds(codecs, origin);
}

Calibration parse_calibration(const std::string& text, const std::string& origin) {
  Calibration result;
  if (are_codec_lines(text, origin)) {
    result.codecs = parse_codec_lines(text, origin);
    return result;
  }
  const Json document = config::parse_document(text, origin, "calibration");
  const CheckedObject object(document, kCalibrationKeys, origin);
  result.processor = object.text("processor");
  result.version = object.text("version");
  result.made_from = texts_of(object, "made_from");
  (void)texts_of(object, "guessed");  // follows from what is there
  const auto each = [&](const char* key, const auto& take) {
    if (!object.has(key)) return;
    const Json& list = object.list(key);
    for (std::size_t i = 0; i < list.size(); ++i)
      take(list[i], fmt::format("{}: {}[{}]", origin, key, i));
  };
  each("codecs", [&](const Json& json, const std::string& place) {
    result.codecs.push_back(codec_line_of(json, place, OtherKeys::refused));
  });
  each("runs", [&](const Json& json, const std::string& place) {
    result.runs.push_back(run_of(CheckedObject(json, kRunKeys, place)));
  });
  each("matmul", [&](const Json& json, const std::string& place) {
    const CheckedObject speed(json, kMatmulKeys, place);
    result.matmul.push_back({.host = speed.text("host"),
                             .threads = static_cast<std::uint64_t>(speed.number("threads", 1)),
                             .flops = speed.number("flops", 0)});
  });
  if (object.has("communication")) {
    const CheckedObject costs = object.object("communication", kCommunicationKeys);
    result.communication = {.add = costs.number("add_seconds", 0),
                            .message = costs.number("message_seconds", 0),
                            .byte = costs.number("byte_seconds", 0)};
  }
  if (object.has("links_between_hosts"))
    result.between_hosts = links_of(object.object("links_between_hosts", kMeasuredLinkKeys));
  if (object.has("links_within_host"))
    result.within_host = links_of(object.object("links_within_host", kMeasuredLinkKeys));
  return result;
}

std::string calibration_text(const Calibration& calibration) {
  ordered_json document = {{"processor", calibration.processor}, {"version", calibration.version}};
  document["made_from"] = calibration.made_from;
  document["codecs"] = ordered_json::array();
  for (const CodecLine& line : calibration.codecs) document["codecs"].push_back(json_of(line));
  if (const auto& costs = calibration.communication)
    document["communication"] = {{"add_seconds", costs->add},
                                 {"message_seconds", costs->message},
                                 {"byte_seconds", costs->byte}};
  if (calibration.between_hosts)
    document["links_between_hosts"] = json_of(*calibration.between_hosts);
  if (calibration.within_host) document["links_within_host"] = json_of(*calibration.within_host);
  document["runs"] = ordered_json::array();
  for (const RunTimes& run : calibration.runs) document["runs"].push_back(json_of(run));
  document["matmul"] = ordered_json::array();
  for (const MatmulSpeed& speed : calibration.matmul)
    document["matmul"].push_back(
        {{"host", speed.host}, {"threads", speed.threads}, {"flops", speed.flops}});
  std::vector<std::string> guessed = calibration.machine().guessed;
  if (calibration.codecs.empty()) guessed.emplace_back("compressors");
  if (!calibration.between_hosts) guessed.emplace_back("links");
  if (calibration.runs.empty()) guessed.emplace_back("computing");
  if (std::ranges::none_of(calibration.runs,
                           [](const RunTimes& run) { return run.profile.has_value(); }))
    guessed.emplace_back(kReadyMoments);
  document["guessed"] = guessed;
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<std::string> differences(const Calibration& calibration, const std::string& processor,
                                     const std::string& version) {
  std::vector<std::string> notes;
  if (!calibration.processor.empty() && calibration.processor != processor)
    notes.push_back(fmt::format("the calibration is of another processor: {}, this one is {}",
                                calibration.processor, processor));
  if (!calibration.version.empty() && calibration.version != version)
    notes.push_back(fmt::format("the calibration was made by version {}, this is {}",
                                calibration.version, version));
  return notes;
}

}  // namespace eqt::planner
