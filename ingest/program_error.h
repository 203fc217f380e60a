#pragma once
#include <string_view>

#include "ingest/failure_words.h"

/// What programs, and the shells that start them, print when they cannot go on: as they crash
/// ("Segmentation fault", "CUDA error", a traceback), what the system refused them ("model.gguf: No
/// such file or directory") and what they could not do ("failed to load the model"). Pure functions
/// of any bytes.
namespace greta {

/// Whether the words tell that a program crashed, wherever among them, and do not deny it.
bool tells_of_crash(SaidWords words);

/// A line of glog at a level of what went wrong: "E0212 12:30:01.5 17 file.cc:12] ...".
bool is_glog_error(std::string_view line);

/// Whether a line ends as the system calls its errors, "engine: model.gguf: Permission denied", or
/// as a shell does that finds no such command, and does not say how it went on.
bool is_system_error(std::string_view line);

/// "Terminated", "zsh: killed     ./engine", "[1]+  Killed   ./engine": what a shell says of a
/// program that a signal ended.
bool is_death_by_signal(std::string_view line);

/// Whether a clause of the line, of those words, begins with what could not be done, "failed to
/// load", "cannot open", and nothing says how it went on, "using defaults".
bool tells_of_what_could_not_be(std::string_view line, SaidWords words);

}  // namespace greta
