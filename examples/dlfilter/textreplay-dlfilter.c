/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * A filter for perf script (perf 5.14 and newer) that filters nothing: below each sample in
 * the kernel it prints the instruction as of the sample's own time.
 *
 *	perf script --dlfilter ./textreplay-dlfilter.so --dlarg perf.data -F time,ip,sym
 *
 *	<perf's line>
 *	    ffffffffaecdbcb1 sysctl_schedstats+0x41: 0f 1f 44 00 00  nopl 0x0(%rax,%rax,1)
 *
 * An instruction whose bytes are not known has its standing and the reason behind it, and one
 * in whose place a CPU may have met a trap says "may trap". Arguments (--dlarg): the
 * recording, which perf does not say; then
 *
 *	known    only samples whose bytes are known; perf prints no others
 *	trap     only samples in a window
 */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <textreplay.h>

/* perf's interface, as perf-dlfilter(1) documents it: of the structs only what comes before
 * and with what is used here. perf appends to them. */
struct perf_dlfilter_sample {
	uint32_t size;
	uint16_t ins_lat;
	uint16_t p_stage_cyc;
	uint64_t ip;
	int32_t pid;
	int32_t tid;
	uint64_t time;
	uint64_t addr;
	uint64_t id;
	uint64_t stream_id;
	uint64_t period;
	uint64_t weight;
	uint64_t transaction;
	uint64_t insn_cnt;
	uint64_t cyc_cnt;
	int32_t cpu;
	uint32_t flags;
	uint64_t data_src;
	uint64_t phys_addr;
	uint64_t data_page_size;
	uint64_t code_page_size;
	uint64_t cgroup;
	uint8_t cpumode; /* PERF_RECORD_MISC_KERNEL is 1 */
};

struct perf_dlfilter_fns {
	const void *(*resolve_ip)(void *ctx);
	const void *(*resolve_addr)(void *ctx);
	char **(*args)(void *ctx, int *dlargc);
	void *others[125];
};

/* perf finds these by name, and sets the functions. */
struct perf_dlfilter_fns perf_dlfilter_fns;
int start(void **data, void *ctx);
int filter_event(void *data, const struct perf_dlfilter_sample *sample, void *ctx);
int stop(void *data, void *ctx);
const char *filter_description(const char **long_description);

struct filter {
	textreplay *tr;
	textreplay_cursor *cur;
	int known, trap;
	char line[1024]; /* of the last sample: perf prints its own first */
};

int start(void **data, void *ctx)
{
	struct filter *f = calloc(1, sizeof(*f));
	int argc = 0;
	char **argv = perf_dlfilter_fns.args(ctx, &argc);
	const char *path = argc > 0 ? argv[0] : "perf.data";

	if (!f)
		return -ENOMEM;
	*data = f;
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "known")) {
			f->known = 1;
		} else if (!strcmp(argv[i], "trap")) {
			f->trap = 1;
		} else {
			fprintf(stderr, "textreplay: unknown argument %s\n", argv[i]);
			return -EINVAL;
		}
	}
	if (textreplay_open(path, NULL, &f->tr) || textreplay_cursor_new(f->tr, &f->cur)) {
		fprintf(stderr, "textreplay: %s: %s\n", path, textreplay_errmsg());
		return -EIO;
	}
	return 0;
}

static void flush(struct filter *f)
{
	fputs(f->line, stdout);
	f->line[0] = 0;
}

int filter_event(void *data, const struct perf_dlfilter_sample *sample, void *ctx)
{
	struct filter *f = data;
	uint8_t insn[16];
	char text[128] = "", *p, *end;
	textreplay_answer a = { 0 };
	textreplay_symbol s;
	int n;

	(void)ctx;
	flush(f);
	if ((sample->cpumode & 7) != 1)
		return f->known || f->trap;
	textreplay_set_time(f->cur, sample->time);
	n = textreplay_disassemble(f->cur, sample->ip, text, sizeof(text));
	if (n <= 0) { /* no bytes, or no disassembler */
		n = n == TEXTREPLAY_EARCH ? 4 : 1;
		text[0] = 0;
	}
	if (textreplay_read(f->cur, sample->ip, insn, (size_t)n, &a) < 0) {
		fprintf(stderr, "textreplay: %s\n", textreplay_errmsg());
		return -EIO;
	}
	if ((f->known && a.standing != TEXTREPLAY_KNOWN) || (f->trap && a.window_free_until))
		return 1;
	p = f->line;
	end = p + sizeof(f->line);
	p += snprintf(p, (size_t)(end - p), "    %016" PRIx64, sample->ip);
	if (!textreplay_symbol_at(f->cur, sample->ip, &s)) {
		p += snprintf(p, (size_t)(end - p), " %s+0x%" PRIx64, s.name, sample->ip - s.addr);
		if (*s.module)
			p += snprintf(p, (size_t)(end - p), " [%s]", s.module);
	}
	p += snprintf(p, (size_t)(end - p), ":");
	for (uint32_t i = 0; i < a.given && i < (uint32_t)n; i++)
		p += snprintf(p, (size_t)(end - p), " %02x", insn[i]);
	if (*text)
		p += snprintf(p, (size_t)(end - p), "  %s", text);
	if (a.standing != TEXTREPLAY_KNOWN)
		p += snprintf(p, (size_t)(end - p), "  %s%s%s%s", textreplay_standing_name(a.standing),
			      a.reason ? " (" : "", textreplay_reason(a.reason), a.reason ? ")" : "");
	if (!a.window_free_until)
		p += snprintf(p, (size_t)(end - p), "  may trap");
	snprintf(p, (size_t)(end - p), "\n");
	return 0;
}

int stop(void *data, void *ctx)
{
	struct filter *f = data;

	(void)ctx;
	if (!f)
		return 0;
	flush(f);
	textreplay_cursor_free(f->cur);
	textreplay_close(f->tr);
	free(f);
	return 0;
}

const char *filter_description(const char **long_description)
{
	*long_description = "Prints below each sample in the kernel its instruction as of its own time.\n"
			    "--dlarg RECORDING [--dlarg known] [--dlarg trap]";
	return "kernel instructions as of each sample's time";
}
