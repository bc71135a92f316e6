/*
 * tensorboard.c - event files
 *
 * A file is a sequence of records: length (u64), masked CRC-32C of the length, an Event message,
 * masked CRC of the message, all little-endian. Field numbers are those of tensorflow's
 * event.proto, summary.proto and tensor.proto: Event wall_time 1, step 2, file_version 3, summary
 * 5; Summary value 1; Value tag 1, simple_value 2, tensor 8, metadata 9; SummaryMetadata
 * plugin_data 1; PluginData plugin_name 1; TensorProto dtype 1, tensor_shape 2, string_val 8.
 */
#include "lib/base/clock.h"
#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"
#include "lib/base/str.h"
#include "train/report/protobuf.h"
#include "train/report/tensorboard.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tensorboard {
	FILE *f;
	char path[1400];
	/* messages under construction, kept for their memory */
	struct str value, summary, event;
	int lost; /* errno of the first failed write */
};

/* A CRC over bytes that hold CRCs themselves is weak, hence the mask. Source: tensorflow
 * core/lib/hash/crc32c.h. */
static uint32_t
masked_crc(const char *bytes, size_t len)
{
	uint32_t crc = hash_crc32c(bytes, len);

	return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Starts t->event with the time, a double by its bytes, and the step. All events use the same
 * memory. */
static void
begin_event(struct tensorboard *t, int64_t step)
{
	double now = clock_unix();
	uint64_t bits;

	memcpy(&bits, &now, sizeof bits);
	str_clear(&t->event);
	protobuf_key(&t->event, 1, PROTOBUF_FIXED64);
	protobuf_fixed(&t->event, bits, sizeof bits);
	protobuf_int(&t->event, 2, step);
}

/* Writes t->event as one record. The first failure is kept, since later ones follow from it;
 * tensorboard_flush reports it. */
static void
write_event(struct tensorboard *t)
{
	struct str record = { 0 };

	protobuf_fixed(&record, t->event.len, 8);
	protobuf_fixed(&record, masked_crc(record.buf, 8), 4);
	str_add(&record, t->event.buf, t->event.len);
	protobuf_fixed(&record, masked_crc(t->event.buf, t->event.len), 4);
	if (fwrite(record.buf, 1, record.len, t->f) != record.len && !t->lost)
		t->lost = errno;
	str_release(&record);
}

/* Time, host and process make the name new, so a resumed run adds a file and never touches an
 * old one; "x" refuses to write over one. The version record has to be first. NULL with a reason
 * on failure. */
struct tensorboard *
tensorboard_open(const char *dir, struct err *e)
{
	struct tensorboard *t = mem_zalloc(1, sizeof *t);
	static const char version[] = "brain.Event:2";
	char host[256] = "localhost";
	int n;

	gethostname(host, sizeof host - 1);
	n = snprintf(t->path, sizeof t->path, "%s/events.out.tfevents.%lld.%s.%ld.v2", dir,
	    (long long)clock_unix(), host, (long)getpid());
	if (n >= (int)sizeof t->path) {
		err_set(e, "cannot create '%s': the name is too long", dir);
	} else if (io_mkdir_p(dir, e) == 0) {
		t->f = fopen(t->path, "wbx");
		if (!t->f)
			err_sys(e, "create", t->path);
	}
	if (!t->f) {
		free(t);
		return NULL;
	}
	begin_event(t, 0);
	protobuf_bytes(&t->event, 3, version, sizeof version - 1);
	write_event(t);
	return t;
}

/* Writes t->value as the one value of an event. */
static void
write_value(struct tensorboard *t, int64_t step)
{
	str_clear(&t->summary);
	protobuf_bytes(&t->summary, 1, t->value.buf, t->value.len);
	begin_event(t, step);
	protobuf_bytes(&t->event, 5, t->summary.buf, t->summary.len);
	write_event(t);
}

/* Buffered; a failure shows in tensorboard_flush or _close. The format holds a float, to which the
 * value is rounded. */
void
tensorboard_scalar(struct tensorboard *t, const char *tag, int64_t step, double value)
{
	float rounded = (float)value;
	uint32_t bits;

	memcpy(&bits, &rounded, sizeof bits);
	str_clear(&t->value);
	protobuf_string(&t->value, 1, tag);
	protobuf_key(&t->value, 2, PROTOBUF_FIXED32);
	protobuf_fixed(&t->value, bits, sizeof bits);
	write_value(t, step);
}

/* A tensor of one string for the plugin "text", under the tag that PyTorch's add_text makes. */
void
tensorboard_text(struct tensorboard *t, const char *name, int64_t step, const char *text)
{
	/* SummaryMetadata { plugin_data { plugin_name "text" } } */
	static const char metadata[] = "\x0a\x06\x0a\x04text";
	/* TensorProto { dtype DT_STRING, tensor_shape { dim { size 1 } }, and string_val follows */
	static const char head[] = "\x08\x07\x12\x04\x12\x02\x08\x01";
	struct str tensor = { 0 };

	str_add(&tensor, head, sizeof head - 1);
	protobuf_string(&tensor, 8, text);
	str_clear(&t->value);
	protobuf_key(&t->value, 1, PROTOBUF_BYTES);
	protobuf_varint(&t->value, strlen(name) + strlen("/text_summary"));
	str_addf(&t->value, "%s/text_summary", name);
	protobuf_bytes(&t->value, 9, metadata, sizeof metadata - 1);
	protobuf_bytes(&t->value, 8, tensor.buf, tensor.len);
	write_value(t, step);
	str_release(&tensor);
}

/* -1 with the reason of the first write that was lost, at every call from then on. */
int
tensorboard_flush(struct tensorboard *t, struct err *e)
{
	if (fflush(t->f) != 0 && !t->lost)
		t->lost = errno;
	if (!t->lost)
		return 0;
	errno = t->lost;
	return err_sys(e, "write", t->path);
}

/* Frees in any case; -1 when something written was lost. NULL is closed already. */
int
tensorboard_close(struct tensorboard *t, struct err *e)
{
	int rc;

	if (!t)
		return 0;
	rc = tensorboard_flush(t, e);
	if (fclose(t->f) != 0 && rc == 0)
		rc = err_sys(e, "write", t->path);
	str_release(&t->value);
	str_release(&t->summary);
	str_release(&t->event);
	free(t);
	return rc;
}
