# SPDX-License-Identifier: Apache-2.0
eqt_test(doctor_unit LABEL unit LINK eqt_doctor eqt_networks nlohmann_json::nlohmann_json SOURCES unit/doctor_test.cpp)
