/*
 * process.h - who this process is, and whether another one has ended
 *
 * A number of a process means something in one PID namespace of one host alone, and only until it
 * is given out again; the start time tells two processes of one number apart.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

enum { PROCESS_HOST = 80 };

/* The name of this host without dots, and in a container with its PID namespace after it; at most
 * 77 characters, and none but letters, digits, '-' and '_'. Two that are equal see each other's
 * processes. */
void process_host(char out[PROCESS_HOST]);
/* The id of this boot of the kernel; empty where it cannot be told. */
void process_boot(char out[PROCESS_HOST]);
/* When a process of this host was started, in ticks since the boot; 0 when there is none or it
 * cannot be told. */
uint64_t process_start(long pid);
/* Is there no such process on this host any more, or only a zombie? start 0 stands for any. */
bool process_ended(long pid, uint64_t start);

#endif
