// SPDX-License-Identifier: Apache-2.0
// Errors in a config: one sentence with the key, what was expected and found.

#include <random>

#include "config_support.hpp"

using namespace eqt::config;
using Catch::Matchers::ContainsSubstring;
using test::parse;
using test::rejection;

TEST_CASE("an unknown key is named with its full path, with the nearest key", "[config]") {
  CHECK_THAT(rejection(R"({"optimizer": {"learning_rat": 1}})"),
             ContainsSubstring("\"optimizer.learning_rat\"") &&
                 ContainsSubstring("\"optimizer.learning_rate\"") && ContainsSubstring("a.json"));
  CHECK_THAT(rejection(R"({"learning_rate": 1})"),
             ContainsSubstring("\"optimizer.learning_rate\""));
  CHECK_THAT(
      rejection(R"({"data": {"partition": {"kin": "iid"}}})"),
      ContainsSubstring("\"data.partition.kin\"") && ContainsSubstring("\"data.partition.kind\""));
  CHECK_THAT(rejection(R"({"compresor": {"name": "qsgd"}})"),
             ContainsSubstring("nearest is \"compressor\""));
  CHECK_THAT(rejection("{}", {"train.epoch=1"}), ContainsSubstring("--set") &&
                                                     ContainsSubstring("\"train.epoch\"") &&
                                                     ContainsSubstring("\"train.epochs\""));
  CHECK_THAT(rejection(R"({"name": {"x": 1}})"), ContainsSubstring("name in a.json: expected"));
  CHECK_THAT(rejection(R"({"": 1})"), ContainsSubstring("unknown key"));
  CHECK_THAT(rejection(R"({"compressor": {"foo": 1}})"),
             ContainsSubstring("the keys of compressor are name, bits, ") &&
                 !ContainsSubstring("nearest"));
  CHECK_THAT(rejection(R"({"zzz": 1})"),
             ContainsSubstring("the keys of a config are name, seed, ") &&
                 ContainsSubstring("optimizer") && !ContainsSubstring("nearest"));
}

TEST_CASE("options of 8-bit training are refused without it", "[config]") {
  CHECK_THAT(rejection(R"({"model": {"int8": {"ranges": "tensor"}}})"),
             ContainsSubstring("model.int8 only with model.precision \"int8\", found \"fp32\""));
  CHECK_THAT(rejection(R"({"model": {"precision": "int8", "int8": {"ranges": "wide"}}})"),
             ContainsSubstring("sample") && ContainsSubstring("paper"));
  CHECK_NOTHROW(parse(R"({"model": {"precision": "int8", "int8": {"ranges": "paper"}}})"));
}

TEST_CASE("for a dotted key in the document, the error shows the nested form", "[config]") {
  CHECK_THAT(rejection(R"({"optimizer.learning_rate": 1})"), ContainsSubstring("nested"));
  CHECK_THAT(rejection(R"({"data.partition": {"kind": "iid"}})"), ContainsSubstring("nested"));
}

TEST_CASE("a wrong type shows what was expected and found", "[config]") {
  CHECK_THAT(rejection(R"({"train": {"batch_size": "64"}})"),
             ContainsSubstring(
                 "train.batch_size in a.json: expected an integer in [1, 65536], found \"64\""));
  CHECK_THAT(rejection(R"({"train": {"epochs": 3.0}})"), ContainsSubstring("expected an integer"));
  CHECK_THAT(rejection(R"({"train": {"epochs": 1e2}})"), ContainsSubstring("expected an integer"));
  CHECK_THAT(rejection(R"({"train": {"epochs": true}})"), ContainsSubstring("expected an integer"));
  CHECK_THAT(rejection(R"({"seed": 18446744073709551616})"),
             ContainsSubstring("expected an integer"));
  CHECK_THAT(rejection(R"({"data": {"augment": 1}})"),
             ContainsSubstring("expected true or false, found 1"));
  CHECK_THAT(rejection(R"({"optimizer": {"learning_rate": true}})"),
             ContainsSubstring("expected a number"));
  CHECK_THAT(rejection(R"({"schedule": {"milestones": 3}})"),
             ContainsSubstring("expected a list of numbers"));
  CHECK_THAT(rejection(R"({"schedule": {"milestones": [1, "2"]}})"),
             ContainsSubstring("found [1,\"2\"]"));
  CHECK_THAT(rejection(R"({"compressor": {"elasticity": "automatic"}})"),
             ContainsSubstring("expected \"auto\", \"measured\" or a number in (0, 1000000000]"));
  CHECK_THAT(rejection(R"({"compressor": {"elasticity": null}})"), ContainsSubstring("\"auto\""));
  CHECK_THAT(rejection(R"({"model": {"name": 20}})"),
             ContainsSubstring("expected one of resnet18, resnet20"));
  CHECK_THAT(rejection(R"({"model": "resnet20"})"),
             ContainsSubstring("model in a.json: expected an object"));
  CHECK_THAT(rejection(R"({"model": null})"), ContainsSubstring("expected an object"));
  CHECK_THAT(rejection("{}", {"train.epochs=many"}), ContainsSubstring("found \"many\""));
  CHECK_THAT(rejection("{}", {"optimizer.learning_rate=1e999"}),
             ContainsSubstring("expected a number"));
}

