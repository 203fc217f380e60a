#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "kernels/gpu/device.h"
#if defined(GRETA_TEST_ON_EMULATOR)
#include "tests/emulator/emulator.h"
#endif

// --schedule=N: the emulator runs threads in an order drawn from N (emulator.h). On a GPU it is
// ignored.
int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (greta::device_count() == 0) {
    std::fputs("no GPU can be used\n", stderr);
    return 2;
  }
  const greta::DeviceInfo device = greta::device_info();
  std::printf("%s, %s, wavefronts of %d\n", device.name.c_str(), device.architecture.c_str(),
              device.wave_lanes);
#if defined(GRETA_TEST_ON_EMULATOR)
  constexpr std::string_view kSchedule = "--schedule=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with(kSchedule)) {
      greta::emulator::set_schedule_seed(
          std::strtoull(argument.substr(kSchedule.size()).data(), nullptr, 10));
    }
  }
#endif
  return RUN_ALL_TESTS();
}
