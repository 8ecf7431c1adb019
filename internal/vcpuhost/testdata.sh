#!/bin/sh
# Copyright 2026 The textreplay Authors
# SPDX-License-Identifier: Apache-2.0
#
# testdata.sh: makes testdata/guest anew out of two other recordings of
# testdata. It needs perf.
set -e
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go run ./internal/vcpuhost -pid 7001 -vcpus 2 testdata/storm/rec.data "$dir/host"
go run ./internal/cutoracle -symbols sysctl_schedstats,do_sys_openat2 testdata/small "$dir/guest"
rm -rf testdata/guest/merged.data
mkdir -p testdata/guest
(
	cd "$dir"
	mv guest/rec.data vm
	# The guest's clock is 10 s behind the host's.
	perf inject --guest-data=vm,7001,-10000000000 -i host -o merged
	chmod 755 merged
	chmod 644 merged/data
)
mv "$dir/merged" testdata/guest/merged.data
