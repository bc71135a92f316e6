/* launch.c - in place of train/run/launch.c: runs of a simulated machine begin in launcher.c */
#include "lib/base/mem.h"
#include "train/run/launch.h"

#include <string.h>

char **sim_launch_words(int argc, char **argv);
void sim_launch_run(const struct train_config *c, char **words) __attribute__((noreturn));

char **
sim_launch_words(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return NULL;
}

void
sim_launch_run(const struct train_config *c, char **words)
{
	(void)c;
	(void)words;
	BUG("a simulated run starts a launcher");
}
