# SPDX-License-Identifier: Apache-2.0
eqt_test(planner_unit LABEL unit LINK eqt_planner eqt_networks nlohmann_json::nlohmann_json
  SOURCES unit/calibration/calibration_sources_test.cpp unit/calibration/calibration_test.cpp
    unit/calibration/fit_communication_test.cpp unit/calibration/measured_moments_test.cpp unit/cluster_file_test.cpp
    unit/compression_noise_test.cpp unit/goodput_test.cpp unit/machine_costs_test.cpp unit/pareto_test.cpp
    unit/paying_rate_test.cpp unit/plans_test.cpp unit/rate_search_test.cpp unit/recommendation_test.cpp
    unit/scheme_test.cpp unit/tuning_test.cpp
  ALONE unit/calibration/completed_cluster_test.cpp)
target_compile_definitions(planner_unit PRIVATE EQT_CLUSTERS="${PROJECT_SOURCE_DIR}/configs/clusters")
