# cmake --install: components trace (what programs load), trace-dev (what they are built with).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS greta_trace EXPORT greta_trace
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT trace NAMELINK_COMPONENT trace-dev)
install(TARGETS greta_trace_static EXPORT greta_trace
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT trace-dev)
install(FILES ${PROJECT_SOURCE_DIR}/include/greta_trace.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT trace-dev)

list(JOIN static_needs " " GRETA_STATIC_NEEDS)
configure_file(greta_trace.pc.in greta_trace.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/greta_trace.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT trace-dev)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/greta_trace)
install(EXPORT greta_trace NAMESPACE greta:: FILE greta_trace-config.cmake
  DESTINATION ${package} COMPONENT trace-dev)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/greta_trace-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/greta_trace-config-version.cmake
  DESTINATION ${package} COMPONENT trace-dev)
