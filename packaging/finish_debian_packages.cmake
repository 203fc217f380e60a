# What Debian's policy wants in a package beyond what `cmake --install` puts in place, done in the folders
# that cpack is about to pack: copyright, changelogs, compressed man pages, no debug symbols in archives.
set(source ${CPACK_GRETA_SOURCE})
set(shared_terms "")
foreach(library libcli11-dev nlohmann-json3-dev libsqlitecpp-dev)
  set(file /usr/share/doc/${library}/copyright)
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "${file} is missing: a package has to carry the terms of what is compiled in")
  endif()
  file(READ ${file} terms)
  string(APPEND shared_terms "\n---- ${library}\n\n${terms}")
endforeach()
file(READ ${source}/packaging/debian/copyright own_terms)

# compress FILE: as FILE.gz, the same bytes every time.
function(compress file)
  execute_process(COMMAND gzip -9 --no-name --force ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

execute_process(COMMAND date --utc --rfc-email --date ${CPACK_GRETA_RELEASE_DATE}
  OUTPUT_VARIABLE released OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(debian_version ${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})

foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  set(root ${CPACK_TEMPORARY_DIRECTORY}/${component}/usr)
  string(TOUPPER ${component} upper)
  set(folder ${root}/share/doc/${CPACK_DEBIAN_${upper}_PACKAGE_NAME})
  file(WRITE ${folder}/copyright "${own_terms}${shared_terms}")
  file(COPY_FILE ${source}/CHANGELOG.md ${folder}/changelog)
  file(WRITE ${folder}/changelog.Debian
    "greta (${debian_version}) unstable; urgency=medium\n\n"
    "  * Version ${CPACK_PACKAGE_VERSION}: changelog.gz says what is new.\n\n"
    " -- ${CPACK_PACKAGE_CONTACT}  ${released}\n")
  compress(${folder}/changelog)
  compress(${folder}/changelog.Debian)
  file(GLOB pages ${root}/share/man/man*/*)
  foreach(page IN LISTS pages)
    compress(${page})
  endforeach()
  file(GLOB archives ${root}/lib/*/*.a)
  foreach(archive IN LISTS archives)
    execute_process(COMMAND strip --strip-debug --enable-deterministic-archives ${archive}
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
endforeach()
