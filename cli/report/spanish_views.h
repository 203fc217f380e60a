#pragma once
#include <SQLiteCpp/SQLiteCpp.h>

#include <span>

#include "cli/report/texts.h"
#include "db/view_texts.h"

namespace greta {

/// What the views, and the dictionary of findings, say in English, and the same in Spanish.
std::span<const ViewText> spanish_view_texts();

/// Has the views of this connection say their sentences in the language of a report; of both
/// languages, in English. See say_otherwise().
void speak(SQLite::Database& db, Language language);

}  // namespace greta
