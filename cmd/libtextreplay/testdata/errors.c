/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * What callers get wrong, and what files can be wrong with: every call fails with its
 * error, and none crashes.
 *
 *	errors RECORDING NOT-A-RECORDING
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <textreplay.h>

static int bad;

static void want(const char *what, int64_t got, int64_t wanted)
{
	if (got != wanted) {
		printf("%s: %lld, want %lld (%s)\n", what, (long long)got, (long long)wanted, textreplay_errmsg());
		bad = 1;
	}
}

int main(int argc, char **argv)
{
	textreplay_options o = TEXTREPLAY_OPTIONS_INIT;
	struct {
		textreplay_options o;
		uint64_t later;
	} newer = { TEXTREPLAY_OPTIONS_INIT, 0 };
	textreplay *tr = (void *)1;
	textreplay_cursor *cur, *none = (void *)1;
	textreplay_answer a;
	textreplay_info info;
	textreplay_range range;
	textreplay_symbol s;
	uint64_t t;
	char text[8], path[4096];
	uint8_t b[16];

	if (argc != 3)
		return 2;
	want("no out", textreplay_open(argv[1], NULL, NULL), TEXTREPLAY_EINVAL);
	want("no path", textreplay_open(NULL, NULL, &tr), TEXTREPLAY_EINVAL);
	want("out after failure", tr != NULL, 0);
	want("nowhere", textreplay_open("/nonexistent/perf.data", NULL, &tr), TEXTREPLAY_EIO);
	if (!strstr(textreplay_errmsg(), "/nonexistent/perf.data")) {
		printf("message %s\n", textreplay_errmsg());
		bad = 1;
	}
	want("no recording", textreplay_open(argv[2], NULL, &tr), TEXTREPLAY_EFORMAT);
	o.size = 0;
	want("no size", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EINVAL);
	o.size = sizeof(o);
	o.flags = 1u << 31;
	want("flags", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EINVAL);
	o.flags = TEXTREPLAY_SAVE_INDEX;
	want("no index to save", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EINVAL);
	o.index = "";
	want("no name of an index", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EINVAL);
	o.index = NULL;
	o.flags = 0;
	o.kallsyms = argv[2];
	want("no kallsyms", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EFORMAT);
	o.kallsyms = NULL;
	o.modules = argv[2];
	want("no list of modules", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EFORMAT);
	o.modules = NULL;
	o.vmlinux = argv[2];
	want("no vmlinux", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EFORMAT);
	o.vmlinux = NULL;
	o.reserved = 1;
	want("reserved", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EINVAL);
	o.reserved = 0;
	o.guest = 77;
	want("no such guest", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EINVAL);
	o.guest = 0;
	o.cpus = 4000;
	want("other number of CPUs", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EINVAL);
	o.cpus = 0;
	snprintf(path, sizeof(path), "%s/../../smalldup/rec.data/kcore_dir", argv[1]);
	o.kcore = path;
	want("kcore of another boot", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EINVAL);
	o.kcore = "/nonexistent/kcore_dir";
	want("no kcore", textreplay_open(argv[1], &o, &tr), TEXTREPLAY_EIO);
	o.kcore = NULL;
	newer.o.size = sizeof(newer);
	newer.later = 1;
	want("newer option", textreplay_open(argv[1], &newer.o, &tr), TEXTREPLAY_EINVAL);
	newer.later = 0;
	want("newer header", textreplay_open(argv[1], &newer.o, &tr), 0);
	textreplay_close(tr);
	textreplay_close(NULL);
	textreplay_cursor_free(NULL);

	want("open", textreplay_open(argv[1], NULL, &tr), 0);
	want("cursor", textreplay_cursor_new(tr, &cur), 0);
	want("cursor of none", textreplay_cursor_new(NULL, &none), TEXTREPLAY_EINVAL);
	want("no cursor", none != NULL, 0);
	want("info", textreplay_get_info(tr, &info), 0);
	want("info nowhere", textreplay_get_info(tr, NULL), TEXTREPLAY_EINVAL);
	want("check", textreplay_check(tr), 0);
	want("read of none", textreplay_read(NULL, 0, b, 1, &a), TEXTREPLAY_EINVAL);
	want("read nowhere", textreplay_read(cur, 0, NULL, 1, &a), TEXTREPLAY_EINVAL);
	want("read nothing", textreplay_read(cur, 0, NULL, 0, &a), 0);
	want("huge", textreplay_read(cur, 0, b, (size_t)1 << 40, &a), TEXTREPLAY_EINVAL);
	want("unmapped", textreplay_read(cur, 0x1000, b, 16, &a), 0);
	want("unmapped standing", a.standing, TEXTREPLAY_UNMAPPED);
	want("end of the address space", textreplay_read(cur, UINT64_MAX - 3, b, 16, &a), 0);
	want("no symbol", textreplay_symbol_at(cur, 0x1000, &s), TEXTREPLAY_ENOTFOUND);
	want("no name", textreplay_lookup(cur, NULL, &s, 1), TEXTREPLAY_EINVAL);
	want("unknown name", textreplay_lookup(cur, "no such symbol", &s, 1), 0);
	want("no array", textreplay_spans(cur, 0, 1, NULL, 1), TEXTREPLAY_EINVAL);
	want("counting", textreplay_spans(cur, 0, 1, NULL, 0), 1);
	want("empty range", textreplay_changes(tr, 5, 5, 0, TEXTREPLAY_FOREVER, NULL, 0), 0);
	want("backwards", textreplay_changes(tr, 9, 5, 7, 3, NULL, 0), 0);
	want("versions of much", textreplay_versions(tr, 0, (size_t)1 << 30, 0, 1, NULL, NULL), TEXTREPLAY_EINVAL);
	want("ranges", textreplay_ranges(tr, &range, 1) > 0, 1);
	if (!strcmp(info.clock, "perf")) {
		want("tsc", textreplay_tsc_of_time(tr, info.first, &t), 0);
		want("set tsc", textreplay_set_tsc(cur, t), 0);
		want("there and back", textreplay_get_time(cur) >= info.first && textreplay_get_time(cur) < info.first + 10, 1);
		/* The last counter value before the one of time 0 has the greatest time. */
		want("tsc of 0", textreplay_tsc_of_time(tr, 0, &t), 0);
		want("set tsc of 0", textreplay_set_tsc(cur, t), 0);
		want("time 0", textreplay_get_time(cur), 0);
		want("before the clock's zero", textreplay_time_of_tsc(tr, t - 1, &t), TEXTREPLAY_ECLOCK);
		want("set tsc before it", textreplay_set_tsc(cur, t - 1), TEXTREPLAY_ECLOCK);
		want("time stays", textreplay_get_time(cur), 0);
		textreplay_set_time(cur, TEXTREPLAY_FOREVER);
		want("before forever", textreplay_get_time(cur) == TEXTREPLAY_FOREVER - 1, 1);
	} else {
		memset(text, 1, sizeof(text));
		textreplay_set_time(cur, 9000000000); /* sysctl_schedstats+0x41 of testdata/small */
		want("short text", textreplay_disassemble(cur, 0xffffffffaecdbcb1, text, sizeof(text)), 5);
		want("text ends", memchr(text, 0, sizeof(text)) == NULL, 0);
		want("tsc", textreplay_time_of_tsc(tr, 1, &t), TEXTREPLAY_ECLOCK);
		want("set tsc", textreplay_set_tsc(cur, 1), TEXTREPLAY_ECLOCK);
	}
	want("strerror", !*textreplay_strerror(-1000), 0);
	want("standing", *textreplay_standing_name(1000), 0);
	want("reason", *textreplay_reason(-1), 0);
	want("version", textreplay_version(), TEXTREPLAY_VERSION);
	textreplay_cursor_free(cur);
	textreplay_close(tr);
	return bad;
}
