/* hooks.c - in place of train/state/hooks.c: a simulated machine starts no process after a save */
#include "train/state/hooks.h"

int sim_hooks_open(const struct train_config *c, struct hooks **out, struct err *e);
void sim_hooks_saved(struct hooks *h, int64_t iteration);
void sim_hooks_poll(struct hooks *h);
int sim_hooks_read(const struct hooks *h, int64_t iteration[HOOKS_READ]);
void sim_hooks_close(struct hooks *h);

int
sim_hooks_open(const struct train_config *c, struct hooks **out, struct err *e)
{
	*out = NULL;
	if (!c->o.save_hf_interval && !c->o.save_hook)
		return 0;
	return err_set(e, "--save-hook and --save-hf-interval: not in a simulation");
}

void
sim_hooks_saved(struct hooks *h, int64_t iteration)
{
	(void)h;
	(void)iteration;
}

void
sim_hooks_poll(struct hooks *h)
{
	(void)h;
}

int
sim_hooks_read(const struct hooks *h, int64_t iteration[HOOKS_READ])
{
	(void)h;
	(void)iteration;
	return 0;
}

void
sim_hooks_close(struct hooks *h)
{
	(void)h;
}
