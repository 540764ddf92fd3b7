# Not a test: run by hand.
add_executable(low_rank_speed bench/low_rank_speed.cpp)
target_include_directories(low_rank_speed PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(low_rank_speed PRIVATE eqt_codec eqt_options)
