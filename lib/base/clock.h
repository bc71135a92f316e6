/* clock.h - the time, in seconds */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

double clock_seconds(void);             /* since some start of this machine's; never set back */
double clock_unix(void);                /* since 1970, by the clock that other programs' logs go by */

#endif
