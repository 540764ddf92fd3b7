# SPDX-License-Identifier: Apache-2.0
eqt_test(int8_unit LABEL unit LINK eqt_int8 eqt_hwy SOURCES
  unit/int8/convolution_test.cpp
  unit/int8/quantize_test.cpp)
