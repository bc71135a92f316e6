/* seal.h - mckpt seal: texts of a checkpoint that were edited on purpose */
#ifndef CKPT_SEAL_H
#define CKPT_SEAL_H

#include "lib/base/err.h"

#include <stdio.h>

/* Renews the checksums of the texts, and prints a line that names those that had changed. */
int seal_texts(const char *dir, FILE *out, struct err *e);

#endif
