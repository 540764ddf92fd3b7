#include "report/table.hpp"

#include "support/catch.hpp"

using namespace eqt::report;

namespace {

using Type = Column::Type;

Table small_table() {
  Table table{
      "small",
      "Two runs",
      {{"run", "runs"}, {"accuracy", "accuracy [%]", Type::spread}, {"x", "x", Type::number}},
      {},
      {"One note."}};
  // 0.5 and 0.75: mean 0.625, deviation 0.25 / sqrt(2) = 0.17678.
  table.rows.push_back({text_cell("a|<b>"),
                        spread_cell({2, 2, 0.625, 0.1767766952966369}, {2}, 100),
                        number_cell(3.0, {0})});
  table.rows.push_back(
      {text_cell("c,d"), spread_cell({1, 2, 0.5, {}}, {2}, 100), number_cell({}, {0})});
  return table;
}

}  // namespace

TEST_CASE("a table as text has aligned columns, its caption and its notes", "[report]") {
  CHECK(as_text(small_table()) ==
        "Two runs\n"
        "\n"
        "runs     accuracy [%]  x\n"
        "a|<b>   62.50 ± 17.68  3\n"
        "c,d    50.00 (1 of 2)  -\n"
        "\n"
        "One note.\n");
}

TEST_CASE("a table as CSV has the figures themselves, deviations in a column", "[report]") {
  CHECK(as_csv(small_table()) ==
        "run,accuracy,accuracy_deviation,x\n"
        "a|<b>,0.625,0.1767766952966369,3\n"
        "\"c,d\",0.5,,\n");
}

TEST_CASE("a table as Markdown keeps bars and tags out of its cells", "[report]") {
  CHECK(as_markdown(small_table()) ==
        "Two runs\n"
        "\n"
        "| runs | accuracy \\[%] | x |\n"
        "|---|--:|--:|\n"
        "| a\\|&lt;b&gt; | 62.50 ± 17.68 | 3 |\n"
        "| c,d | 50.00 (1 of 2) | - |\n"
        "\n"
        "One note.\n");
}

TEST_CASE("a table as HTML has caption, scopes and escaped cells", "[report]") {
  const std::string html = as_html(small_table());
  CHECK(html.find("<caption id=\"t-small\"><span>Two runs</span></caption>") != std::string::npos);
  CHECK(html.find("<th scope=\"col\" class=\"n\">accuracy [%]</th>") != std::string::npos);
  CHECK(html.find("<th scope=\"row\">a|&lt;b&gt;</th>") != std::string::npos);
  CHECK(html.find("<td class=\"n\">62.50 ± 17.68</td>") != std::string::npos);
  CHECK(html.find("<b>") == std::string::npos);
}

TEST_CASE("numbers show their digits", "[report]") {
  CHECK(number_text(0.123456, {2}) == "0.12");
  CHECK(number_text(0.000123456, {-1, 3}) == "0.000123");
  CHECK(number_text(1234567.0, {-1, 3}) == "1.23e+06");
  CHECK(text_cell("").text == "-");
  CHECK(spread_cell({0, 3, 0, {}}, {2}).text == "-");
}

TEST_CASE("columns of numbers that nobody has go, columns of words stay", "[report]") {
  Table table{"t", "", {{"a", "a"}, {"b", "b", Type::number}, {"c", "c", Type::number}}, {}, {}};
  table.rows = {{text_cell(""), number_cell({}, {0}), number_cell(1.0, {0})},
                {text_cell(""), number_cell({}, {0}), number_cell({}, {0})}};
  drop_empty_columns(table);
  REQUIRE(table.columns.size() == 2);
  CHECK(table.columns[0].key == "a");
  CHECK(table.columns[1].key == "c");
  CHECK(table.rows[0].size() == 2);
}
