/* report_channel.c - reports from all ranks to two of them, without MPI */
#include "lib/base/mem.h"
#include "train/watch/report_channel.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAYS = 8, HOST = 64 };

/* The addresses of a receiver. */
struct receiver {
	uint64_t token;     /* rank 0's holds for all */
	uint32_t way[WAYS]; /* its addresses; no 0 before the last */
	uint16_t port;      /* 0: it receives nothing */
};

struct message {
	uint64_t token;
	int32_t kind, rank;
	struct report report;
};

struct report_channel {
	int fd; /* -1: none */
	int rank, size;
	char (*host)[HOST]; /* of each rank */
	uint64_t token;
	struct receiver receiver[REPORT_RECEIVERS];
	struct sockaddr_in *from; /* of each rank; port 0: not heard */
};

/* The addresses by which this host may be reached, the loopback among them. */
static void
list_ways(uint32_t way[WAYS])
{
	struct ifaddrs *all, *i;
	int n = 0;

	if (getifaddrs(&all) < 0)
		return;
	for (i = all; i && n < WAYS; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && i->ifa_flags & IFF_UP)
			way[n++] = ((struct sockaddr_in *)(void *)i->ifa_addr)->sin_addr.s_addr;
	freeifaddrs(all);
}

static int
open_socket(uint16_t *port)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	socklen_t len = sizeof any;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any) == 0 &&
	    getsockname(fd, (struct sockaddr *)&any, &len) == 0) {
		*port = any.sin_port;
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

struct report_channel *
report_channel_open(struct comm *world)
{
	struct report_channel *p = mem_zalloc(1, sizeof *p);
	struct receiver own = { 0, { 0 }, 0 };
	char host[HOST] = "";
	struct tensor name = tensor_1d(host, DTYPE_U8, HOST), all;

	p->rank = world->rank;
	p->size = world->size;
	p->from = mem_zalloc((size_t)world->size, sizeof *p->from);
	p->fd = open_socket(&own.port);
	p->host = mem_zalloc((size_t)world->size, sizeof *p->host);
	gethostname(host, sizeof host - 1);
	all = tensor_1d(p->host, DTYPE_U8, (int64_t)world->size * HOST);
	world->ops->all_gather(COMM_HERE(world), NULL, &(struct comm_gather){ all, name });
	list_ways(own.way);
	if (getrandom(&own.token, sizeof own.token, 0) < 0)
		own.token = (uint64_t)getpid();
	for (int i = 0; i < REPORT_RECEIVERS && i < world->size; i++) {
		struct tensor t = tensor_1d(&p->receiver[i], DTYPE_U8, sizeof p->receiver[i]);

		p->receiver[i] = own;
		world->ops->broadcast(COMM_HERE(world), NULL, &(struct comm_broadcast){ t, i });
	}
	p->token = p->receiver[0].token;
	return p;
}

void
report_channel_close(struct report_channel *p)
{
	if (p->fd >= 0)
		close(p->fd);
	free(p->from);
	free(p->host);
	free(p);
}

const char *
report_channel_host(const struct report_channel *p, int rank)
{
	return p->host[rank];
}

/* A report that cannot be sent is lost: the next one is as good. */
static void
send_to(const struct report_channel *p, const struct message *l, const struct sockaddr_in *to)
{
	(void)!sendto(p->fd, l, sizeof *l, MSG_NOSIGNAL, (const struct sockaddr *)to, sizeof *to);
}

/* Sends to every address that leads there from here, which the loopback of another host does not.
 * A receiver hears itself as it hears others. */
static void
tell_receivers(const struct report_channel *p, const struct message *l)
{
	for (int i = 0; p->fd >= 0 && i < REPORT_RECEIVERS && i < p->size; i++) {
		const struct receiver *o = &p->receiver[i];
		struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = o->port };
		bool here = !strcmp(p->host[p->rank], p->host[i]);

		for (int k = 0; o->port && k < WAYS && o->way[k]; k++) {
			to.sin_addr.s_addr = o->way[k];
			if (here || ntohl(o->way[k]) >> 24 != IN_LOOPBACKNET)
				send_to(p, l, &to);
		}
	}
}

void
report_channel_send(struct report_channel *p, const struct report *r)
{
	struct message l;

	memset(&l, 0, sizeof l);
	l.token = p->token;
	l.kind = MESSAGE_REPORT;
	l.rank = p->rank;
	l.report = *r;
	tell_receivers(p, &l);
}

static bool
is_role(int32_t role)
{
	return role >= 0 && role < COMM_ROLES;
}

/* A message counts that carries the run's token; its strings are ended with a NUL. */
struct report_message
report_channel_receive(struct report_channel *p, int milliseconds)
{
	struct pollfd ready = { p ? p->fd : -1, POLLIN, 0 };
	struct report_message news = { .kind = MESSAGE_NONE };
	struct sockaddr_in from;
	socklen_t len = sizeof from;
	struct message l;

	/* Without a socket poll only waits. */
	if (poll(&ready, 1, milliseconds) <= 0 ||
	    recvfrom(p->fd, &l, sizeof l, 0, (struct sockaddr *)&from, &len) != sizeof l)
		return news;
	if (l.token != p->token || l.rank < 0 || l.rank >= p->size || !is_role(l.report.at.role) ||
	    !is_role(l.report.made.last))
		return news;
	news = (struct report_message){ l.kind == MESSAGE_LEAVE ? MESSAGE_LEAVE : MESSAGE_REPORT,
		l.rank, l.report };
	news.report.at.kind[sizeof news.report.at.kind - 1] = '\0';
	news.report.at.site[sizeof news.report.at.site - 1] = '\0';
	p->from[l.rank] = from;
	return news;
}

/* Sends an empty message to itself, with a token that no process has. */
void
report_channel_wake(struct report_channel *p)
{
	struct sockaddr_in own;
	socklen_t len = sizeof own;
	const struct message empty = { .token = ~p->token };

	if (p->fd < 0 || getsockname(p->fd, (struct sockaddr *)&own, &len) < 0)
		return;
	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	send_to(p, &empty, &own);
}

void
report_channel_leave(struct report_channel *p)
{
	struct message l;

	memset(&l, 0, sizeof l);
	l.token = p->token;
	l.kind = MESSAGE_LEAVE;
	l.rank = p->rank;
	tell_receivers(
	    p, &l); /* also one that was never heard: it would report once it runs again */
	for (int i = 0; p->fd >= 0 && i < p->size; i++)
		if (i != p->rank && p->from[i].sin_port)
			send_to(p, &l, &p->from[i]);
}
