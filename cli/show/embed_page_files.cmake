# Writes page.css and the scripts of FOLDER into the C++ source OUT as raw string literals. cmake -P script.
# A literal has at most 64 KiB in some compilers: these files are far smaller.
set(text "// Generated from page.css and the scripts beside it.\n#include \"cli/show/page.h\"\n\nnamespace greta {\n")
foreach(file page_style:page.css core_script:core.js map_script:map.js history_script:history.js)
  string(REPLACE ":" ";" parts ${file})
  list(GET parts 0 name)
  list(GET parts 1 path)
  file(READ ${FOLDER}/${path} content)
  string(APPEND text "std::string_view ${name}() {\n  return R\"page_file(${content})page_file\";\n}\n")
endforeach()
string(APPEND text "}  // namespace greta\n")
file(WRITE ${OUT} "${text}")
