# Writes ROOT/FILES into the C++ source OUT as raw string literals, which sql_files() returns. cmake -P script; FILES
# is separated by commas.
string(REPLACE "," ";" FILES "${FILES}")
set(text "// Generated from the .sql files.\n#include \"db/schema.h\"\n\nnamespace greta {\n")
string(APPEND text "const std::vector<SqlFile>& sql_files() {\n  static const std::vector<SqlFile> files = {\n")
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} sql)
  string(APPEND text "      {\"${file}\", R\"sql_text(${sql})sql_text\"},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n}  // namespace greta\n")
file(WRITE ${OUT} "${text}")
