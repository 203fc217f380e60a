#pragma once
#include <memory>
#include <string>

#include "db/fleet/server.h"

namespace greta {

/// A connection to the warehouse at an address (db/clickhouse/address.h). The password is that of
/// $GRETA_FLEET_PASSWORD, else of the file $GRETA_FLEET_PASSWORD_FILE, else none; where the server
/// wants one a terminal is asked for it. $GRETA_FLEET_CA names a file of authorities for TLS.
/// Throws UsageError, or as FleetServer does.
std::unique_ptr<FleetServer> connect_to_fleet(const std::string& address,
                                              const clickhouse::Retries& retries = {});

/// The same, and its tables are there: for questions.
std::unique_ptr<FleetServer> open_fleet(const std::string& address);

}  // namespace greta
