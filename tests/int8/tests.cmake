# SPDX-License-Identifier: Apache-2.0
eqt_test(int8_unit LABEL unit LINK eqt_int8 eqt_hwy SOURCES unit/convolution_test.cpp unit/quantize_test.cpp)
