# Not a test: tests/bench/train_throughput.cpp, run by hand.
add_executable(train_throughput bench/train_throughput.cpp)
target_link_libraries(train_throughput PRIVATE eqt_model eqt_options)