TEST_CASE("only optional values may be null", "[config]") {
  CHECK(parse(R"({"model": {"weights": null}, "data": {"path": null}})") == RunConfig{});
  for (const std::string key : {"seed", "name", "device"})
    CHECK_THAT(rejection("{\"" + key + "\": null}"), ContainsSubstring(key + " in a.json"));
  CHECK_THAT(rejection(R"({"train": {"steps": null}})"), ContainsSubstring("found null"));
}

TEST_CASE("a value out of range shows the range", "[config]") {
  CHECK_THAT(rejection(R"({"train": {"batch_size": 0}})"),
             ContainsSubstring("[1, 65536], found 0"));
  CHECK_THAT(rejection(R"({"train": {"batch_size": -1}})"),
             ContainsSubstring("[1, 65536], found -1"));
  CHECK_THAT(rejection(R"({"seed": -1})"), ContainsSubstring("at least 0, found -1"));
  CHECK_THAT(rejection(R"({"threads_per_rank": 4294967297})"), ContainsSubstring("[0, 1024]"));
  CHECK_THAT(rejection(R"({"optimizer": {"momentum": 1}})"), ContainsSubstring("[0, 1), found 1"));
  CHECK_THAT(rejection(R"({"compressor": {"density": 0}})"), ContainsSubstring("(0, 1], found 0"));
  CHECK_THAT(rejection(R"({"compressor": {"clip": -0.5}})"),
             ContainsSubstring("[0, 1000], found -0.5"));
  CHECK_THAT(rejection(R"({"schedule": {"kind": "step", "milestones": [0]}})"),
             ContainsSubstring("(0, "));
}

TEST_CASE("emulated compute that is not a time is refused", "[config]") {
  for (const std::string wrong :
       {"[]", "-0.1", "[0.1, -0.1]", "3601", "\"fast\"", "[0.1, null]", "true", "{}", "[[1]]"})
    CHECK_THAT(rejection(R"({"train": {"steps": 5, "emulate_compute": )" + wrong + "}}"),
               ContainsSubstring(
                   "train.emulate_compute in a.json: expected null, a number or a list of one "
                   "number per rank, each in [0, 3600], found "));
}

TEST_CASE("an unknown name shows the nearest and the list", "[config]") {
  CHECK_THAT(rejection(R"({"compressor": {"name": "elastiqant"}})"),
             ContainsSubstring("compressor.name") &&
                 ContainsSubstring("nearest is \"elastiquant\"") &&
                 ContainsSubstring("none, fp16, bf16, int8, int8-channels, qsgd, qsgd-v"));
  CHECK_THAT(rejection(R"({"model": {"name": "ResNet-20"}})"),
             ContainsSubstring("nearest is \"resnet20\""));
  CHECK_THAT(rejection(R"({"device": "gpu"})"),
             ContainsSubstring("nearest is \"cpu\"") && ContainsSubstring("cpu, cuda, auto"));
  CHECK_THAT(rejection(R"({"compressor": {"name": "quick-silver"}})"),
             ContainsSubstring("unknown name"));
  CHECK_THAT(rejection("{}", {"compressor.name=qsdg"}),
             ContainsSubstring("\"qsgd\"") && ContainsSubstring("--set"));
}

