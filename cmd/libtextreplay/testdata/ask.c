/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * Answers questions on its standard input, one a line; lib_test.go compares the answers
 * with those of the Go packages.
 *
 *	ask RECORDING [KCORE]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <textreplay.h>

static textreplay *tr;
static textreplay_cursor *cur;

static void hex(const uint8_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		printf("%02x", p[i]);
}

static void answer(const textreplay_answer *a)
{
	printf(" %s %s %u %" PRIu64 " %" PRIu64 " %" PRIu64, textreplay_standing_name(a->standing),
	       a->reason ? textreplay_reason(a->reason) : "-", a->given, a->since, a->until, a->window_free_until);
}

static int version(void *ctx, const uint8_t *bytes, const textreplay_answer *a)
{
	putchar(' ');
	hex(bytes, *(size_t *)ctx);
	answer(a);
	return 0;
}

static void check(int64_t err)
{
	if (err < 0) {
		printf("error %s: %s\n", textreplay_strerror((int)err), textreplay_errmsg());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	textreplay_options o = TEXTREPLAY_OPTIONS_INIT;
	char line[256], what[16], name[128];
	uint64_t addr, t, until;
	size_t n;

	if (argc > 2)
		o.kcore = argv[2];
	check(textreplay_open(argv[1], &o, &tr));
	check(textreplay_cursor_new(tr, &cur));
	while (fgets(line, sizeof(line), stdin)) {
		textreplay_answer a;
		uint8_t buf[65536];

		if (sscanf(line, "%15s %" SCNx64 " %" SCNu64 " %zu", what, &addr, &t, &n) != 4)
			return 2;
		textreplay_set_time(cur, t);
		if (!strcmp(what, "read") && n <= sizeof(buf)) {
			check(textreplay_read(cur, addr, buf, n, &a));
			hex(buf, n);
			answer(&a);
		} else if (!strcmp(what, "page")) {
			textreplay_page p;
			check(textreplay_read_page(cur, addr, &p));
			hex(p.bytes, n);
			answer(&p.answer);
		} else if (!strcmp(what, "versions")) { /* for n ns from t on, of 8 bytes */
			size_t len = 8;
			until = t + n;
			check(textreplay_versions(tr, addr, len, t, until, version, &len));
		} else if (!strcmp(what, "changes")) { /* of a page, in 1 s times n */
			static textreplay_change c[4096];
			int64_t m = textreplay_changes(tr, addr, addr + 4096, t, t + n * 1000000000, c, 4096);
			check(m);
			for (int64_t i = 0; i < m; i++)
				printf(" %" PRIx64 "+%" PRIu64 "@%" PRIu64 "-%" PRIu64 "/%d/%d", c[i].addr, c[i].len, c[i].time,
				       c[i].until, c[i].standing, c[i].bytes);
		} else if (!strcmp(what, "pages")) { /* that change in n MiB, in 1 s */
			static uint64_t p[65536];
			int64_t m = textreplay_changing_pages(tr, addr, addr + (n << 20), t, t + 1000000000, p, 65536);
			check(m);
			for (int64_t i = 0; i < m; i++)
				printf(" %" PRIx64, p[i]);
		} else if (!strcmp(what, "windows")) {
			static textreplay_window w[4096];
			int64_t m = textreplay_windows(tr, addr, addr + n, t, t + 1000000, w, 4096);
			check(m);
			for (int64_t i = 0; i < m; i++)
				printf(" %" PRIx64 "+%" PRIu64 ":%" PRIu64 "-%" PRIu64 "@%" PRIu64 "/%d", w[i].addr, w[i].len,
				       w[i].from, w[i].until, w[i].change, w[i].kind);
		} else if (!strcmp(what, "alternatives")) {
			textreplay_alternative alt[16];
			int m = textreplay_alternatives(cur, addr, alt, 16);
			check(m);
			for (int i = 0; i < m; i++) {
				printf(" %d:%d:", alt[i].choice, alt[i].effect);
				hex(alt[i].bytes, alt[i].len < n ? alt[i].len : n);
				printf(":%" PRIx64 ":%" PRIx64 ":%" PRIu64 "-%" PRIu64 "@%" PRIu64, alt[i].target, alt[i].next,
				       alt[i].from, alt[i].until, alt[i].change);
			}
		} else if (!strcmp(what, "resume")) { /* of the probe at addr, at the last number */
			int may;
			if (sscanf(line, "%*s %*s %*s %*s %" SCNx64, &until) != 1)
				return 2;
			may = textreplay_probe_may_resume(cur, addr, until);
			check(may);
			printf("%d", may);
		} else if (!strcmp(what, "symbol")) {
			textreplay_symbol s;
			int err = textreplay_symbol_at(cur, addr, &s);
			if (err == TEXTREPLAY_ENOTFOUND)
				printf("none");
			else {
				check(err);
				printf("%s %s %" PRIx64 " %" PRIu64, s.name, *s.module ? s.module : "-", s.addr, s.size);
			}
		} else if (!strcmp(what, "lookup")) {
			textreplay_symbol s[4];
			int64_t m;
			if (sscanf(line, "%*s %*s %*s %*s %127s", name) != 1)
				return 2;
			m = textreplay_lookup(cur, name, s, 4);
			check(m);
			for (int64_t i = 0; i < m && i < 4; i++)
				printf(" %" PRIx64, s[i].addr);
		} else if (!strcmp(what, "disassemble")) {
			char text[128];
			int m = textreplay_disassemble(cur, addr, text, sizeof(text));
			check(m);
			printf("%d %s", m, m ? text : "");
		} else if (!strcmp(what, "spans")) {
			textreplay_span s[256];
			int64_t m = textreplay_spans(cur, addr, n, s, 256);
			check(m);
			for (int64_t i = 0; i < m; i++)
				printf(" %" PRIx64 "+%" PRIu64 "/%d/%d/%d/%" PRIu64 "-%" PRIu64, s[i].addr, s[i].len, s[i].standing,
				       s[i].reason, s[i].source, s[i].since, s[i].until);
		} else if (!strcmp(what, "counter")) { /* of the time t, and the times of it and of the one before */
			uint64_t tsc, then, before;
			check(textreplay_tsc_of_time(tr, t, &tsc));
			check(textreplay_time_of_tsc(tr, tsc, &then));
			check(textreplay_time_of_tsc(tr, tsc - 1, &before));
			printf("%" PRIu64 " %" PRIu64 " %" PRIu64, tsc, before, then);
		} else {
			return 2;
		}
		putchar('\n');
	}
	textreplay_close(tr); /* the cursor keeps it open */
	check(textreplay_read(cur, addr, line, 1, NULL));
	textreplay_cursor_free(cur);
	return 0;
}
