# SPDX-License-Identifier: Apache-2.0
eqt_test(analyze_unit LABEL unit LINK eqt_analyze eqt_networks
  SOURCES unit/dumped_gradient_test.cpp)
if(EQT_TORCH AND NOT EQT_ONLY_PORTABLE)
  eqt_test(analyze_measured_unit LABEL unit LINK eqt_analyze eqt_networks eqt_theory SOURCES unit/measured_test.cpp)
endif()
