/* scaled.h - numbers of tokens and samples as people write them: 250B, 1.2T */
#ifndef BASE_SCALED_H
#define BASE_SCALED_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a number from 0 to 1e15 at *at with an optional suffix K, M, B or T for 1e3 to 1e12, in
 * either case, truncated to an integer. False unless `end` follows it; *at is after that then, or
 * at it where it is NUL. */
bool scaled_read(const char **at, char end, int64_t *out);

#endif
