/* family_impl.h - for the files lib/model/family*.c alone */
#ifndef MODEL_FAMILY_IMPL_H
#define MODEL_FAMILY_IMPL_H

#include "lib/model/family.h"

/* Rows that all families have. */
extern const struct key family_shared[];
extern const int family_num_shared;

/* Appends a line that names the members of a config that nobody reads, if there are any. */
void family_note_members(
    const struct family *f, const struct json_value *config, const char *file, struct str *notes);
/* 0 unless a member is set that must not be. */
int family_check_off(const struct family *f, const struct json_value *config, struct err *e);

#endif
