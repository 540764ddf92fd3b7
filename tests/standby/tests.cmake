# SPDX-License-Identifier: Apache-2.0
eqt_test(standby_unit LABEL unit LINK eqt_standby SOURCES unit/standby_test.cpp)
