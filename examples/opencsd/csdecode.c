/* Copyright 2026 The textreplay Authors
 * SPDX-License-Identifier: Apache-2.0
 *
 * csdecode: decodes an ETMv4 trace of kernel code (one trace source, not formatted) with
 * OpenCSD, over the text of a recording as of the trace's own timestamps.
 *
 *	csdecode [-n] [-1] [-o FILE] perf.data TRACE
 *
 *	-n       timestamps are nanoseconds of the recording's clock; else counter values
 *	-o FILE  write each instruction: 8 bytes of address, 4 of instruction
 *	-1       text as of the first timestamp, to compare with
 *
 * OpenCSD reads memory in blocks and keeps them. It must forget them at the end of their
 * validity. 1.5 has a call for that (ocsd_dt_set_mem_acc_cacheing turns the cache off);
 * before, an accessor that is removed and added again has an empty one.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <opencsd/c_api/opencsd_c_api.h>
#include <textreplay.h>

struct decoder {
	textreplay *tr;
	textreplay_cursor *cur;
	dcd_tree_handle_t tree;
	uint64_t lo, hi;       /* addresses that the accessor serves */
	uint64_t since, until; /* when all is valid that OpenCSD may have cached */
	int ns, once, timed;
	FILE *out;
	unsigned long long insns, ranges, errors, flushes, reads;
};

static uint32_t read_mem(const void *ctx, const ocsd_vaddr_t addr, const ocsd_mem_space_acc_t space, const uint32_t want,
			 uint8_t *buf)
{
	struct decoder *d = (struct decoder *)ctx;
	uint32_t n = want;
	textreplay_answer a;

	(void)space;
	d->reads++;
	/* All at once, or as much from the front as has bytes. */
	for (;;) {
		if (!n || textreplay_read(d->cur, addr, buf, n, &a) < 0)
			return 0;
		if (a.standing >= TEXTREPLAY_UNCONFIRMED)
			break;
		n = n > 64 ? n / 2 : n - 1;
	}
	if (a.since > d->since)
		d->since = a.since;
	if (a.until < d->until)
		d->until = a.until;
	return n;
}

static void add_accessor(struct decoder *d)
{
	if (ocsd_dt_add_callback_mem_acc(d->tree, d->lo, d->hi, OCSD_MEM_SPACE_ANY, read_mem, d) != OCSD_OK)
		errx(1, "cannot add the accessor");
	d->since = 0;
	d->until = TEXTREPLAY_FOREVER;
}

/* Moves to another time. What is cached and not of that time is dropped. */
static void set_time(struct decoder *d, uint64_t timestamp)
{
	uint64_t t = timestamp;

	if (d->once && d->timed)
		return;
	d->timed = 1;
	if (!d->ns && textreplay_time_of_tsc(d->tr, timestamp, &t))
		errx(1, "%s", textreplay_errmsg());
	textreplay_set_time(d->cur, t);
	if (t >= d->since && t < d->until)
		return;
	if (ocsd_dt_remove_mem_acc(d->tree, d->lo, OCSD_MEM_SPACE_ANY) != OCSD_OK)
		errx(1, "cannot remove the accessor");
	add_accessor(d);
	d->flushes++;
}

/* Sees each packet before those behind it are decoded. The timestamp elements come too late:
 * OpenCSD has read the memory of what is behind them when it hands them out. A trace unit
 * with speculation (IDR8 is not 0) commits what it traced some packets later, and would need
 * a time for each uncommitted element. */
static void packet(const void *ctx, const ocsd_datapath_op_t op, const ocsd_trc_index_t index, const void *pkt,
		   const uint32_t size, const uint8_t *data)
{
	const ocsd_etmv4_i_pkt *p = pkt;

	(void)index;
	(void)size;
	(void)data;
	if (op == OCSD_OP_DATA && p->type == ETM4_PKT_I_TIMESTAMP)
		set_time((struct decoder *)ctx, p->ts.timestamp);
}

