// SPDX-License-Identifier: Apache-2.0
#include "report/paper_tables.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "support/catch.hpp"

using namespace eqt;
using namespace eqt::figures;
using namespace eqt::report;

namespace {

Run board_run(const std::string& compressor, int ranks, double total) {
  Run run;
  run.model = "resnet34";
  run.dataset = "drawn gradients";
  run.emulated = run.finished = true;
  run.compressor = compressor;
  run.algorithm = "allreduce";
  run.ranks = ranks;
  run.seed = "1";
  run.settings = {
      {"compressor.name", compressor}, {"compressor.bits", "8"}, {"ranks", std::to_string(ranks)}};
  run.outcome.steps = 4;
  run.outcome.step_seconds = {0, 0.5, 0.125, 0.25, 0.0625, 0, total};
  return run;
}

/// The cell's text in the row whose first cells are `row`, in the column with that key.
std::string cell(const Table& table, const std::vector<std::string>& row, const std::string& key) {
  const auto column = std::ranges::find(table.columns, key, &Column::key);
  REQUIRE(column != table.columns.end());
  for (const auto& cells : table.rows) {
    bool is_it = true;
    for (std::size_t i = 0; i < row.size(); ++i) is_it &= cells[i].text == row[i];
    if (is_it) return cells[static_cast<std::size_t>(column - table.columns.begin())].text;
  }
  FAIL("no such row");
  return "";
}

}  // namespace

TEST_CASE("published tables are complete and add up to the printed digits", "[report]") {
  const PublishedTable& scalability = published_table("scalability");
  CHECK(scalability.rows.size() == 24);
  CHECK(scalability.source.find("table 3") != std::string::npos);
  std::size_t exact = 0;
  for (const PublishedRow& row : scalability.rows) {
    const double sum = *published_number(row, "compute") +
                       published_number(row, "encode").value_or(0) +
                       *published_number(row, "transmit");
    exact += std::abs(sum - *published_number(row, "total")) < 0.005;
  }
  CHECK(exact == 20);  // four rows are misprinted; the file says which
  CHECK(published_table("accuracy").rows.size() == 20);
  CHECK(published_table("decentralised").rows.size() == 32 + 8 + 12);
  CHECK_THROWS_AS(published_table("nothing"), Error);
}

TEST_CASE("a published file with a short row or a word instead of a number is a bug", "[report]") {
  CHECK_THROWS_AS(parse_published("a,b\n1\n"), Error);
  const PublishedTable table = parse_published("# source: x\n# data: y\na,b\n1,\n");
  CHECK(table.source == "x");
  CHECK(table.conditions.size() == 1);
  CHECK(published_number(table.rows[0], "a") == 1.0);
  CHECK_FALSE(published_number(table.rows[0], "b"));
  CHECK_THROWS_AS(published_number(parse_published("a\nx\n").rows[0], "a"), Error);
}

TEST_CASE("names of configs are converted to those of papers", "[report]") {
  CHECK(paper_network("resnet110") == "ResNet-110");
  CHECK(paper_network("vgg11") == "VGG-11");
  CHECK(paper_network("other") == "other");
  CHECK(paper_data("cifar100") == "CIFAR-100");
  Run run;
  run.compressor = "dgc";
  run.settings = {{"compressor.density", "0.02"}};
  CHECK(paper_scheme(run, "SGD") == "DGC");
  CHECK(paper_tuning(run) == "0.02 CR");
  CHECK(paper_left_out(run) == Approx(98));
  run.compressor = "qsgd";
  run.outcome.bits_per_value = 4;
  CHECK(paper_left_out(run) == Approx(87.5));
  run.algorithm = "choco-sgd";
  run.ranks = 16;
  run.settings["synchronization.topology.kind"] = "torus";
  CHECK(paper_graph(run) == "undirected torus 4x4");
}

