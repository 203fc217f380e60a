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
set(CPACK_COMPONENTS_ALL programs)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SOURCE greta)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME greta)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS "sqlite3, git")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SUGGESTS "xdg-utils")
set(CPACK_DEBIAN_PROGRAMS_DESCRIPTION
"where prefill and decode of an LLM inference engine part ways
A trace warehouse in one SQLite file. greta-infer runs GGUF models of Llama,
Mistral and Qwen and writes a fingerprint of every traced tensor row; greta-db
takes in the traces of other engines, pairs the rows of both phases, tells
rounding from a bug, and names the first tensor, layer and commit that fails.

The verdict is a view of the file: plain sqlite3 gives the same answer.")

include(CPack)
