#pragma once

#include <string>
#include <vector>

namespace greta {

/// Writes "PROGRAM: message" and further lines to standard error. They may hold names from files,
/// models and databases: no byte of them reaches a terminal as a control.
void complain(const std::string& program, const std::string& message,
              const std::vector<std::string>& lines = {});

/// Says why a program ends without having done its work, and gives its exit status: after a stop
/// signal `if_stopped` and 128 + signal, else the trouble and kExitError.
int end_in_trouble(const std::string& program, const std::string& trouble,
                   const std::string& if_stopped, const std::vector<std::string>& lines = {});

}  // namespace greta
