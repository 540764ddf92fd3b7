// SPDX-License-Identifier: Apache-2.0
// What doctor, bench and runs say, as sources of a calibration; other files are refused.

#include "planner/calibration/calibrate.hpp"

#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/run_folders.hpp"
#include "support/temporary_folder.hpp"

namespace eqt::planner {
namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;

json doctor_link(bool same_host, double latency, double rate, double duplex) {
  return {{"from", 0},
          {"to", 1},
          {"same_host", same_host},
          {"interface", "eth0"},
          {"latency_seconds", latency},
          {"bytes_per_second", rate},
          {"duplex_bytes_per_second", duplex}};
}

json doctor_document() {
  return {{"version", "1"},
          {"size", 3},
          {"ranks",
           {{{"host", "pi0"}, {"threads", 4}, {"matmul_flops", 2e10}, {"cores", 4}},
            {{"host", "pi0"}, {"threads", 4}, {"matmul_flops", 1e10}},
            {{"host", "pi1"}, {"threads", 4}, {"matmul_flops", 0}}}},
          {"links",
           {doctor_link(false, 1e-3, 1e7, 9e6), doctor_link(false, 2e-3, 8e6, 9.5e6),
            doctor_link(true, 1e-6, 1e10, 1e10)}},
          {"warnings", json::array()}};
}

const char* const kCollectives =
    R"({"collective":"auto","ran":"dense","compressor":"none","values":1000,"ranks":4,"median_ms":2.5,"wire_bytes":8,"on_host_bytes":8}

{"collective":"ring","compressor":"qsgd","values":7,"ranks":2,"median_ms":1,"wire_bytes":9,"on_host_bytes":0}
)";

/// A run of ten steps; `compute` are the seconds of each.
void make_run(const std::string& folder, const std::vector<double>& compute,
              test::MadeRun made = {}) {
  made.losses = made.accuracies = json::array();
  made.finished = false;
  made.settings.merge_patch({{"train", {{"accumulate", 2}, {"batch_sizes", nullptr}}}});
  made.run["threads_per_rank"] = 4;
  test::make_run(folder, made);
  std::ofstream records(folder + "/metrics.jsonl", std::ios::app);
  for (std::size_t i = 0; i < compute.size(); ++i)
    records << R"({"type":"step","step":)" << i + 1 << R"(,"seconds":{"compute":)" << compute[i]
            << R"(,"update":0.25},"sent_bytes":600})"
            << "\n";
  records << R"({"type":"step","step":99,"sec)";  // cut off
}

/// The sentence with which a run of five steps is refused.
std::string refused(const json& settings, const json& run, std::size_t steps = 5) {
  const test::TemporaryFolder folder;
  test::MadeRun made;
  made.settings = settings;
  made.run = run;
  make_run(folder.path() + "/r", std::vector<double>(steps, 1.0), made);
  if (settings.contains("train") && settings["train"].contains("batch_sizes")) {
    json config = test::config_of(made);
    config["train"]["accumulate"] = 1;
    std::ofstream(folder.path() + "/r/config.json") << config;
  }
  return test::refusal(Kind::data, [&] { (void)run_times(folder.path() + "/r"); });
}

}  // namespace

TEST_CASE("of doctor's links the slowest between hosts and within", "[planner]") {
  const Source source = parse_source(doctor_document().dump(2), "d.json");
  REQUIRE(source.between_hosts);
  CHECK(source.between_hosts->count == 2);
  CHECK(source.between_hosts->latency_seconds == 2e-3);
  CHECK(source.between_hosts->bytes_per_second == 8e6);
  CHECK(source.between_hosts->duplex_bytes_per_second == 9e6);
  REQUIRE(source.within_host);
  CHECK(source.within_host->bytes_per_second == 1e10);
}

TEST_CASE("of doctor's ranks on a host the slowest one's matrix products", "[planner]") {
  const Source source = parse_source(doctor_document().dump(2), "d.json");
  REQUIRE(source.matmul.size() == 1);  // the other host did not measure
  CHECK(source.matmul[0].host == "pi0");
  CHECK(source.matmul[0].threads == 4);
  CHECK(source.matmul[0].flops == 1e10);
}

