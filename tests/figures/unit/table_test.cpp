// SPDX-License-Identifier: Apache-2.0
#include "figures/table.hpp"

#include "figures/statistics.hpp"
#include "figures/text.hpp"
#include "support/catch.hpp"

using namespace eqt::figures;

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

TEST_CASE("a table as text has aligned columns, its caption and its notes", "[figures]") {
  CHECK(as_text(small_table()) ==
        "Two runs\n"
        "\n"
        "runs     accuracy [%]  x\n"
        "a|<b>         62 ± 18  3\n"
        "c,d    50.00 (1 of 2)  -\n"
        "\n"
        "One note.\n");
}

TEST_CASE("a table as CSV has the figures themselves, deviations in a column", "[figures]") {
  // 0.1767767 / sqrt(2) = 0.125.
  CHECK(as_csv(small_table()) ==
        "run,accuracy,accuracy_deviation,accuracy_standard_error,accuracy_count,x\n"
        "a|<b>,0.625,0.1767766952966369,0.125,2,3\n"
        "\"c,d\",0.5,,,1,\n");
}

TEST_CASE("a table as Markdown keeps bars and tags out of its cells", "[figures]") {
  CHECK(as_markdown(small_table()) ==
        "Two runs\n"
        "\n"
        "| runs | accuracy \\[%] | x |\n"
        "|---|--:|--:|\n"
        "| a\\|&lt;b&gt; | 62 ± 18 | 3 |\n"
        "| c,d | 50.00 (1 of 2) | - |\n"
        "\n"
        "One note.\n");
}

TEST_CASE("a table as LaTeX needs no package and escapes what TeX would read", "[figures]") {
  CHECK(as_latex(small_table()) ==
        "\\begin{table}\n\\caption{Two runs}\n\\begin{tabular}{lrr}\n\\hline\n"
        "runs & accuracy {[}\\%] & x \\\\\n"
        "\\hline\n"
        "a$|$$<$b$>$ & 62 $\\pm$ 18 & 3 \\\\\n"
        "c,d & 50.00 (1 of 2) & {-} \\\\\n"
        "\\hline\n\\end{tabular}\n\nOne note.\n\\end{table}\n");
  CHECK(
      latex_text("50 % of $x_1 & #2~^{a}\\b") ==
      "50 \\% of \\$x\\_1 \\& \\#2\\textasciitilde{}\\textasciicircum{}\\{a\\}\\textbackslash{}b");
  CHECK(latex_text(eqt::visible("\x1b[0m")) == "?{[}0m");
}

TEST_CASE("means have as many digits as their deviation supports", "[figures]") {
  // The examples of the Review of Particle Physics (2022), 5.3.
  CHECK(measured_text(0.827, 0.119) == "0.83 ± 0.12");
  CHECK(measured_text(0.827, 0.367) == "0.8 ± 0.4");
  // Its three ranges, worked by hand: up to 354 two digits, up to 949 one, beyond up to 1000.
  CHECK(measured_text(85.6123, 0.354) == "85.61 ± 0.35");
  CHECK(measured_text(85.6123, 0.355) == "85.6 ± 0.4");
  CHECK(measured_text(85.6123, 0.949) == "85.6 ± 0.9");
  CHECK(measured_text(85.6123, 0.951) == "85.6 ± 1.0");
  CHECK(measured_text(85.6123, 0.9996) == "85.6 ± 1.0");
  CHECK(measured_text(1234, 123) == "1230 ± 120");
  CHECK(measured_text(-0.2, 3.3) == "-0.2 ± 3.3");
  CHECK(measured_text(0, 0.02) == "0.000 ± 0.020");
  // No more than six digits of a mean, whatever its deviation.
  CHECK(measured_text(12.3456789, 1e-9) == "12.3457 ± 0");
  CHECK(measured_text(1.2345e-9, 2e-11) == "(1.234 ± 0.020)e-09");
  CHECK(deviation_text(0.119) == "0.12");
  CHECK(deviation_text(0.367) == "0.4");
  CHECK(deviation_text(2e-11) == "2.0e-11");
  CHECK(spread_cell({3, 3, 7.5, 0.0}, {2}).text == "7.50 ± 0");
}

TEST_CASE("a table as HTML has caption, scopes and escaped cells", "[figures]") {
  const std::string html = as_html(small_table());
  CHECK(html.find("<caption id=\"t-small\"><span>Two runs</span></caption>") != std::string::npos);
  CHECK(html.find("<th scope=\"col\" class=\"n\">accuracy [%]</th>") != std::string::npos);
  CHECK(html.find("<th scope=\"row\">a|&lt;b&gt;</th>") != std::string::npos);
  CHECK(html.find("<td class=\"n\">62 ± 18</td>") != std::string::npos);
  CHECK(html.find("<b>") == std::string::npos);
}

TEST_CASE("numbers show their digits", "[figures]") {
  CHECK(number_text(0.123456, {2}) == "0.12");
  CHECK(number_text(0.000123456, {-1, 3}) == "0.000123");
  CHECK(number_text(1234567.0, {-1, 3}) == "1.23e+06");
  CHECK(text_cell("").text == "-");
  CHECK(spread_cell({0, 3, 0, {}}, {2}).text == "-");
}

TEST_CASE("empty columns of numbers are removed, columns of words are not", "[figures]") {
  Table table{"t", "", {{"a", "a"}, {"b", "b", Type::number}, {"c", "c", Type::number}}, {}, {}};
  table.rows = {{text_cell(""), number_cell({}, {0}), number_cell(1.0, {0})},
                {text_cell(""), number_cell({}, {0}), number_cell({}, {0})}};
  drop_empty_columns(table);
  REQUIRE(table.columns.size() == 2);
  CHECK(table.columns[0].key == "a");
  CHECK(table.columns[1].key == "c");
  CHECK(table.rows[0].size() == 2);
}
