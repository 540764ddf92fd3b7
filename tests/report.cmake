# SPDX-License-Identifier: Apache-2.0
eqt_test(report_unit LABEL unit LINK eqt_report nlohmann_json::nlohmann_json
  SOURCES unit/report/drawing_test.cpp unit/report/group_test.cpp unit/report/paper_tables_test.cpp
          unit/report/read_run_test.cpp unit/report/decisions_test.cpp unit/report/grades_test.cpp
          unit/report/timeline_test.cpp unit/report/welch_test.cpp)
eqt_test(report_draw LABEL unit LINK eqt_report SOURCES unit/report/draw_test.cpp)
