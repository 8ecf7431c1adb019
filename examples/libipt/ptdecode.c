/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * ptdecode: decodes Intel PT traces of kernel code, one file for each CPU, over the text of
 * a recording as of the traces' own time.
 *
 *	ptdecode [-b] [-o FILE] [-p | -n] [-q] perf.data TRACE...
 *
 *	-b       libipt's block decoder; else its instruction decoder
 *	-o FILE  write each instruction: 8 bytes of address, 1 of length, 15 of bytes
 *	-p       plain libipt over perf's copy of kernel text (kcore_dir), to compare with
 *	-n       take no alternatives inside of windows, to compare with
 *
 * It prints one line for each trace: instructions, errors, and what the adapter did.
 */
#include "textreplay_ipt.h"

#include <elf.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static FILE *out;

static void put(uint64_t ip, const uint8_t *bytes, uint8_t n)
{
	uint8_t rec[24] = { 0 };

	if (!out)
		return;
	memcpy(rec, &ip, 8);
	rec[8] = n;
	memcpy(rec + 9, bytes, n);
	if (fwrite(rec, sizeof(rec), 1, out) != 1)
		err(1, "write");
}

static void *map_file(const char *path, size_t *size)
{
	struct stat st;
	void *p;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st))
		err(1, "%s", path);
	*size = (size_t)st.st_size;
	p = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		err(1, "%s", path);
	close(fd);
	return p;
}

/* --- the instructions of a block -------------------------------------------------- */

/* A decoder of a tiny trace of its own says how long an instruction is, and where it leads:
 * libipt does not export its instruction decoder. */
struct one {
	struct pt_insn_decoder *dec;
	const uint8_t *bytes;
	size_t n;
	uint64_t ip;
};

static int one_read(uint8_t *buf, size_t size, const struct pt_asid *asid, uint64_t ip, void *ctx)
{
	struct one *o = ctx;

	(void)asid;
	if (ip != o->ip)
		return -pte_nomap;
	if (size > o->n)
		size = o->n;
	memcpy(buf, o->bytes, size);
	return (int)size;
}

/* Decodes one instruction. Its trace is a PSB at ip and nothing else. */
static int one_insn(uint64_t ip, const uint8_t *bytes, size_t n, struct pt_insn *in)
{
	static uint8_t trace[64];
	static struct one o;
	static struct pt_config c;
	static uint64_t tail;
	int s;

	if (!o.dec) {
		/* PSB, MODE.Exec of 64-bit code, FUP with all 8 bytes, PSBEND. */
		static const uint8_t head[] = { 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 0x99, 1, 0xdd };
		memcpy(trace, head, sizeof(head));
		tail = sizeof(head);
		trace[tail + 8] = 0x02;
		trace[tail + 9] = 0x23;
		pt_config_init(&c);
		c.begin = trace;
		c.end = trace + tail + 10;
		o.dec = pt_insn_alloc_decoder(&c);
		pt_image_set_callback(pt_insn_get_image(o.dec), one_read, &o);
	}
	o.bytes = bytes;
	o.n = n;
	o.ip = ip;
	memcpy(trace + tail, &ip, 8);
	s = pt_insn_sync_set(o.dec, 0);
	while (s >= 0 && s & pts_event_pending) {
		struct pt_event ev;
		s = pt_insn_event(o.dec, &ev, sizeof(ev));
	}
	memset(in, 0, sizeof(*in));
	if (s >= 0)
		pt_insn_next(o.dec, in, sizeof(*in));
	return in->size;
}

/* Where a direct branch leads; 0: it is none. */
static uint64_t branch(const struct pt_insn *in)
{
	int32_t d;

	if (in->iclass == ptic_jump || in->iclass == ptic_call || in->iclass == ptic_cond_jump) {
		const uint8_t *b = in->raw;
		int i = 0;
		while (i + 1 < in->size && (b[i] == 0x66 || b[i] == 0xf2 || b[i] == 0xf3 || b[i] == 0x2e || b[i] == 0x3e || (b[i] & 0xf0) == 0x40))
			i++;
		if (b[i] == 0xeb || (b[i] & 0xf0) == 0x70 || (b[i] & 0xfc) == 0xe0)
			return in->ip + in->size + (uint64_t)(int64_t)(int8_t)b[in->size - 1];
		if (b[i] == 0xe8 || b[i] == 0xe9 || b[i] == 0x0f) {
			memcpy(&d, b + in->size - 4, 4);
			return in->ip + in->size + (uint64_t)(int64_t)d;
		}
	}
	return 0;
}

static uint64_t put_block(struct ipt *d, const struct ipt_item *it)
{
	const struct pt_block *b = &it->u.block;
	uint64_t ip = b->ip, n = 0;
	struct pt_insn in;
	uint8_t raw[15];

	for (; n < b->ninsn; n++) {
		int size = ipt_read(d, it, ip, raw);
		if (!one_insn(ip, raw, (size_t)size, &in))
			break;
		put(ip, in.raw, in.size);
		if (ip == b->end_ip && n + 1 == b->ninsn)
			continue;
		/* Inside of a block only direct branches are taken. */
		if (in.iclass == ptic_jump || in.iclass == ptic_call)
			ip = branch(&in);
		else
			ip += in.size;
	}
	return n;
}

