// The servers of fleet tests, for script/bench-fleet: prints the addresses of a warehouse on the
// first of them and of one for both, a line each; then answers each line of SQL, whose answer is a
// number, by the sum over both. They end with its standard input.
#include <exception>
#include <iostream>
#include <string>

#include "tests/db/fleet/servers.h"

int main() {
  if (const std::string why = greta::FleetServers::why_not(); !why.empty()) {
    std::cerr << why << "\n";
    return 2;
  }
  try {
    const greta::FleetServers servers;
    std::cout << servers.address("one") << "\n" << servers.address("two") << std::endl;
    for (std::string sql; std::getline(std::cin, sql);) std::cout << servers.sum(sql) << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
