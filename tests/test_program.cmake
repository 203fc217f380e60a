include(GoogleTest)

# A test program of the sources listed, which reaches the programs by GRETA_DB_PROGRAM. The folders of
# tests/ mirror those of the project.
function(greta_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE GTest::gtest_main ${ARG_LINK})
  target_compile_definitions(${name} PRIVATE GRETA_DB_PROGRAM="$<TARGET_FILE:greta-db>")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
