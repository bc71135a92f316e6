/* rankfile.c - ranks on hosts and cores, in their order */
#include "plan/rankfile.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

const char *const launchers[] = { "openmpi4", "openmpi5", "slurm", NULL };

/* The names of a host file, in its text, which is owned. */
struct host_names {
	char *text, **name;
	int64_t count;
};

static void
release(struct host_names *h)
{
	free(h->text);
	free(h->name);
}

/* What a line has after "slots=" or a colon; -1: nothing. */
static long
slots_of(const char *line)
{
	const char *at = strstr(line, "slots=");

	if (at)
		return strtol(at + strlen("slots="), NULL, 10);
	at = strchr(line, ':');
	return at ? strtol(at + 1, NULL, 10) : -1;
}

/* Takes a line: a name, and maybe slots, which must be as many as a host has devices. */
static int
take_line(const struct rankfile_options *o, int64_t devices, char *line, int number,
    struct host_names *h, struct err *e)
{
	long slots;

	line[strcspn(line, "#\r")] = '\0';
	line += strspn(line, " \t");
	if (!*line)
		return 0;
	slots = slots_of(line);
	if (slots >= 0 && slots != devices)
		return err_set(e, "%s:%d: %ld slots: --gpus-per-node is %lld", o->hostfile, number,
		    slots, (long long)devices);
	line[strcspn(line, " \t:")] = '\0';
	h->name = mem_realloc(h->name, (size_t)h->count + 1, sizeof *h->name);
	h->name[h->count++] = line;
	return 0;
}

static int
read_hosts(const struct rankfile_options *o, int64_t devices, struct host_names *h, struct err *e)
{
	enum { MOST = 1 << 26 };
	size_t len;
	int number = 0;

	if (io_read_file(o->hostfile, MOST, &h->text, &len, e) < 0)
		return -1;
	for (char *line = h->text, *next; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		if (take_line(o, devices, line, ++number, h, e) < 0)
			return -1;
	}
	return 0;
}

/* Ranks that exchange within every layer must share a host. */
static int
check(const struct rankfile_options *o, const struct run_plan *plan, int64_t devices, struct err *e)
{
	int64_t t = plan->layout.tensor_model_parallel_size, world = layout_world(&plan->layout);

	if (world > devices && devices % t)
		return err_set(e,
		    "--tensor-model-parallel-size %lld: must divide --gpus-per-node %lld, so that "
		    "its ranks share a host",
		    (long long)t, (long long)devices);
	if (o->launcher == LAUNCHER_SLURM && !o->hostfile)
		return err_set(e, "--launcher slurm: needs --hostfile, the names of the hosts");
	if (o->cores && o->cores < devices)
		return err_set(e, "--cores-per-host %lld: must be at least --gpus-per-node %lld",
		    (long long)o->cores, (long long)devices);
	return 0;
}

/* The host of a rank by name, or by its number in the allocation of a batch system. */
static void
add_host(const struct host_names *h, int64_t host, struct str *out)
{
	if (h->name)
		str_adds(out, h->name[host]);
	else
		str_addf(out, "+n%lld", (long long)host);
}

/* A host's cores are shared out to its ranks. */
static void
add_rank(const struct rankfile_options *o, const struct host_names *h, int64_t rank,
    int64_t devices, struct str *out)
{
	int64_t cores = o->cores ? o->cores / devices : 1, first = rank % devices * cores;

	if (o->launcher == LAUNCHER_SLURM) {
		add_host(h, rank / devices, out);
		str_adds(out, "\n");
		return;
	}
	str_addf(out, "rank %lld=", (long long)rank);
	add_host(h, rank / devices, out);
	str_addf(out, " slot=%lld", (long long)first);
	if (cores > 1)
		str_addf(out, "-%lld", (long long)(first + cores - 1));
	str_adds(out, "\n");
}

/* Open MPI 4.1 takes the hosts from the rankfile itself. */
static void
say_how(const struct rankfile_options *o, const char *file, int64_t world, struct str *how)
{
	if (o->launcher == LAUNCHER_SLURM) {
		str_addf(how, "SLURM_HOSTFILE=%s srun --distribution=arbitrary --ntasks=%lld", file,
		    (long long)world);
		return;
	}
	str_addf(how, "mpirun -np %lld", (long long)world);
	if (o->launcher == LAUNCHER_OPENMPI_5 && o->hostfile)
		str_addf(how, " --hostfile %s", o->hostfile);
	str_addf(how, "%s%s",
	    o->launcher == LAUNCHER_OPENMPI_4 ? " --rankfile " : " --map-by rankfile:file=", file);
}

int
rankfile_make(const struct rankfile_options *o, const struct run_plan *plan,
    const struct hardware *hw, const char *file, struct rankfile *out, struct err *e)
{
	int64_t devices = (int64_t)hw->gpus_per_node, world = layout_world(&plan->layout);
	struct host_names h = { 0 };
	int rc = check(o, plan, devices, e);

	if (rc == 0 && o->hostfile)
		rc = read_hosts(o, devices, &h, e);
	if (rc == 0 && h.name && h.count * devices < world)
		rc = err_set(e, "%s: %lld hosts of %lld devices: %lld ranks need %lld", o->hostfile,
		    (long long)h.count, (long long)devices, (long long)world,
		    (long long)((world + devices - 1) / devices));
	if (rc == 0 && o->hostfile && !h.name)
		rc = err_set(e, "%s: names no host", o->hostfile);
	for (int64_t r = 0; rc == 0 && r < world; r++)
		add_rank(o, &h, r, devices, &out->text);
	if (rc == 0)
		say_how(o, file, world, &out->how);
	release(&h);
	return rc;
}
