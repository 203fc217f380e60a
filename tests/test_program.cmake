include(GoogleTest)

# What is tested is optimised, the tests are not: they compile in half the time, and run as fast.
set(GRETA_TEST_FLAGS -O0)

# greta_test_program(NAME SOURCES FILE... LINK TARGET...): a test program of the sources listed, which
# is told where the programs and the project's own files are.
function(greta_test_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE GTest::gtest_main ${ARG_LINK})
  target_compile_options(${name} PRIVATE ${GRETA_TEST_FLAGS})
  target_compile_definitions(${name} PRIVATE
    GRETA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" GRETA_DB_PROGRAM="$<TARGET_FILE:greta-db>"
    GRETA_INFER_PROGRAM="$<TARGET_FILE:greta-infer>")
  # Whole models against float64 are minutes under a sanitizer, and no memory is touched in them that
  # other tests do not touch.
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_FILTER "-*Float64*"
                       PROPERTIES TIMEOUT 300)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 TEST_FILTER "*Float64*"
                       TEST_LIST ${name}_float64_tests PROPERTIES TIMEOUT 300 LABELS slow)
endfunction()
