eqt_test(core_unit LABEL unit LINK eqt_core SOURCES unit/core/random_test.cpp)
