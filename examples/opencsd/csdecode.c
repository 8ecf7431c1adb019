/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * csdecode: decodes ETMv4 traces of kernel code, one file for each CPU (one trace source, not
 * formatted), with OpenCSD over the text of a recording as of the traces' own timestamps.
 *
 *	csdecode [-n] [-1 | -p] [-o FILE] perf.data TRACE...
 *
 *	-n       timestamps are nanoseconds of the recording's clock; else counter values
 *	-o FILE  write each instruction: 8 bytes of address, 4 of instruction
 *	-1       take the first value of a word that changes, to compare with
 *	-p       over perf's copy of kernel text (kcore_dir), to compare with
 *
 * It prints one line for each trace: instructions, errors, and what the adapter did.
 */
#include "textreplay_ocsd.h"

#include <elf.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static FILE *out;
static const char *name;

static void put(void *ctx, uint64_t addr, uint32_t insn)
{
	uint8_t rec[12];

	(void)ctx;
	if (!out)
		return;
	memcpy(rec, &addr, 8);
	memcpy(rec + 8, &insn, 4);
	if (fwrite(rec, sizeof(rec), 1, out) != 1)
		err(1, "write");
}

static void report(void *ctx, uint64_t offset, const char *what)
{
	(void)ctx;
	fprintf(stderr, "%s: at %llu: %s\n", name, (unsigned long long)offset, what);
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

/* Text of perf's copy. */
struct copy {
	const uint8_t *elf;
	size_t size;
};

static uint32_t read_copy(void *ctx, uint64_t addr, void *buf, uint32_t len)
{
	const struct copy *c = ctx;
	const Elf64_Ehdr *e = (const void *)c->elf;
	const Elf64_Phdr *ph = (const void *)(c->elf + e->e_phoff);

	for (int i = 0; i < e->e_phnum; i++) {
		uint64_t at = addr - ph[i].p_vaddr;
		if (ph[i].p_type != PT_LOAD || addr < ph[i].p_vaddr || at >= ph[i].p_filesz)
			continue;
		if (len > ph[i].p_filesz - at)
			len = (uint32_t)(ph[i].p_filesz - at);
		memcpy(buf, c->elf + ph[i].p_offset + at, len);
		return len;
	}
	return 0;
}

int main(int argc, char **argv)
{
	/* The trace unit's registers; perf has them in AUXTRACE_INFO. 64-bit timestamps, no
	 * speculation, no return stack. */
	const ocsd_etmv4_cfg cfg = { .reg_idr0 = 0x28000ea1, .reg_idr1 = 0x4100f403, .reg_idr2 = 0x488, .reg_configr = 0x801,
				     .reg_traceidr = 0x10, .arch_ver = ARCH_AA64, .core_prof = profile_CortexA };
	struct etm_options o = { 0 };
	textreplay *tr = NULL;
	struct copy copy;
	char path[4096];
	int opt;

	while ((opt = getopt(argc, argv, "n1po:")) != -1) {
		switch (opt) {
		case 'n':
			o.ns = 1;
			break;
		case '1':
			o.no_alternatives = 1;
			break;
		case 'p':
			o.text = read_copy;
			o.text_ctx = &copy;
			break;
		case 'o':
			out = fopen(optarg, "w");
			if (!out)
				err(1, "%s", optarg);
			break;
		default:
			return 2;
		}
	}
	if (argc - optind < 2)
		errx(2, "usage: csdecode [-n] [-1 | -p] [-o FILE] perf.data TRACE...");
	if (o.text) {
		snprintf(path, sizeof(path), "%s/kcore_dir/kcore", argv[optind]);
		copy.elf = map_file(path, &copy.size);
	} else if (textreplay_open(argv[optind], NULL, &tr)) {
		errx(1, "%s", textreplay_errmsg());
	}
	for (int i = optind + 1; i < argc; i++) {
		struct etm_stats st;
		size_t size;
		uint8_t *trace;

		name = argv[i];
		trace = map_file(name, &size);
		if (etm_decode(tr, &cfg, &o, trace, size, put, report, NULL, &st))
			errx(1, "%s: cannot be decoded", name);
		printf("%s: %llu instructions, %llu errors, %llu traps, %llu gaps; %llu choices, %llu replays, %llu splits, %llu reads, %llu flushes\n",
		       name, (unsigned long long)st.insns, (unsigned long long)st.errors, (unsigned long long)st.traps,
		       (unsigned long long)st.gaps, (unsigned long long)st.choices, (unsigned long long)st.replays, (unsigned long long)st.splits,
		       (unsigned long long)st.reads, (unsigned long long)st.flushes);
		munmap(trace, size);
	}
	if (out && fclose(out))
		err(1, "write");
	textreplay_close(tr);
	return 0;
}
