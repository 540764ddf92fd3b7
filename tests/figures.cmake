# SPDX-License-Identifier: Apache-2.0
eqt_test(figures_unit LABEL unit LINK eqt_codec eqt_figures
  SOURCES unit/figures/drawing_test.cpp unit/figures/page_test.cpp unit/figures/statistics_test.cpp
          unit/figures/table_test.cpp unit/figures/text_test.cpp
  ALONE unit/figures/gnuplot_test.cpp)
eqt_test(figures_draw LABEL unit LINK eqt_figures
  SOURCES unit/figures/draw_test.cpp unit/figures/gnuplot_draw_test.cpp)
