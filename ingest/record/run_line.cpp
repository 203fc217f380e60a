#include "ingest/record/shapes.h"

namespace greta::record {

void read_run_line(LineReader& in) {
  RunEvent event;
  if (std::string why = read_run_event(in.line, event); !why.empty()) {
    return in.add_finding(true, why);
  }
  in.set_shape("run");
  in.batch->kept_bytes += in.line.size() + event.plan.size() * sizeof(RunEvent::Planned);
  in.batch->events.push_back(std::move(event));
}

}  // namespace greta::record