/* --- plain libipt ------------------------------------------------------------------ */

static struct pt_image *kcore_image(const char *rec)
{
	struct pt_image *im = pt_image_alloc("kcore");
	char path[4096];
	size_t size;
	const uint8_t *p;
	const Elf64_Ehdr *e;
	const Elf64_Phdr *ph;

	snprintf(path, sizeof(path), "%s/kcore_dir/kcore", rec);
	p = map_file(path, &size);
	e = (const void *)p;
	ph = (const void *)(p + e->e_phoff);
	for (int i = 0; i < e->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && ph[i].p_filesz && pt_image_add_file(im, path, ph[i].p_offset, ph[i].p_filesz, NULL, ph[i].p_vaddr) < 0)
			errx(1, "%s: cannot be added", path);
	return im;
}

/* A loop of direct branches takes no packet, so over wrong text a decoder can be in one for ever.
 * No code runs that many instructions without one: a timer interrupts it. */
#define ENDLESS (10 * 1000 * 1000)

static void plain(const char *rec, const char *trace, struct pt_config *c)
{
	struct pt_insn_decoder *d = pt_insn_alloc_decoder(c);
	uint64_t n = 0, errors = 0, at = 0, before = 0, since = 0;
	int s;

	pt_insn_set_image(d, kcore_image(rec));
	for (s = pt_insn_sync_forward(d); s >= 0; s = pt_insn_sync_forward(d)) {
		for (;;) {
			struct pt_insn in;
			struct pt_event ev;
			while (s >= 0 && s & pts_event_pending)
				s = pt_insn_event(d, &ev, sizeof(ev));
			if (s < 0 || s & pts_eos)
				break;
			in.iclass = ptic_error;
			s = pt_insn_next(d, &in, sizeof(in));
			if (in.iclass != ptic_error) {
				put(in.ip, in.raw, in.size);
				n++;
			}
			if (s < 0)
				break;
			if (pt_insn_get_offset(d, &at) >= 0 && at != before) {
				before = at;
				since = n;
			} else if (n - since > ENDLESS) {
				s = -pte_bad_query;
				since = n;
				break;
			}
		}
		if (s >= 0 || s == -pte_eos)
			break;
		errors++;
	}
	printf("%s: %llu instructions, %llu errors (plain copy)\n", trace, (unsigned long long)n, (unsigned long long)errors);
	pt_insn_free_decoder(d);
}

int main(int argc, char **argv)
{
	struct ipt_options o = { 0 };
	enum ipt_mode mode = IPT_INSNS;
	int opt, copy = 0;
	textreplay *tr = NULL;
	const char *rec;

	while ((opt = getopt(argc, argv, "bo:pn")) != -1) {
		switch (opt) {
		case 'b':
			mode = IPT_BLOCKS;
			break;
		case 'o':
			out = fopen(optarg, "w");
			if (!out)
				err(1, "%s", optarg);
			break;
		case 'p':
			copy = 1;
			break;
		case 'n':
			o.no_traps = 1;
			break;
		default:
			return 2;
		}
	}
	if (argc - optind < 2)
		errx(2, "usage: ptdecode [-b] [-o FILE] [-p | -n] perf.data TRACE...");
	rec = argv[optind];
	if (!copy && textreplay_open(rec, NULL, &tr))
		errx(1, "%s", textreplay_errmsg());
	for (int i = optind + 1; i < argc; i++) {
		struct pt_config c;
		struct ipt_stats st;
		struct ipt_item it;
		struct ipt *d;
		uint64_t n = 0, errors = 0;
		size_t size;
		int s;

		pt_config_init(&c);
		c.begin = map_file(argv[i], &size);
		c.end = c.begin + size;
		if (copy) {
			plain(rec, argv[i], &c);
			continue;
		}
		d = ipt_new(tr, &c, mode, &o);
		if (!d)
			return 1;
		while ((s = ipt_next(d, &it)) != 0) {
			if (s < 0) {
				errors++;
				fprintf(stderr, "%s: %s near tsc %llu\n", argv[i], pt_errstr(pt_errcode(it.error)), (unsigned long long)it.tsc);
			} else if (it.kind == IPT_BLOCK) {
				n += out ? put_block(d, &it) : it.u.block.ninsn;
			} else if (it.kind == IPT_INSN) {
				put(it.u.insn.ip, it.u.insn.raw, it.u.insn.size);
				n++;
			}
		}
		ipt_get_stats(d, &st);
		printf("%s: %llu instructions, %llu errors, %llu traps, %llu unresolved; %llu choices, %llu replays, %llu epochs, %llu regions, %llu sections, %llu switches, %llu callbacks\n",
		       argv[i], (unsigned long long)n, (unsigned long long)errors, (unsigned long long)st.traps,
		       (unsigned long long)st.unresolved, (unsigned long long)st.visits, (unsigned long long)st.replays,
		       (unsigned long long)st.epochs, (unsigned long long)st.regions, (unsigned long long)st.sections,
		       (unsigned long long)st.switches, (unsigned long long)st.callbacks);
		ipt_free(d);
		munmap(c.begin, size);
	}
	if (out && fclose(out))
		err(1, "write");
	textreplay_close(tr);
	return 0;
}
