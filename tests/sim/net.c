/* net.c - datagrams between simulated processes: they come after a drawn time, or never */
#include "lib/base/mem.h"
#include "tests/sim/files.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LOST_ONE_IN = 50 };

struct datagram {
	struct datagram *next;
	int64_t arrives;
	struct sockaddr_in from;
	size_t len;
	char bytes[];
};

struct socket {
	struct socket *next; /* of all */
	int host;
	uint16_t port;
	struct datagram *queue;
	struct process *process;
};

static struct socket *sockets;
static uint16_t next_port = 40000;

static uint32_t
address_of(int host)
{
	return htonl(0x0a000001u + (uint32_t)host);
}

int
sim_socket(int domain, int type, int protocol)
{
	int err = call_begin(CALL_SOCKET, NULL, 0);
	struct file *f = mem_zalloc(1, sizeof *f);

	(void)domain;
	(void)type;
	(void)protocol;
	if (err) {
		free(f);
		return fail(err);
	}
	f->kind = FILE_SOCKET;
	f->socket = mem_zalloc(1, sizeof *f->socket);
	f->socket->process = sim.current->process;
	f->socket->host = sim.current->process->host;
	f->socket->next = sockets;
	sockets = f->socket;
	return file_add(f);
}

void
socket_free(struct socket *s)
{
	struct socket **x = &sockets;

	while (*x != s)
		x = &(*x)->next;
	*x = s->next;
	for (struct datagram *d = s->queue, *next; d; d = next) {
		next = d->next;
		free(d);
	}
	free(s);
}

int
sim_bind(int fd, const struct sockaddr *a, socklen_t n)
{
	(void)a;
	(void)n;
	file_of(fd)->socket->port = next_port++;
	return 0;
}

static struct sockaddr_in
name_of(const struct socket *s)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_port = htons(s->port),
		.sin_addr.s_addr = address_of(s->host) };
}

int
sim_getsockname(int fd, struct sockaddr *a, socklen_t *n)
{
	struct sockaddr_in name = name_of(file_of(fd)->socket);

	memcpy(a, &name, sizeof name);
	*n = sizeof name;
	return 0;
}

static struct socket *
find(const struct sockaddr_in *to, int from_host)
{
	bool loopback = ntohl(to->sin_addr.s_addr) >> 24 == 127;

	for (struct socket *s = sockets; s; s = s->next)
		if (s->port == ntohs(to->sin_port) &&
		    (loopback ? s->host == from_host : address_of(s->host) == to->sin_addr.s_addr))
			return s;
	return NULL;
}

ssize_t
sim_sendto(int fd, const void *bytes, size_t n, int flags, const struct sockaddr *to, socklen_t len)
{
	struct socket *self = file_of(fd)->socket, *s;
	struct datagram *d, **x;

	(void)flags;
	(void)len;
	call_begin(CALL_SOCKET, "send", (int64_t)n);
	s = find((const struct sockaddr_in *)(const void *)to, self->host);
	if (!s || (sim.faults && draw_one_in(LOST_ONE_IN)))
		return (ssize_t)n;
	d = mem_alloc(1, sizeof *d + n);
	d->arrives = sim.now + draw_delay(sim.wire_delay);
	d->from = name_of(self);
	d->len = n;
	memcpy(d->bytes, bytes, n);
	for (x = &s->queue; *x && (*x)->arrives <= d->arrives; x = &(*x)->next)
		;
	d->next = *x;
	*x = d;
	poll_wake(s->process);
	return (ssize_t)n;
}

int64_t
socket_ready(const struct socket *s)
{
	return s->queue ? s->queue->arrives : NEVER;
}

ssize_t
sim_recvfrom(int fd, void *to, size_t n, int flags, struct sockaddr *from, socklen_t *len)
{
	struct socket *s = file_of(fd)->socket;
	struct datagram *d;

	(void)flags;
	call_begin(CALL_SOCKET, "receive", (int64_t)n);
	d = s->queue;
	if (socket_ready(s) > sim.now)
		return fail(EAGAIN);
	s->queue = d->next;
	n = n < d->len ? n : d->len;
	memcpy(to, d->bytes, n);
	memcpy(from, &d->from, sizeof d->from);
	*len = sizeof d->from;
	free(d);
	return (ssize_t)n;
}

/* The loopback, and one address. */
int
sim_getifaddrs(struct ifaddrs **out)
{
	struct ifaddrs *a = mem_zalloc(2, sizeof *a);
	struct sockaddr_in *in = mem_zalloc(2, sizeof *in);

	for (int i = 0; i < 2; i++) {
		in[i] = (struct sockaddr_in){ .sin_family = AF_INET,
			.sin_addr.s_addr =
			    i ? address_of(sim.current->process->host) : htonl(INADDR_LOOPBACK) };
		a[i].ifa_addr = (struct sockaddr *)(void *)&in[i];
		a[i].ifa_flags = IFF_UP;
	}
	a[0].ifa_next = &a[1];
	*out = a;
	return 0;
}

void
sim_freeifaddrs(struct ifaddrs *a)
{
	free(a->ifa_addr);
	free(a);
}
