# Debian packages by `cpack`, of a build whose prefix is /usr (preset package, script/package). What is
# installed where, and in which component, stands beside each target; here is what a package says of itself.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "greta developers <greta@greta.invalid>" CACHE STRING
    "Maintainer of the packages: who builds them for others gives an address that answers")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/packaging/finish_debian_packages.cmake)
set(CPACK_GRETA_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_GRETA_RELEASE_DATE ${GRETA_RELEASE_DATE})
set(CPACK_COMPONENTS_ALL programs trace trace-dev trace-python)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SOURCE greta)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME greta)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
# loaded when they are needed (common/shared_library.h), so that nothing else tells of them
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_DEPENDS "libarchive13 | libarchive13t64, libcurl4 | libcurl4t64")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "sqlite3, git")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS "xdg-utils")
set(CPACK_DEBIAN_PROGRAMS_DESCRIPTION
"where prefill and decode of an LLM inference engine part ways
A trace warehouse in one SQLite file. greta-infer runs GGUF models of Llama,
Mistral and Qwen and writes a fingerprint of every traced tensor row; greta-db
takes in the traces of other engines, pairs the rows of both phases, tells
rounding from a bug, and names the first tensor, layer and commit that fails.

The verdict is a view of the file: plain sqlite3 gives the same answer.")

# As Debian splits a library: what programs load is a package named after its ABI, so that two may be
# installed at once; what they are built with needs exactly that one; Python needs neither headers nor a compiler.
get_target_property(abi greta_trace SOVERSION)
set(runtime libgreta-trace${abi})
set(this_runtime "${runtime} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

set(CPACK_DEBIAN_TRACE_PACKAGE_NAME ${runtime})
set(CPACK_DEBIAN_TRACE_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_TRACE_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/packaging/debian/triggers)
set(CPACK_DEBIAN_TRACE_DESCRIPTION
"records the tensors of any LLM inference engine for greta
A C library by which an engine writes what it computes into a file of greta:
a fingerprint of every tensor row, worked out beside the engine by one writer
thread. greta then tells where two runs, or two phases of one, part ways.")

set(CPACK_DEBIAN_TRACE-DEV_PACKAGE_NAME libgreta-trace-dev)
set(CPACK_DEBIAN_TRACE-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_TRACE-DEV_PACKAGE_DEPENDS "${this_runtime}")
set(CPACK_DEBIAN_TRACE-DEV_PACKAGE_SUGGESTS "g++, libsqlitecpp-dev, libsqlite3-dev, libssl-dev")
set(CPACK_DEBIAN_TRACE-DEV_DESCRIPTION
"records the tensors of any LLM inference engine for greta (development)
Header, static library, pkg-config file and CMake package of libgreta_trace, by
which an engine writes what it computes into a file of greta.

Linking the static library needs the suggested packages, too.")

set(CPACK_DEBIAN_TRACE-PYTHON_PACKAGE_NAME python3-greta)
set(CPACK_DEBIAN_TRACE-PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_TRACE-PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_TRACE-PYTHON_PACKAGE_DEPENDS "python3:any, ${runtime} (>= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_TRACE-PYTHON_PACKAGE_SUGGESTS "python3-numpy, python3-torch")
set(CPACK_DEBIAN_TRACE-PYTHON_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/packaging/debian/postinst ${PROJECT_SOURCE_DIR}/packaging/debian/prerm)
set(CPACK_DEBIAN_TRACE-PYTHON_DESCRIPTION
"records the tensors of PyTorch or NumPy programs for greta (Python 3)
The module greta writes tensors, from where they lie in memory, into a file of
greta: a fingerprint of every row. greta then tells where two runs, or two
phases of one, part ways.")

include(CPack)
