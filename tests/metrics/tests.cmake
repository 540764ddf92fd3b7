# SPDX-License-Identifier: Apache-2.0
eqt_test(metrics_unit LABEL unit LINK eqt_metrics nlohmann_json::nlohmann_json PNG::PNG
  SOURCES unit/console_sink_test.cpp unit/decisions_test.cpp unit/event_sink_test.cpp unit/folder_sink_test.cpp
    unit/partition_text_test.cpp unit/png_test.cpp unit/records_reference_test.cpp unit/value_histogram_test.cpp
  ALONE unit/gradient_file_test.cpp)
eqt_test(metrics_golden LABEL golden LINK eqt_metrics nlohmann_json::nlohmann_json SOURCES golden/events_test.cpp)
