# SPDX-License-Identifier: Apache-2.0
eqt_test(forecast_unit LABEL unit LINK eqt_forecast
  SOURCES unit/fluid_network_test.cpp unit/slowest_board_test.cpp unit/step_simulation_test.cpp)
eqt_test(forecast_laws LABEL property LINK eqt_forecast SOURCES property/step_laws_test.cpp)