TEST_CASE("what only the processor computes is refused on a device", "[config]") {
  const auto on = [](const std::string& device, const std::string& rest) {
    return "{\"device\": \"" + device + "\", " + rest + "}";
  };
  for (const std::string rest :
       {R"("model": {"precision": "int8"})", R"("model": {"precision": "bf16"})",
        R"("model": {"normalization": "range-batchnorm"})",
        R"("model": {"normalization": "range-evonorm"})",
        R"("train": {"steps": 5, "emulate_compute": 0.1})"}) {
    CHECK_THAT(rejection(on("cuda", rest)),
               ContainsSubstring("expected device \"cpu\"") && ContainsSubstring("found \"cuda\""));
    CHECK(parse(on("auto", rest)).device == Device::automatic);
    CHECK(parse(on("cpu", rest)).device == Device::cpu);
  }
  for (const std::string name : {"batchnorm", "groupnorm", "evonorm-s0"})
    CHECK(parse(on("cuda", R"("model": {"normalization": ")" + name + "\"}")).device ==
          Device::cuda);
}

TEST_CASE("a run's name is the name of a folder", "[config]") {
  for (const std::string name : {"", ".", "..", ".hidden", "a/b", "../a", "a\\nb", "\\u0000"})
    CHECK_THAT(rejection("{\"name\": \"" + name + "\"}"), ContainsSubstring("folder's name"));
  CHECK_THAT(rejection("{\"name\": \"" + std::string(129, 'a') + "\"}"),
             ContainsSubstring("128 bytes"));
  CHECK(parse("{\"name\": \"" + std::string(128, 'a') + "\"}").name.size() == 128);
  CHECK_THAT(rejection("{}", {"name=\xFF"}), ContainsSubstring("name in --set"));
  CHECK_THAT(rejection("{}", {"data.path="}),
             ContainsSubstring("expected a path or null, found \"\""));
}

TEST_CASE("a key that occurs twice is named with its full path", "[config]") {
  CHECK_THAT(rejection(R"({"seed": 1, "seed": 1})"), ContainsSubstring("\"seed\" twice"));
  CHECK_THAT(rejection(R"({"model": {"name": "resnet20"}, "train": {"steps": 1, "steps": 2}})"),
             ContainsSubstring("\"train.steps\" twice"));
  CHECK_THAT(rejection(R"({"model": {}, "model": {}})"), ContainsSubstring("\"model\" twice"));
  CHECK(parse(R"({"model": {"name": "resnet20"}, "data": {"name": "cifar10"}})").data.name ==
        eqt::data::sets::cifar10);
}

TEST_CASE("malformed JSON is reported with line and column", "[config]") {
  CHECK_THAT(rejection("{\n  \"seed\" 1\n}"),
             ContainsSubstring("a.json") && ContainsSubstring("line 2, column 10:"));
  CHECK_THAT(rejection("{\"seed\": 01}"), ContainsSubstring("line 1, column 11:"));
  CHECK_THAT(rejection("{\"seed\": 1} x"), ContainsSubstring("line 1, column 13:"));
  CHECK_THAT(rejection(""), ContainsSubstring("line 1, column 1:"));
  CHECK_THAT(rejection("{\"seed\": NaN}"), ContainsSubstring("valid JSON"));
  CHECK_THAT(rejection("{\"optimizer\": {\"learning_rate\": 1e999}}"), ContainsSubstring("1e999"));
  CHECK_THAT(rejection("[1]"), ContainsSubstring("expected a JSON object"));
  CHECK_THAT(rejection("{\"name\": \"\xFF\"}"), ContainsSubstring("valid JSON"));
}