TEST_CASE("scalability: change by boards, share of float32, published minutes", "[report]") {
  const std::vector<Run> runs = {board_run("elastiquant", 4, 0.75), board_run("none", 2, 2),
                                 board_run("elastiquant", 2, 1), board_run("none", 4, 3)};
  const Table table = scalability_table(groups_of(runs));
  REQUIRE(table.rows.size() == 4);
  CHECK(table.rows[0][1].text == "SGD");
  CHECK(cell(table, {"ResNet-34", "SGD", "4"}, "change_seconds") == "1");
  CHECK(cell(table, {"ResNet-34", "SGD", "2"}, "change_seconds") == "-");
  const std::vector<std::string> eight = {"ResNet-34", "8-bit-ElastiQuant", "4"};
  CHECK(cell(table, eight, "change_seconds") == "-0.25");
  CHECK(cell(table, eight, "total_against_sgd") == "0.25");
  CHECK(cell(table, eight, "encode_seconds") == "0.125");
  // Table 3: 7.98 + 4.04 + 11.92 = 23.94 minutes on 4 boards, 31.09 for SGD.
  CHECK(cell(table, eight, "published_transfer_minutes") == "11.92");
  CHECK(cell(table, eight, "published_total_minutes") == "23.94");
  CHECK(cell(table, eight, "published_change_minutes") == "-10.98");
  CHECK(cell(table, eight, "published_total_against_sgd") == "0.77");
}

TEST_CASE("accuracy: the published value of the nearest number of boards", "[report]") {
  std::vector<Run> runs;
  for (const char* density : {"0.02", "0.01"}) {
    Run run = board_run("dgc", 4, 1);
    run.model = "resnet18";
    run.dataset = "cifar10";
    run.settings["compressor.density"] = density;
    run.outcome.test_accuracy = 0.9;
    runs.push_back(run);
  }
  const Table table = accuracy_table(groups_of(runs));
  const std::vector<std::string> known = {"ResNet-18", "CIFAR-10", "DGC", "0.02 CR"};
  CHECK(cell(table, known, "test_accuracy") == "90.00");
  // Printed for 2 boards: 91.25, for 6: 88.87; equally near, and the first one is used.
  CHECK(cell(table, known, "published_percent") == "91.25");
  CHECK(cell(table, known, "published_boards") == "2");
  CHECK(cell(table, {"ResNet-18", "CIFAR-10", "DGC", "0.01 CR"}, "published_percent") == "-");
  // Smaller pictures are the same data set, and say so.
  for (Run& run : runs) run.settings["data.resize"] = "16";
  CHECK(cell(accuracy_table(groups_of(runs)),
             {"ResNet-18", "CIFAR-10 at 16 x 16 pixels", "DGC", "0.02 CR"},
             "published_percent") == "91.25");
  // Gossip is another thing, whatever its messages.
  for (Run& run : runs) run.algorithm = "choco-sgd";
  CHECK(accuracy_table(groups_of(runs)).rows.empty());
}

TEST_CASE("decentralised: methods in columns, rows by graph, share and skew", "[report]") {
  std::vector<Run> runs;
  for (const char* algorithm : {"deep-squeeze", "choco-sgd"}) {
    Run run = board_run("topk", 8, 1);
    run.model = "resnet20";
    run.dataset = "cifar10";
    run.algorithm = algorithm;
    run.settings = {{"synchronization.algorithm", algorithm},
                    {"synchronization.topology.kind", "ring"},
                    {"synchronization.topology.directed", "true"},
                    {"data.partition.kind", "skew"},
                    {"data.partition.skew", "0.8"},
                    {"model.normalization", "evonorm-s0"},
                    {"compressor.density", "0.01"}};
    run.outcome.test_accuracy = 0.85;
    run.outcome.sent_bytes = 8'000'000'000;
    run.outcome.paper_sent_bytes_per_node = 651e6;
    runs.push_back(run);
  }
  const Table table = decentralised_table(groups_of(runs));
  REQUIRE(table.rows.size() == 1);
  const std::vector<std::string> row = {"CIFAR-10", "ResNet-20", "directed ring", "8", "topk",
                                        "99",       "0.8"};
  CHECK(cell(table, row, "choco-sgd fp32") == "85.00");
  CHECK(cell(table, row, "choco-sgd fp32 published") == "85.78");
  CHECK(cell(table, row, "deep-squeeze fp32 published") == "85.43");
  CHECK(cell(table, row, "choco-sgd int8 published") == "84.79");
  CHECK(cell(table, row, "published_gigabytes") == "0.651");
  CHECK(cell(table, row, "paper_sent_bytes_per_node") == "0.651");
  CHECK(cell(table, row, "sent_bytes_per_node") == "1");
}