TEST_CASE("a document of doctor with a mistake is refused with its place", "[planner]") {
  const auto with = [](const char* pointer, const json& value) {
    json document = doctor_document();
    document[json::json_pointer(pointer)] = value;
    return test::refusal(Kind::usage, [&] { (void)parse_source(document.dump(2), "d.json"); });
  };
  CHECK_THAT(with("/links", 3), ContainsSubstring("d.json.links") && ContainsSubstring("a list"));
  CHECK_THAT(with("/links/1/bytes_per_second", -8e6),
             ContainsSubstring("links[1]") && ContainsSubstring("above 0"));
  CHECK_THAT(with("/links/1/latency_seconds", 1e99), ContainsSubstring("at most"));
  CHECK_THAT(with("/links/0/same_host", 1), ContainsSubstring("true or false"));
  CHECK_THAT(with("/links/2", nullptr), ContainsSubstring("an object"));
  CHECK_THAT(with("/ranks/1/matmul_flops", "fast"),
             ContainsSubstring("ranks[1]") && ContainsSubstring("a number"));
  CHECK_THAT(with("/ranks/0/threads", 0), ContainsSubstring("ranks[0].threads"));
}

TEST_CASE("lines of bench are told apart", "[planner]") {
  const Source collectives = parse_source(kCollectives, "c.jsonl");
  REQUIRE(collectives.collectives.size() == 2);
  CHECK(collectives.collectives[0].collective == "dense");
  CHECK(collectives.collectives[0].ranks == 4);
  CHECK(collectives.collectives[0].seconds == Approx(2.5e-3));
  CHECK(collectives.collectives[1].on_host_bytes == 0);
  const Source codecs =
      parse_source(R"({"compressor":"none","encode_gb_s":1,"decode_add_gb_s":1})", "b.jsonl");
  CHECK(codecs.codecs.size() == 1);
}

TEST_CASE("files that measured nothing are refused", "[planner]") {
  const auto sentence = [](const std::string& text) {
    return test::refusal(Kind::usage, [&] { (void)parse_source(text, "x"); });
  };
  CHECK_THAT(sentence(""), ContainsSubstring("an empty file"));
  CHECK_THAT(sentence("hello"), ContainsSubstring("hello"));
  CHECK_THAT(sentence(R"({"boards": []})"), ContainsSubstring("doctor, bench codecs"));
  CHECK_THAT(sentence("{\n\"links\": [}"), ContainsSubstring("line 2"));
  CHECK_THAT(sentence(std::string(kCollectives) + "[]"), ContainsSubstring("x:4"));
  CHECK_THAT(sentence(R"({"collective":"ring","compressor":"none"})"),
             ContainsSubstring("\"values\""));
  CHECK_THAT(sentence(R"({"collective":"ring","compressor":"none","values":-3,"ranks":2,)"
                      R"("median_ms":1,"wire_bytes":1,"on_host_bytes":1})"),
             ContainsSubstring("x:1.values"));
  CHECK_THROWS_WITH(read_source("/nowhere/at/all"),
                    ContainsSubstring("--from") && ContainsSubstring("/nowhere"));
}

TEST_CASE("a run's times are medians of its steps but the first two", "[planner]") {
  const test::TemporaryFolder folder;
  make_run(folder.path() + "/r", {90, 70, 4, 1, 2, 8});
  const RunTimes times = run_times(folder.path() + "/r");
  CHECK(times.steps == 4);
  CHECK(times.step_seconds == 1.5);  // the median of 4, 1, 2, 8 is 3, of two batches
  CHECK(times.update_seconds == 0.25);
  CHECK(times.sent_bytes == 300);
  CHECK(times.batch_size == 64);
  CHECK(times.model == "resnet20");
  CHECK(times.host == "here");
  CHECK(times.threads_per_rank == 4);
  CHECK(read_source(folder.path()).runs.size() == 1);
}

TEST_CASE("a simulation computes for all ranks, one after the other", "[planner]") {
  const test::TemporaryFolder folder;
  test::MadeRun made;
  made.ranks = 3;
  made.run["simulated"] = true;
  make_run(folder.path() + "/r", {1, 1, 6, 6}, made);
  const RunTimes times = run_times(folder.path() + "/r");
  CHECK(times.step_seconds == 1);  // 6 s for two batches of each of three ranks
  CHECK(times.update_seconds == 0.25);
}

