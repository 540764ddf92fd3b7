eqt_test(app_unit LABEL unit LINK eqt_app nlohmann_json::nlohmann_json
  SOURCES unit/app/combinations_test.cpp unit/app/config_docs_test.cpp unit/app/config_errors_test.cpp
          unit/app/config_files_test.cpp unit/app/analyze_table_test.cpp unit/app/doctor_test.cpp unit/app/dumped_gradient_test.cpp unit/app/facts_test.cpp
          unit/app/graph_file_test.cpp unit/app/nearest_test.cpp unit/app/paper_volume_test.cpp
          unit/app/run_config_test.cpp unit/app/run_folder_test.cpp unit/app/sample_grid_test.cpp unit/app/topology_config_test.cpp)
if(TARGET eqt_model)
  eqt_test(app_names LABEL unit LINK eqt_app eqt_data eqt_model 
    SOURCES unit/app/names_test.cpp unit/app/published_volume_test.cpp)
endif()
