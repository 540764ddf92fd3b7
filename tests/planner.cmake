# SPDX-License-Identifier: Apache-2.0
eqt_test(planner_unit LABEL unit LINK eqt_planner eqt_networks nlohmann_json::nlohmann_json
  SOURCES
  unit/planner/calibration/calibration_sources_test.cpp unit/planner/calibration/calibration_test.cpp
  unit/planner/calibration/fit_communication_test.cpp
  unit/planner/calibration/measured_moments_test.cpp
  unit/planner/cluster_file_test.cpp unit/planner/compression_noise_test.cpp
  unit/planner/machine_costs_test.cpp unit/planner/pareto_test.cpp unit/planner/plans_test.cpp
  unit/planner/recommendation_test.cpp unit/planner/scheme_test.cpp
  ALONE unit/planner/calibration/completed_cluster_test.cpp)
target_compile_definitions(planner_unit PRIVATE EQT_CLUSTERS="${PROJECT_SOURCE_DIR}/configs/clusters")