static ocsd_datapath_resp_t element(const void *ctx, const ocsd_trc_index_t index, const uint8_t channel,
				    const ocsd_generic_trace_elem *e)
{
	struct decoder *d = (struct decoder *)ctx;

	(void)channel;
	switch (e->elem_type) {
	case OCSD_GEN_TRC_ELEM_INSTR_RANGE:
		d->ranges++;
		for (uint64_t a = e->st_addr; a < e->en_addr; a += 4) {
			uint8_t rec[12] = { 0 };
			memcpy(rec, &a, 8);
			if (textreplay_read(d->cur, a, rec + 8, 4, NULL))
				errx(1, "%s", textreplay_errmsg());
			if (d->out && fwrite(rec, sizeof(rec), 1, d->out) != 1)
				err(1, "write");
			d->insns++;
		}
		break;
	case OCSD_GEN_TRC_ELEM_ADDR_NACC:
		d->errors++;
		fprintf(stderr, "%llu: nothing can be read at %llx\n", (unsigned long long)index, (unsigned long long)e->st_addr);
		break;
	default:
		break;
	}
	return OCSD_RESP_CONT;
}

int main(int argc, char **argv)
{
	struct decoder d = { 0 };
	/* The trace unit's registers; perf has them in AUXTRACE_INFO. 64-bit timestamps. */
	ocsd_etmv4_cfg cfg = { .reg_idr0 = 0x28000ea1, .reg_idr1 = 0x4100f403, .reg_idr2 = 0x488, .reg_configr = 0x801,
			       .reg_traceidr = 0x10, .arch_ver = ARCH_V8, .core_prof = profile_CortexA };
	textreplay_info info;
	struct stat st;
	uint8_t *trace, id;
	uint32_t done;
	int opt, fd;

	while ((opt = getopt(argc, argv, "n1o:")) != -1) {
		switch (opt) {
		case 'n':
			d.ns = 1;
			break;
		case '1':
			d.once = 1;
			break;
		case 'o':
			d.out = fopen(optarg, "w");
			if (!d.out)
				err(1, "%s", optarg);
			break;
		default:
			return 2;
		}
	}
	if (argc - optind != 2)
		errx(2, "usage: csdecode [-n] [-1] [-o FILE] perf.data TRACE");
	if (textreplay_open(argv[optind], NULL, &d.tr) || textreplay_cursor_new(d.tr, &d.cur) ||
	    textreplay_get_info(d.tr, &info))
		errx(1, "%s", textreplay_errmsg());
	fd = open(argv[optind + 1], O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		err(1, "%s", argv[optind + 1]);
	trace = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (trace == MAP_FAILED)
		err(1, "%s", argv[optind + 1]);

	d.tree = ocsd_create_dcd_tree(OCSD_TRC_SRC_SINGLE, 0);
	if (d.tree == C_API_INVALID_TREE_HANDLE ||
	    ocsd_dt_create_decoder(d.tree, OCSD_BUILTIN_DCD_ETMV4I, OCSD_CREATE_FLG_FULL_DECODER, &cfg, &id) != OCSD_OK ||
	    ocsd_dt_set_gen_elem_outfn(d.tree, element, &d) != OCSD_OK ||
	    ocsd_dt_attach_packet_callback(d.tree, id, OCSD_C_API_CB_PKT_MON, packet, &d) != OCSD_OK)
		errx(1, "OpenCSD has no decoder");
	/* The kernel's half of the address space: text, modules, BPF. */
	d.lo = (uint64_t)0xffff << 48;
	d.hi = UINT64_MAX;
	add_accessor(&d);
	for (uint32_t at = 0; at < (uint32_t)st.st_size;) {
		ocsd_datapath_resp_t r = ocsd_dt_process_data(d.tree, OCSD_OP_DATA, at, (uint32_t)st.st_size - at, trace + at, &done);
		if (OCSD_DATA_RESP_IS_FATAL(r)) {
			d.errors++;
			fprintf(stderr, "at %u: error %d\n", at + done, r);
			ocsd_dt_process_data(d.tree, OCSD_OP_RESET, 0, 0, NULL, NULL);
			done = done ? done : 1;
		}
		at += done;
	}
	ocsd_dt_process_data(d.tree, OCSD_OP_EOT, 0, 0, NULL, NULL);
	printf("%llu instructions in %llu ranges, %llu errors; %llu reads, %llu flushes\n", d.insns, d.ranges, d.errors,
	       d.reads, d.flushes);
	ocsd_destroy_dcd_tree(d.tree);
	if (d.out && fclose(d.out))
		err(1, "write");
	textreplay_cursor_free(d.cur);
	textreplay_close(d.tr);
	return 0;
}
