/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * ptbench: how much longer a trace takes to decode through the adapter than with a file
 * section of libipt, in CPU time. The two run in turn, and the least of each counts: other
 * programs on the machine only make a run longer.
 *
 *	ptbench perf.data TRACE TEXT ADDR [BOUND]
 *
 * TEXT is a file with the text at ADDR (hexadecimal), for plain libipt. The recording's
 * changes must not matter to the path. Prints one line for each of libipt's decoders, and
 * exits with 1 if the two did not decode the same number of instructions.
 *
 * With a BOUND, the two run five times each, and more often, up to 40 times, while their
 * ratio is above it. If it still is, ptbench exits with 1.
 */
#include "textreplay_ipt.h"

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { least_runs = 5, most_runs = 40 };

static double cpu_time(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static uint64_t plain_blocks(struct pt_config *c, struct pt_image *im)
{
	struct pt_block_decoder *d = pt_blk_alloc_decoder(c);
	struct pt_block b;
	struct pt_event ev;
	uint64_t n = 0;
	int s;

	pt_blk_set_image(d, im);
	for (s = pt_blk_sync_forward(d); s >= 0;) {
		while (s >= 0 && s & pts_event_pending)
			s = pt_blk_event(d, &ev, sizeof(ev));
		if (s < 0 || s & pts_eos)
			break;
		s = pt_blk_next(d, &b, sizeof(b));
		n += b.ninsn;
	}
	pt_blk_free_decoder(d);
	return n;
}

static uint64_t plain_insns(struct pt_config *c, struct pt_image *im)
{
	struct pt_insn_decoder *d = pt_insn_alloc_decoder(c);
	struct pt_insn in;
	struct pt_event ev;
	uint64_t n = 0;
	int s;

	pt_insn_set_image(d, im);
	for (s = pt_insn_sync_forward(d); s >= 0;) {
		while (s >= 0 && s & pts_event_pending)
			s = pt_insn_event(d, &ev, sizeof(ev));
		if (s < 0 || s & pts_eos)
			break;
		in.iclass = ptic_error;
		s = pt_insn_next(d, &in, sizeof(in));
		n += in.iclass != ptic_error;
	}
	pt_insn_free_decoder(d);
	return n;
}

static uint64_t adapted(textreplay *tr, struct pt_config *c, enum ipt_mode mode, struct ipt_stats *st)
{
	struct ipt *d = ipt_new(tr, c, mode, NULL);
	struct ipt_item it;
	uint64_t n = 0;
	int s;

	if (!d)
		exit(1);
	while ((s = ipt_next(d, &it)) > 0)
		if (it.kind == IPT_BLOCK)
			n += it.u.block.ninsn;
		else if (it.kind == IPT_INSN)
			n++;
	if (s < 0)
		errx(1, "adapter: %s", pt_errstr(pt_errcode(it.error)));
	ipt_get_stats(d, st);
	ipt_free(d);
	return n;
}

int main(int argc, char **argv)
{
	struct pt_config c;
	struct stat st, text;
	textreplay *tr;
	double bound = 0;
	int fd, bad = 0;

	if (argc == 6)
		bound = strtod(argv[5], NULL);
	else if (argc != 5)
		errx(2, "usage: ptbench perf.data TRACE TEXT ADDR [BOUND]");
	if (textreplay_open(argv[1], NULL, &tr))
		errx(1, "%s", textreplay_errmsg());
	fd = open(argv[2], O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		err(1, "%s", argv[2]);
	if (stat(argv[3], &text))
		err(1, "%s", argv[3]);
	pt_config_init(&c);
	c.begin = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
	c.end = c.begin + st.st_size;
	for (int mode = IPT_BLOCKS; mode <= IPT_INSNS; mode++) {
		double best[2] = { 1e9, 1e9 };
		uint64_t n[2] = { 0, 0 };
		struct ipt_stats s = { 0 };

		int i;

		for (i = 0; i < (bound ? most_runs : 1) && (i < least_runs || best[1] > bound * best[0]); i++) {
			struct pt_image_section_cache *cache = pt_iscache_alloc(NULL);
			struct pt_image *im = pt_image_alloc(NULL);
			double t = cpu_time();
			int isid = pt_iscache_add_file(cache, argv[3], 0, (uint64_t)text.st_size, strtoull(argv[4], NULL, 16));

			if (isid < 0 || pt_image_add_cached(im, cache, isid, NULL) < 0)
				errx(1, "%s", argv[3]);
			n[0] = mode == IPT_BLOCKS ? plain_blocks(&c, im) : plain_insns(&c, im);
			pt_image_free(im);
			pt_iscache_free(cache);
			t = cpu_time() - t;
			if (t < best[0])
				best[0] = t;
			t = cpu_time();
			n[1] = adapted(tr, &c, mode, &s);
			t = cpu_time() - t;
			if (t < best[1])
				best[1] = t;
		}
		printf("%s: %llu instructions, file section %.2f ns each, adapter %.2f ns, ratio %.3f of %d runs (%llu regions, %llu sections, %llu switches, %llu callbacks)\n",
		       mode == IPT_BLOCKS ? "pt_blk" : "pt_insn", (unsigned long long)n[1], 1e9 * best[0] / (double)n[0],
		       1e9 * best[1] / (double)n[1], best[1] / best[0], i, (unsigned long long)s.regions,
		       (unsigned long long)s.sections, (unsigned long long)s.switches, (unsigned long long)s.callbacks);
		if (n[0] != n[1]) {
			printf("plain libipt: %llu\n", (unsigned long long)n[0]);
			bad = 1;
		}
		if (bound && best[1] > bound * best[0]) {
			printf("the ratio is above %.2f\n", bound);
			bad = 1;
		}
	}
	textreplay_close(tr);
	return bad;
}
