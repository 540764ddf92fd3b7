eqt_test(metrics_unit LABEL unit LINK eqt_metrics nlohmann_json::nlohmann_json
  SOURCES unit/metrics/console_sink_test.cpp unit/metrics/folder_sink_test.cpp unit/metrics/gnuplot_test.cpp
          unit/metrics/partition_text_test.cpp)
eqt_test(metrics_gnuplot LABEL unit LINK eqt_metrics SOURCES unit/metrics/gnuplot_draw_test.cpp)
