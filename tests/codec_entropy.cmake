add_executable(entropy_speed bench/entropy_speed.cpp)
target_include_directories(entropy_speed PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(entropy_speed PRIVATE eqt_codec eqt_options)
