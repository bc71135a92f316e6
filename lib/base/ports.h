/* ports.h - the InfiniBand and RoCE ports of this host */
#ifndef BASE_PORTS_H
#define BASE_PORTS_H

#define PORTS_DIR "/sys/class/infiniband"

/* The active ports of the highest rate; slower ones beside them serve other purposes. */
struct ports {
	int count;
	double gigabits; /* a second, of each; 0: there is none */
};

/* dir is laid out as PORTS_DIR: DEVICE/ports/NUMBER/state and rate. What cannot be read does not
 * count. */
void ports_read(struct ports *p, const char *dir);

#endif
