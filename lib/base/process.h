/*
 * process.h - who this process is, and whether another one has ended
 *
 * A process number has a meaning only in one PID namespace of one host, and only until it is
 * reused; the start time distinguishes two processes of one number.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

enum { PROCESS_HOST = 80, PROCESS_WHERE = 160 };

/* The name of this host without dots, and in a container with its PID namespace after it; at most
 * 77 characters, of letters, digits, '-' and '_'. Processes with equal names see each other. */
void process_host(char out[PROCESS_HOST]);
/* The id of this boot of the kernel; empty where it cannot be told. */
void process_boot(char out[PROCESS_HOST]);
/* The id of this boot, a blank and the name of this host, and "#K" where this process is on a
 * pretended host: processes of one boot share a machine, those of which all is equal a host. The
 * boot is empty where it cannot be told. */
void process_where(char out[PROCESS_WHERE]);
/* From here on this process is on pretended host number k of its machine. */
void process_pretend(int k);
/* When a process of this host was started, in ticks since the boot; 0 when there is none or it
 * cannot be told. */
uint64_t process_start(long pid);
/* True when this host has no such process any more, or only a zombie. start 0 means any. */
bool process_ended(long pid, uint64_t start);

#endif
