#!/bin/sh
# Copyright 2026 The textreplay Authors
# SPDX-License-Identifier: Apache-2.0
#
# testdata.sh CORPUS: makes the recordings of testdata anew out of the large
# ones, which are unpacked in CORPUS.
set -e
corpus=${1:?usage: testdata.sh CORPUS}
cd "$(dirname "$0")/../.."
cut() { # NAME ARGUMENTS...
	name=$1
	shift
	rm -rf "testdata/$name/rec.data" "testdata/$name/oracle"
	go run ./internal/cutoracle "$@" "$corpus/${from:-x86_64/$name}" "testdata/$name"
}
cut small -oracles begin,key_on,kprobe_on,bpf_on,end
cut uponline -oracles begin,cpu1_on,cpu1_poked
cut lossy -symbols vfs_read,vfs_write,do_sys_openat2,__schedule -oracles begin,lossy_on_1,sk_tp_on_1,end_on
cut rich -symbols vfs_read,vfs_write,do_sys_openat2,__schedule,__cond_resched \
	-oracles begin,sk_tp_on_1,func_on_2,multi_ops_3,kp_int3_4,kp_opt_4,kp_off_4,bpf_on_5,mod_probed_6,preempt_full_7,graph_on_8,bpftrace_on_10,end
# Of the same recording, the beginning with its samples.
rm -rf testdata/callgraph/rec.data testdata/callgraph/oracle
go run ./internal/cutoracle -samples -to 25 -symbols secondary_startup_64_no_verify,vfs_read \
	-oracles sk_tp_on_1,func_on_2 "$corpus/x86_64/rich" testdata/callgraph
cut storm -symbols vfs_read,__schedule
cut hotplug -samples -symbols vfs_read,__schedule,sysctl_schedstats \
	-oracles begin,key1_by_cpu1,online,cpu1_key,cpu1_func,cpu0_key,cpu0_func,end
cut modfull -symbols vfs_read,crc7_be,lc_create,virtqueue_get_buf_ctx_split
cut old510 -symbols vfs_read,vfs_write,__x64_sys_getpid,sysctl_schedstats \
	-oracles begin,bpf_on_1,sk_tp_on_2,kp_opt_5,kp_off_5,end
cut z72 -symbols vfs_read,vfs_write,sysctl_schedstats -oracles begin,mid,end
cut smalldup -symbols sysctl_schedstats,do_sys_openat2 -oracles key_on,kprobe_on,bpf_on
# Recorded for these tests only, in the same way, and not in the large corpus.
if [ -d "$corpus/x86_64/thunks" ]; then
	cut thunks -symbols __init_swait_queue_head,cpu_max_show,vfs_read,perf_trace_sched_switch,preempt_schedule_thunk \
		-oracles begin,preempt_full_1,bpf_on_2,mod_on_6,func_on_7,end
fi
# A kernel that records no text pokes, with a probe on the function that maps text.
from=arm64/probe612
cut probe612 -symbols vfs_read,do_sys_openat2 -oracles 00-base,01-schedstats-on,03-kprobe,06-bpf1,11-cpu1-key
# Text pokes, with a probe on their writer. Recorded for these tests only.
if [ -d "$corpus/x86_64/pokeprobe" ]; then
	cut pokeprobe -symbols vfs_read,do_sys_openat2,__text_poke,text_poke_memcpy \
		-oracles 00-base,01-key,02-kprobes,03-ftrace,04-off
fi
# Other architectures, whose kernels record no text pokes.
for arch in arm64,24-bpf-fentry ppc64le,21-bpf-sock2 s390x,34-final; do
	from=${arch%,*}/rich
	cut "${arch%,*}" -symbols vfs_read,do_sys_openat2 -oracles "00-base,05-kprobes-on,09-ft-single,${arch#*,}"
done
