// SPDX-License-Identifier: Apache-2.0
#include "data/text/rows.hpp"

#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

using namespace eqt::data;
using eqt::Kind;
using eqt::test::refusal;
using eqt::test::says;

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::vector<Row> rows(const std::string& bytes, RowFormat format) {
  const eqt::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/rows";
  std::ofstream(path, std::ios::binary) << bytes;
  std::vector<Row> all;
  read_rows(path, format, [&](Row&& row) { all.push_back(std::move(row)); });
  return all;
}

Pairs pairs(const std::string& bytes, RowFormat format) {
  Pairs found;
  for (const Row& row : rows(bytes, format)) found.emplace_back(row.label, row.text);
  return found;
}

Pairs csv(const std::string& bytes) { return pairs(bytes, RowFormat::csv); }

/// What the first row was taken for: the class's column, then those of text, then the others.
std::string heading(const std::string& bytes) {
  const eqt::test::TemporaryFolder folder;
  const std::string path = folder.path() + "/rows";
  std::ofstream(path, std::ios::binary) << bytes;
  const auto found = read_rows(path, RowFormat::csv, [](Row&&) {});
  if (!found) return "none";
  std::string all = found->label + ":";
  for (const std::string& name : found->texts) all += " " + name;
  all += ":";
  for (const std::string& name : found->unread) all += " " + name;
  return all;
}

std::string refused(const std::string& bytes, RowFormat format) {
  return refusal(Kind::data, [&] { rows(bytes, format); });
}

}  // namespace

TEST_CASE("CSV: fields in quotes and without", "[rows]") {
  CHECK(csv("1,a b\n2,c\n") == Pairs{{"1", "a b"}, {"2", "c"}});
  // AG News' own: a class, a title, a description.
  CHECK(csv("\"3\",\"Wall St.\",\"says \"\"no\"\", again\"\n") ==
        Pairs{{"3", "Wall St. says \"no\", again"}});
  CHECK(csv("1,\"two\nlines\"\r\n2,\"\"\r\n") == Pairs{{"1", "two\nlines"}, {"2", ""}});
  CHECK(csv("1,a") == Pairs{{"1", "a"}});
  CHECK(csv("1,\"a\"") == Pairs{{"1", "a"}});
  CHECK(csv("1,\n") == Pairs{{"1", ""}});
  CHECK(csv("1,") == Pairs{{"1", ""}});
  CHECK(csv("\n\n1,a\n\n") == Pairs{{"1", "a"}});
  CHECK(csv("\xEF\xBB\xBF"
            "1,a\n") == Pairs{{"1", "a"}});
  CHECK(csv("Label,text\n1,a\n") == Pairs{{"1", "a"}});
  CHECK(csv("1,a\nlabel,b\n") == Pairs{{"1", "a"}, {"label", "b"}});  // no heading: not the first
  CHECK(csv("").empty());
}

TEST_CASE("CSV: columns are found by their names", "[rows]") {
  CHECK(csv("text,label\n\"a, b\",1\nc,0\n") == Pairs{{"1", "a, b"}, {"0", "c"}});
  CHECK(csv("review,sentiment\ngood,pos\n") == Pairs{{"pos", "good"}});
  CHECK(csv("Class Index,Title,Description\n3,t,d\n") == Pairs{{"3", "t d"}});
  CHECK(csv("\xEF\xBB\xBF CLASS_INDEX ,Title\n3,t\n") == Pairs{{"3", "t"}});
  CHECK(csv(",Sentence,Target\n0,a,1\n1,b,0\n") == Pairs{{"1", "a"}, {"0", "b"}});
  CHECK(csv("Unnamed: 0,category,body\n7,x,y\n") == Pairs{{"x", "y"}});
  CHECK(csv("id,keyword,text,target\n1,k,t,0\n") == Pairs{{"0", "t"}});
  CHECK(csv("label,text\n1,a, b\n") == Pairs{{"1", "a  b"}});  // commas without quotes
  CHECK(heading("text,id,label\n") == "label: text: id");
  CHECK(heading("label,title,body\n") == "label: title body:");
  CHECK(heading("3,Target,a shop\n") == "none");  // a text may have such a word
  CHECK(heading("text,stars\n") == "none");
  says(refused("label,category,text\n", RowFormat::csv), "\"label\" and \"category\"");
  says(refused("label\n", RowFormat::csv), "found none");
  says(refused("text,label\na, b,1\n", RowFormat::csv), "expected 2 fields");
  says(refused("label,text\n1\n", RowFormat::csv), "line 2");
  says(refused("0,1\n1,a\n", RowFormat::csv), "pandas");
  says(refused(",0,1\n0,1,a\n", RowFormat::csv), "pandas");
  CHECK(csv("0,1st\n1,a\n").size() == 2);
}

