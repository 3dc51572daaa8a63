#include "tests/support/device_environment.h"
