#pragma once

/// Marks what users of liblazuli.so can see: functions, and classes with members defined in the library. The
/// library is compiled with hidden visibility, so a name without the mark does not leave it.
#define LZ_API __attribute__((visibility("default")))
