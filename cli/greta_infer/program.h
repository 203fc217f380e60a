#pragma once

namespace greta {

/// All of the program: parses the command line, runs the command that it names, and says on stderr
/// what went wrong. Returns the exit status.
int run_greta_infer(int argc, char** argv);

}  // namespace greta
