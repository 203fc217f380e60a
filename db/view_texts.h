#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace greta {

/// A text that views say, as it stands between quotes in queries/ (or in what is kept of such
/// texts), and what to say instead. A pattern of printf() has the same values in the same order.
struct ViewText {
  std::string_view said, instead;
};

/// The texts between quotes in a definition, in order, quotes within them undone.
std::vector<std::string> quoted_texts(std::string_view sql);

/// From now on this connection's views say these texts otherwise, for whoever asks them by their
/// names; nothing else of their rows changes. Views that have such a text, and those that read
/// them, have temporary ones of their names before them. A change of PRAGMA temp_store forgets
/// them. Throws SQLite::Exception.
void say_otherwise(SQLite::Database& db, std::span<const ViewText> texts);

/// Whether the views of this connection do.
bool says_otherwise(SQLite::Database& db);

}  // namespace greta
