# SPDX-License-Identifier: Apache-2.0
if(TARGET eqt_config)
  eqt_test(config_unit LABEL unit LINK eqt_config
    SOURCES unit/config/auto_test.cpp unit/config/combinations_test.cpp unit/config/config_docs_test.cpp
            unit/config/board_speed_config_test.cpp unit/config/config_errors_test.cpp unit/config/config_files_test.cpp
            unit/config/facts_test.cpp unit/config/fine_tuning_config_test.cpp
            unit/config/gossip_config_test.cpp unit/config/graph_file_test.cpp unit/config/nearest_test.cpp
            unit/config/run_config_test.cpp unit/config/topology_config_test.cpp)
  eqt_test(analyze_unit LABEL unit LINK eqt_analyze eqt_networks
    SOURCES unit/analyze/dumped_gradient_test.cpp)
endif()
eqt_test(doctor_unit LABEL unit LINK eqt_doctor eqt_networks nlohmann_json::nlohmann_json
  SOURCES unit/doctor/doctor_test.cpp)
eqt_test(app_unit LABEL unit LINK eqt_app eqt_networks eqt_data
  SOURCES unit/app/run_folder_test.cpp unit/app/sample_grid_test.cpp)
if(NOT EQT_ONLY_PORTABLE)
  set(float_networks)  # tests that check or measure them
  if(EQT_TORCH)
    set(float_networks unit/app/check_test.cpp unit/app/evaluate_test.cpp)
    eqt_test(analyze_measured_unit LABEL unit LINK eqt_analyze eqt_networks eqt_theory
      SOURCES unit/analyze/measured_test.cpp)
  endif()
  eqt_test(verbs_unit LABEL unit LINK eqt_app eqt_networks eqt_analyze eqt_bench eqt_config eqt_doctor nlohmann_json::nlohmann_json
    SOURCES ${float_networks} unit/app/command_line_test.cpp unit/app/resume_test.cpp)
  eqt_test(theory_published_volume LABEL unit LINK eqt_networks eqt_theory
    SOURCES unit/theory/published_volume_test.cpp)
endif()
