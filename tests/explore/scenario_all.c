#include "scenario.h"

#define SCENARIO_ADDRESS(name) &scenario_##name,
const scenario *const scenarios[] = {SCENARIO_MAP(SCENARIO_ADDRESS) NULL};
