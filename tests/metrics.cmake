# SPDX-License-Identifier: Apache-2.0
eqt_test(metrics_unit LABEL unit LINK eqt_metrics nlohmann_json::nlohmann_json PNG::PNG
  SOURCES unit/metrics/console_sink_test.cpp unit/metrics/decisions_test.cpp unit/metrics/event_sink_test.cpp
          unit/metrics/folder_sink_test.cpp unit/metrics/partition_text_test.cpp
          unit/metrics/png_test.cpp unit/metrics/value_histogram_test.cpp
  ALONE unit/metrics/gradient_file_test.cpp)
eqt_test(metrics_golden LABEL golden LINK eqt_metrics nlohmann_json::nlohmann_json
  SOURCES golden/events_test.cpp)