TEST_CASE("lines end in LF, CR LF or CR", "[rows]") {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const auto found =
        rows("label,text" + end + "1,\"a" + end + "b\"" + end + end + "2,c" + end, RowFormat::csv);
    REQUIRE(found.size() == 2);
    CHECK(found[0].text == "a" + end + "b");
    CHECK(found[0].line == 2);
    CHECK(found[1].text == "c");
    CHECK(found[1].line == 5);
    CHECK(pairs("{\"label\":1,\"text\":\"a\"}" + end + "{\"label\":2,\"text\":\"b\"}",
                RowFormat::json_lines) == Pairs{{"1", "a"}, {"2", "b"}});
    CHECK(pairs("1\ta" + end + "2\tb" + end, RowFormat::tsv) == Pairs{{"1", "a"}, {"2", "b"}});
  }
  says(refused("\xFF\xFE"
               "1\0,",
               RowFormat::csv),
       "UTF-16");
}

TEST_CASE("rows know their line", "[rows]") {
  const auto found = rows("1,\"a\nb\"\n\n2,c\n", RowFormat::csv);
  REQUIRE(found.size() == 2);
  CHECK(found[0].line == 1);
  CHECK(found[1].line == 4);
}

TEST_CASE("CSV: quotes that do not match are refused", "[rows]") {
  says(refused("1,a\n2,\"b\n", RowFormat::csv), "line 2");
  CHECK(csv("1, \"a,b\" \n") == Pairs{{"1", "a,b"}});  // spaces around quotes
  says(refused("1,\"a\"b\n", RowFormat::csv), "closing quote");
  says(refused("1,a\"b\n", RowFormat::csv), "line 1");
  says(refused("1\n", RowFormat::csv), "one field");
}

TEST_CASE("TSV: tabs, and quotes are text", "[rows]") {
  const auto tsv = [](const std::string& bytes) { return pairs(bytes, RowFormat::tsv); };
  CHECK(tsv("pos\t\"a\", b\tc\r\n") == Pairs{{"pos", "\"a\", b c"}});
  CHECK(tsv("class\ttext\nx\ty") == Pairs{{"x", "y"}});
  says(refused("only one field\n", RowFormat::tsv), "line 1");
}

TEST_CASE("JSON lines: objects with label and text", "[rows]") {
  const auto json = [](const std::string& bytes) { return pairs(bytes, RowFormat::json_lines); };
  CHECK(json("{\"label\": \"a\", \"text\": \"b\\n\\u00e9\", \"more\": [1, "
             "{}]}\n\n{\"text\":\"\",\"label\":-3}") == Pairs{{"a", "b\n\u00E9"}, {"-3", ""}});
  CHECK(json("{\"sentiment\": 1.0, \"review\": \"a\"}\n{\"label\": -2.0, \"category\": 7, "
             "\"text\": \"\"}") == Pairs{{"1", "a"}, {"-2", ""}});
  const auto refused_json = [](const std::string& line) {
    return refused("{\"label\": 1, \"text\": \"\"}\n" + line, RowFormat::json_lines);
  };
  says(refused_json("{\"label\": 1, \"text\": \"a\"\n"), "line 2");
  says(refused_json("[1]\n"), "found array");
  says(refused_json("{\"label\": 1}\n"), "\"text\"");
  says(refused_json("{\"text\": \"a\"}\n"), "\"label\"");
  says(refused_json("{\"text\": \"a\", \"label\": 1.5}\n"), "found number");
  says(refused_json("{\"text\": \"a\", \"class\": 1, \"target\": 2}\n"), "several");
  says(refused_json("{\"text\": 4, \"label\": 1}\n"), "found number");
  says(refused_json("{\"text\": \"\xFF\", \"label\": 1}\n"), "no JSON");
}

TEST_CASE("longer rows than a MiB and absent files are refused", "[rows]") {
  const std::string longest(kLongestRow, 'a');
  says(refused("1,\"" + longest, RowFormat::csv), "longer");
  says(refused("{\"text\": \"" + longest, RowFormat::json_lines), "longer");
  CHECK(csv("1," + std::string(kLongestRow - 4, 'a') + "\n2,b\n").size() == 2);
  says(refusal(Kind::data, [] { read_rows("/nowhere/train.csv", RowFormat::csv, [](Row&&) {}); }),
       "/nowhere/train.csv");
  says(refusal(Kind::data, [] { read_rows("/tmp", RowFormat::csv, [](Row&&) {}); }), "else");
}
