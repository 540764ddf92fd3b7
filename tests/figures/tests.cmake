# SPDX-License-Identifier: Apache-2.0
eqt_test(figures_unit LABEL unit LINK eqt_codec eqt_figures
  SOURCES unit/drawing_test.cpp unit/page_test.cpp unit/statistics_test.cpp unit/table_test.cpp unit/text_test.cpp
  ALONE unit/gnuplot_test.cpp)
eqt_test(figures_draw LABEL unit LINK eqt_figures SOURCES unit/draw_test.cpp unit/gnuplot_draw_test.cpp)