TEST_CASE("decentralised: runs with other error feedback are in other rows", "[report]") {
  std::vector<Run> runs;
  for (const char* precision : {"fp32", "int8"}) {
    for (const char* feedback : {"auto", "ef14"}) {
      if (std::string(precision) == "int8" && std::string(feedback) == "auto") continue;
      Run run = board_run("e-elastiquant", 4, 1);
      run.model = "resnet20";
      run.dataset = "cifar10";
      run.algorithm = "allreduce";
      run.settings = {{"model.precision", precision},
                      {"synchronization.error_feedback", feedback},
                      {"compressor.name", "e-elastiquant"}};
      run.outcome.test_accuracy = std::string(feedback) == "ef14" ? 0.8 : 0.7;
      runs.push_back(run);
    }
  }
  const Table table = decentralised_table(groups_of(runs));
  REQUIRE(table.rows.size() == 2);
  const auto column = [&](const char* key) {
    return static_cast<std::size_t>(std::ranges::find(table.columns, key, &Column::key) -
                                    table.columns.begin());
  };
  const std::size_t variant = column("variant");
  const bool first = table.rows[0].at(variant).text == "ef14";
  const auto& fed_back = table.rows[first ? 0 : 1];
  const auto& plain = table.rows[first ? 1 : 0];
  CHECK(fed_back.at(variant).text == "ef14");
  CHECK(fed_back.at(column("allreduce fp32")).text == "80.00");
  CHECK(fed_back.at(column("allreduce int8")).text == "80.00");
  CHECK(plain.at(column("allreduce fp32")).text == "70.00");
}

TEST_CASE("decentralised: a published value is one of the same data set", "[report]") {
  const auto table_of = [](const std::string& dataset, const std::string& path,
                           const std::string& model, const std::string& weights) {
    Run run = board_run("none", 8, 1);
    run.model = model;
    run.dataset = dataset;
    run.algorithm = "choco-sgd";
    run.settings = {{"synchronization.algorithm", "choco-sgd"},
                    {"synchronization.topology.kind", model == "bert" ? "ring" : "torus"},
                    {"synchronization.topology.directed", model == "bert" ? "true" : "false"},
                    {"data.path", path},
                    {"model.path", weights}};
    run.outcome.test_accuracy = 0.5;
    return decentralised_table(groups_of({run}));
  };
  const Table pictures = table_of("folder", "data/imagenette2-160/", "resnet18", "");
  CHECK(cell(pictures, {"Imagenette", "ResNet-18", "torus"}, "choco-sgd fp32 published") ==
        "87.10");
  const Table texts = table_of("text", "data/ag-news", "bert", "models/distilbert-base-uncased");
  CHECK(cell(texts, {"AG News", "DistilBERT"}, "choco-sgd fp32 published") == "94.21");
  CHECK(cell(texts, {"AG News", "DistilBERT"}, "published_nodes") == "8");
  const Table lengths = table_of("text", "data/sentlen", "bert", "models/distilbert-base-uncased");
  CHECK(cell(lengths, {"Sentlen", "DistilBERT"}, "choco-sgd fp32 published") == "99.48");
  CHECK(cell(lengths, {"Sentlen", "DistilBERT"}, "choco-sgd int8 published") == "98.75");
  // The same network and graph on other data; columns without values are left out.
  for (const Table& other :
       {table_of("cifar10", "", "resnet18", ""), table_of("folder", "data/birds", "resnet18", "")})
    for (const Column& column : other.columns) CHECK(column.key != "published_nodes");
}

TEST_CASE("each table has its source and its conditions", "[report]") {
  const std::vector<Run> runs = {board_run("none", 2, 1)};
  const std::vector<Table> tables = published_tables({"scalability"}, groups_of(runs));
  REQUIRE(tables.size() == 2);
  CHECK(tables[0].notes.back().find("Sudharsan") != std::string::npos);
  CHECK(cell(tables[1], {"data"}, "published").find("ImageNet") != std::string::npos);
  CHECK(cell(tables[1], {"hardware"}, "ours").find("emulated") != std::string::npos);
  CHECK(published_tables({}, groups_of(runs)).empty());
}
