// SPDX-License-Identifier: Apache-2.0
// Tables of numbers in text files.

#include "data/csv_table.hpp"

#include <fstream>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "support/catch.hpp"
#include "support/refusal.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace eqt;
using data::CsvTable;

CsvTable read(const std::string& text) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() + "/t.csv", std::ios::binary) << text;
  return data::read_csv(folder.path() + "/t.csv");
}

void refuses(const std::string& text, const std::string& word) {
  INFO(text);
  const std::string sentence = test::refusal(Kind::data, [&] { read(text); });
  test::says(sentence, word);
  test::says(sentence, "t.csv");
}

}  // namespace

TEST_CASE("a header is optional; numbers are read as Python's float() reads them") {
  const CsvTable plain = read("1,2.5,-3e-2\n+4,.5,6.\n");
  CHECK(plain.names.empty());
  CHECK(plain.rows() == 2);
  CHECK(plain.values == std::vector<double>{1, 2.5, -0.03, 4, 0.5, 6});
  const CsvTable named =
      read("\xEF\xBB\xBF height, \"width, in m\",,\"a \"\"b\"\"\"\r\n1,2,3,4\r\n");
  CHECK(named.names == std::vector<std::string>{"height", "width, in m", "", "a \"b\""});
  CHECK(named.values == std::vector<double>{1, 2, 3, 4});
  CHECK(read("1 ,\t2\n\"3\", \"4\" \n\n\n").values == std::vector<double>{1, 2, 3, 4});
  CHECK(read("a\n7").values == std::vector<double>{7});
  CHECK(read("1e-400,-1e-400,5e-324\n").values == std::vector<double>{0, -0.0, 0x1p-1074});
}

TEST_CASE("what is no table of finite numbers is refused with its line and column") {
  refuses("", "empty file");
  refuses("\n\n", "empty file");
  refuses("a,b\n", "header alone");
  refuses("1,2\n3\n", "1 fields in line 2 and 2 in the first");
  refuses("a,b\n1,2\n3,4,5\n", "3 fields in line 3");
  refuses("1,2\n\n3,4\n", "line 2 empty");
  refuses("a,b\n1,2\n3,x\n", "found \"x\" in line 3, column 2 \"b\"");
  refuses("1,2\n3,\n", "found \"\" in line 2, column 2");
  refuses("1,nan\n", "found \"nan\" in line 1, column 2");
  refuses("1,2\n-inf,2\n", "found \"-inf\" in line 2, column 1");
  refuses("1,1e999\n", "found \"1e999\" in line 1, column 2");
  refuses("1,2,abc\n", "found \"abc\" in line 1, column 3");
  refuses("1,0x10\n", "found \"0x10\"");
  refuses("1,\"2\n", "line 1: expected a closing quote");
  refuses("1,\"2\"3\n", "behind a closing quote");
  refuses("1,\"\"9\n", "behind a closing quote");
  refuses("0,1,2\n5,6,7\n", "line 1: expected a sample or names");  // pandas without names
  refuses("1;2\n3;4\n", "found \"3;4\" in line 2");                 // "1;2" is a name
}

TEST_CASE("a name that two columns have is refused, also an empty one") {
  refuses("x,x,y\n1,2,3\n", "line 1");
  refuses("x,y,x\n1,2,3\n", "found \"x\" for columns 1 and 3");
  refuses("a,b, a \n1,2,3\n", "found \"a\" for columns 1 and 3");
  refuses(",,y\n1,2,3\n", "found \"\" for columns 1 and 2");
  CHECK(read("x,X,x.1\n1,2,3\n").columns == 3);
}

TEST_CASE("names of columns are UTF-8") {
  refuses("x,gro\xDF,y\n1,2,3\n", "UTF-8, found \"gro?\" for column 2; save");
  refuses("\xC3\n1\n", "line 1: expected names of columns in UTF-8");
  CHECK(read("x,gro\xC3\x9F\n1,2\n").names[1] == "gro\xC3\x9F");
}

TEST_CASE("lines end in LF, CR LF or CR, and pandas' row numbers are known") {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const CsvTable table = read("a,b" + end + "1,2" + end + "3,4" + end + end);
    CHECK(table.values == std::vector<double>{1, 2, 3, 4});
    CHECK(table.place(1, 0).ends_with("line 3, column 1 \"a\""));
  }
  CHECK(read(",a,b\n2,5,5\n0,6,6\n").has_index());
  CHECK(read("Unnamed: 0,a\n0,5\n1,6\n").has_index());
  CHECK_FALSE(read(",a\n1,5\n1,6\n").has_index());
  CHECK_FALSE(read(",a\n0.5,5\n1,6\n").has_index());
  CHECK_FALSE(read("n,a\n0,5\n1,6\n").has_index());
  CHECK_FALSE(read("0,1\n2,3\n").has_index());
  const CsvTable counted = read(",0,1\n0,5,6\n1,7,8\n");
  CHECK(counted.has_index());
  CHECK(counted.rows() == 2);
  CHECK(read("0,1\n2,3\n").rows() == 2);  // may be a sample
  CHECK(read("a,b,c\n0,1,2\n").rows() == 1);
}

TEST_CASE("columns are chosen by name or by number") {
  const CsvTable table = read("a,b,c\n1,2,3\n");
  using Columns = std::vector<std::size_t>;
  CHECK(data::columns_called(table, "", "data.target") == Columns{2});
  CHECK(data::columns_called(table, "b", "data.target") == Columns{1});
  CHECK(data::columns_called(table, "b, a", "data.target") == Columns{1, 0});
  CHECK(data::columns_called(table, "1", "data.target") == Columns{0});
  const CsvTable named = read("Class_Index,x,y\n1,2,3\n");
  CHECK(data::columns_called(named, "", "data.target") == Columns{0});
  CHECK(data::columns_called(named, "x", "data.target") == Columns{1});
  const CsvTable twice = read("label,x,target\n1,2,3\n");
  test::says(test::refusal(Kind::usage, [&] { data::columns_called(twice, "", "data.target"); }),
             "\"label\" and \"target\"");
  const auto refuses_list = [&](const std::string& list, const std::string& word) {
    const std::string sentence =
        test::refusal(Kind::usage, [&] { data::columns_called(table, list, "data.target"); });
    test::says(sentence, word);
    test::says(sentence, "data.target");
  };
  refuses_list("d", "\"d\"");
  refuses_list("4", "\"4\"");
  refuses_list("0", "\"0\"");
  refuses_list("a,1", "twice");
  refuses_list("a,", "\"\"");
}

TEST_CASE("messages name the line of the file and the column") {
  CHECK(read("1,2\n3,4\n").place(1, 0).ends_with("t.csv, line 2, column 1"));
  CHECK(read("a,b\n1,2\n").place(0, 1).ends_with("t.csv, line 2, column 2 \"b\""));
}
