# SPDX-License-Identifier: Apache-2.0
eqt_test(report_unit LABEL unit LINK eqt_report nlohmann_json::nlohmann_json
  SOURCES unit/drawing_test.cpp unit/group_test.cpp unit/paper_tables_test.cpp unit/read_run_test.cpp
    unit/decisions_test.cpp unit/distributions_test.cpp unit/grades_test.cpp unit/significance_test.cpp
    unit/starts_test.cpp unit/timeline_test.cpp)
eqt_test(report_draw LABEL unit LINK eqt_report SOURCES unit/draw_test.cpp)