TEST_CASE("comments of a config are left out, but not what looks like one in a string",
          "[config]") {
  CHECK(
      parse(
          "// a // b\n{\"seed\": 2, // \"seed\": 3, }\n/* \"seed\": 4,\n}*/ \"name\": \"c\"}//") ==
      parse(R"({"seed": 2, "name": "c"})"));
  CHECK(parse(R"({"data": {"path": "a//b/*c*/"}})").data.path == "a//b/*c*/");
  CHECK_THAT(rejection("{\"seed\": 2 /* }"), ContainsSubstring("line 1, column 16:"));
  CHECK_THAT(rejection("{\"seed\": 2 / }"), ContainsSubstring("line 1, column 13:"));
  CHECK_THAT(rejection("{\"seed\": 2} # c"), ContainsSubstring("line 1, column 13:"));
  CHECK_THAT(rejection("{}", {"seed=2 // c"}), ContainsSubstring("found \"2 // c\""));
}

TEST_CASE("a comma that ends an object or a list is named", "[config]") {
  CHECK_THAT(rejection("{\n  \"seed\": 1,\n}"),
             ContainsSubstring("a.json: expected valid JSON, found that the comma before } at line "
                               "3, column 1 has nothing after it"));
  CHECK_THAT(rejection("{\"schedule\": {\"milestones\": [1, 2, /* 3, */ // \"\n ]}}"),
             ContainsSubstring("the comma before ] at line 2, column 2 has nothing after it"));
  CHECK_THAT(rejection(R"({"name": "\",", "model": {"name": "a",}})"),
             ContainsSubstring("the comma before } at line 1, column 39 has"));
  CHECK_THAT(rejection(R"({"name": ","]})"), !ContainsSubstring("nothing after it"));
  CHECK_NOTHROW(parse("{/*,*/}"));
}

TEST_CASE("a document of excessive size or depth is refused", "[config]") {
  CHECK_THAT(rejection(std::string(100000, '[')), ContainsSubstring("16 levels"));
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "{\"model\":";
  CHECK_THAT(rejection(deep), ContainsSubstring("16 levels"));
  CHECK_THAT(rejection("{}" + std::string(1 << 20, ' ')), ContainsSubstring("1048576 bytes"));
  CHECK(parse("{}" + std::string((1 << 20) - 2, ' ')) == RunConfig{});
  const std::string long_key = rejection("{\"" + std::string(1 << 19, 'k') + "\": 1}");
  CHECK(long_key.size() < 400);
}

TEST_CASE("--set must name one key", "[config]") {
  CHECK_THAT(rejection("{}", {"seed"}), ContainsSubstring("KEY=VALUE"));
  CHECK_THAT(rejection("{}", {"=3"}), ContainsSubstring("KEY=VALUE"));
  CHECK_THAT(rejection("{}", {"model={}"}),
             ContainsSubstring("section") && ContainsSubstring("model.KEY=VALUE"));
}

TEST_CASE("values of --set that are no value of their key", "[config]") {
  const std::string nested = std::string(5000, '[') + std::string(5000, ']');
  CHECK_THAT(rejection("{}", {"schedule.milestones=" + nested}),
             ContainsSubstring("levels of nesting"));
  CHECK_THAT(rejection("{}", {R"(schedule.milestones={"a": 1, "a": 2})"}),
             ContainsSubstring("twice"));
  CHECK_THAT(rejection("{}", {"data.path=a\nb"}), ContainsSubstring("data.path"));
  CHECK_THAT(rejection("{}", {"data.path=a\xFF"}), ContainsSubstring("data.path"));
  CHECK_THAT(rejection("{}", {"train.steps=184467440737095516160"}),
             ContainsSubstring("train.steps"));
  CHECK_THAT(rejection("{}", {"seed=-1"}), ContainsSubstring("seed"));
  CHECK_THAT(rejection("{}", {"name=../escaped"}), ContainsSubstring("name"));
  CHECK_THAT(rejection("{}", {"optimizer.learning_rat=0.1"}),
             ContainsSubstring("optimizer.learning_rate"));
  CHECK_THAT(rejection("{}", {"compressor.bits=77"}), ContainsSubstring("compressor.bits"));
  CHECK_THAT(rejection("{}", {"train.epochs=many"}), ContainsSubstring("train.epochs"));
}

TEST_CASE("a damaged document is a valid config or gives a one-sentence error", "[config]") {
  const std::string good = resolved_json(parse("{}", {"compressor.name=elastiquant"}));
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = good;
    for (int edits = 0; edits < 3; ++edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 16));
          break;
      }
    }
    try {
      parse(text);
    } catch (const eqt::Error& error) {
      ++refused;
      const std::string what = error.what();
      if (error.kind() != eqt::Kind::usage || what.size() > 600 || what.find('\n') != what.npos)
        FAIL_CHECK(what);
    }
  }
  CHECK(refused > 1000);
}