TEST_CASE("a run's profile is taken, and one with a mistake is refused", "[planner]") {
  const json profile = {{"type", "profile"},
                        {"step", 24},
                        {"steps", 5},
                        {"forward_seconds", 0.25},
                        {"backward_seconds", 0.5},
                        {"slices",
                         {{{"slice", "fc.bias"}, {"ready_seconds", 0.25}},
                          {{"slice", "fc.weight"}, {"ready_seconds", 0.75}}}}};
  const auto read = [&](const char* pointer, const json& value) {
    const test::TemporaryFolder folder;
    make_run(folder.path() + "/r", {1, 1, 1});
    json record = profile;
    record[json::json_pointer(pointer)] = value;
    // Its keys in their order: readers look at how the line begins.
    std::string line = record.dump();
    const std::string type = R"("type":"profile",)", whole = R"(,"type":"profile")";
    line.erase(line.find(whole), whole.size());
    line.insert(1, type);
    std::ifstream before(folder.path() + "/r/metrics.jsonl");
    std::string first;
    std::getline(before, first);
    std::ofstream(folder.path() + "/r/metrics.jsonl")
        << first << "\n"
        << line << "\n"
        << R"({"type":"step","step":25,"seconds":{"compute":1,"update":0.25},"sent_bytes":6})"
        << "\n";
    return run_times(folder.path() + "/r");
  };
  const auto taken = read("/steps", 5).profile;
  REQUIRE(taken);
  CHECK(taken->forward == 0.25);
  CHECK(taken->backward == 0.5);
  REQUIRE(taken->slices.size() == 2);
  CHECK(taken->slices[0].name == "fc.bias");
  CHECK(taken->slices[1].ready == 0.75);
  const auto refused_at = [&](const char* pointer, const json& value) {
    return test::refusal(Kind::data, [&] { (void)read(pointer, value); });
  };
  CHECK_THAT(refused_at("/forward_seconds", 0),
             ContainsSubstring("forward_seconds") && ContainsSubstring("above 0"));
  CHECK_THAT(refused_at("/backward_seconds", "x"), ContainsSubstring("backward_seconds"));
  CHECK_THAT(refused_at("/slices", 3), ContainsSubstring("slices") && ContainsSubstring("a list"));
  CHECK_THAT(refused_at("/slices/0/ready_seconds", -1), ContainsSubstring("ready_seconds"));
  CHECK_THAT(refused_at("/slices/1/slice", ""), ContainsSubstring("metrics.jsonl:2"));
  CHECK_THAT(refused_at("/slices/1", 3), ContainsSubstring("metrics.jsonl:2"));
}

TEST_CASE("runs without times of computing are refused", "[planner]") {
  CHECK_THAT(refused({}, {{"emulated", true}}), ContainsSubstring("emulate_compute"));
  CHECK_THAT(refused({}, json::object(), 2), ContainsSubstring("step 3"));
  CHECK_THAT(refused({{"train", {{"batch_sizes", "auto"}}}}, json::object()),
             ContainsSubstring("batch_sizes"));
  CHECK_THAT(refused({{"train", {{"batch_size", "many"}}}}, json::object()),
             ContainsSubstring("train.batch_size"));
  const test::TemporaryFolder folder;
  make_run(folder.path() + "/r", {1, 1, -1});
  CHECK_THROWS_WITH(run_times(folder.path() + "/r"), ContainsSubstring("compute"));
}

TEST_CASE("sources are put together in their order", "[planner]") {
  Source first = parse_source(doctor_document().dump(), "d.json");
  Source second = first;
  second.between_hosts->duplex_bytes_per_second = 1e6;
  second.runs.emplace_back();
  second.matmul[0].flops = 5e9;
  std::vector<std::string> notes;
  const Calibration calibration = combine({first, second}, {"a", "b"}, notes);
  CHECK(calibration.made_from == std::vector<std::string>{"doctor: a", "doctor: b"});
  CHECK(calibration.between_hosts->count == 4);
  CHECK(calibration.between_hosts->duplex_bytes_per_second == 1e6);
  CHECK(calibration.runs.size() == 1);
  REQUIRE(calibration.matmul.size() == 1);
  CHECK(calibration.matmul[0].flops == 5e9);
  CHECK_FALSE(calibration.communication);
  CHECK(notes.empty());
  CHECK_FALSE(calibration.processor.empty());
}

}  // namespace eqt::planner
