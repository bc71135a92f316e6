/* feed.c - in place of train/report/feed.c: a simulated machine starts no command for metrics */
#include "train/report/feed.h"

struct feed *sim_feed_open(const char *command, struct err *e);
void sim_feed_line(struct feed *f, const char *line, size_t len);
void sim_feed_close(struct feed *f);

struct feed *
sim_feed_open(const char *command, struct err *e)
{
	err_set(e, "--metrics-command %s: not in a simulation", command);
	return NULL;
}

void
sim_feed_line(struct feed *f, const char *line, size_t len)
{
	(void)f;
	(void)line;
	(void)len;
}

void
sim_feed_close(struct feed *f)
{
	(void)f;
}
