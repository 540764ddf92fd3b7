# SPDX-License-Identifier: Apache-2.0
# Tests that start threads, for the preset tsan: label and target `threads`.

set(threaded core_unit int8_network_unit codec_parallel data_unit pictures_unit watchdog_unit comm_unit train_unit pairs_unit figures_draw report_draw
             comm engine trainer health_check damage folder_checkpointer asynchronous_gossip)
add_custom_target(threads DEPENDS ${threaded})
string(JOIN "|" names ${threaded})
get_property(tests DIRECTORY PROPERTY TESTS)
list(FILTER tests INCLUDE REGEX "^(${names})([.][0-9]+ranks)?$")
foreach(test IN LISTS tests)
  set_property(TEST ${test} APPEND PROPERTY LABELS threads)
endforeach()
