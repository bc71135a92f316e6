/*
 * batch.c - the lines of a script that are for the batch system: #SBATCH, #PBS and #$
 */
#include "lib/script/batch.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The number after a name and '=' or blanks; -1: another word is there. */
static int64_t
value(const char *s, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(s, name, n) != 0)
		return -1;
	s += n;
	if (n > 2 && *s != '=' && *s != ' ')
		return -1;
	s += strspn(s, "= ");
	return isdigit((unsigned char)*s) && strspn(s, "0123456789") < 8 ? atoll(s) : -1;
}

static void
take(int64_t *out, int64_t v)
{
	if (v > 0)
		*out = v;
}

/* "gpu:8" and "gpu:h100:8" after --gres. */
static int64_t
gpus(const char *s)
{
	size_t n = strcspn(s, " \t,");
	const char *last = NULL;

	for (size_t i = 0; i < n; i++)
		if (s[i] == ':')
			last = s + i + 1;
	return last && !strncmp(s, "gpu", 3) && isdigit((unsigned char)*last) &&
		strspn(last, "0123456789") < 8
	    ? atoll(last)
	    : -1;
}

/* One option of Slurm at s. */
static void
slurm(struct script *s, const char *option)
{
	take(&s->nodes, value(option, "--nodes"));
	take(&s->nodes, value(option, "-N"));
	take(&s->tasks, value(option, "--ntasks"));
	take(&s->tasks, value(option, "-n"));
	take(&s->tasks_per_node, value(option, "--ntasks-per-node"));
	take(&s->gpus_per_node, value(option, "--gpus-per-node"));
	if (!strncmp(option, "--gres=", 7) || !strncmp(option, "--gres ", 7))
		take(&s->gpus_per_node, gpus(option + 7));
}

/* The parts of "select=2:ngpus=8:mpiprocs=8". */
static void
pbs(struct script *s, const char *option)
{
	const char *end = option + strcspn(option, " \t\n");

	for (; option < end; option += strcspn(option, ":\n \t") + 1) {
		take(&s->nodes, value(option, "select"));
		take(&s->gpus_per_node, value(option, "ngpus"));
		take(&s->tasks_per_node, value(option, "mpiprocs"));
	}
}

/* Kinds of hosts that two Japanese systems rent by a resource's name, with their GPUs. */
static void
grid_engine(struct script *s, const char *option)
{
	static const struct {
		const char *name;
		int gpus;
	} kind[] = { { "rt_F", 4 }, { "rt_AF", 8 }, { "rt_HF", 8 }, { "node_f", 4 },
		{ "f_node", 4 } };

	for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
		int64_t n = value(option, kind[i].name);

		if (n <= 0)
			continue;
		s->nodes = n;
		s->gpus_per_node = kind[i].gpus;
	}
}

/* Calls f with each word of the line. */
static void
each_word(struct script *s, const char *line, void (*f)(struct script *, const char *))
{
	while (*line && *line != '\n') {
		f(s, line);
		line += strcspn(line, " \t\n");
		line += strspn(line, " \t");
	}
}

void
batch_lines(struct script *s, const char *text)
{
	for (; *text; text += strcspn(text, "\n"), text += *text == '\n') {
		if (!strncmp(text, "#SBATCH ", 8))
			each_word(s, text + 8, slurm);
		else if (!strncmp(text, "#PBS ", 5))
			each_word(s, text + 5, pbs);
		else if (!strncmp(text, "#$ ", 3))
			each_word(s, text + 3, grid_engine);
	}
}
