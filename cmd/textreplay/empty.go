// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/textreplay/textreplay/recorder/journal"
)

// whyEmpty explains a recording into which perf wrote nothing; "" if it is not empty.
func whyEmpty(path string) string {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return ""
	case !fi.IsDir() && fi.Mode().IsRegular() && fi.Size() == 0:
		return `perf could open no event (that needs root, CAP_PERFMON, or a kernel.perf_event_paranoid that
allows it), or was killed before it wrote the header`
	case !fi.IsDir():
		return ""
	}
	data, err := os.Stat(filepath.Join(path, "data"))
	if err != nil || !data.Mode().IsRegular() || data.Size() != 0 {
		return ""
	}
	if _, err := os.Stat(filepath.Join(path, journal.Name)); err == nil {
		return "textreplay record was killed before it wrote any records, or is still starting"
	}
	if _, err := os.Stat(filepath.Join(path, "kcore_dir", "kcore")); err == nil {
		return "perf was killed before it wrote the header"
	}
	return `perf record --kcore copies kernel text before it records, and stopped because it could not
("ERROR: kcore is not readable."). It needs root (CAP_SYS_RAWIO), a kernel with
CONFIG_PROC_KCORE, and no lockdown (/sys/kernel/security/lockdown); containers hide
/proc/kcore. On this machine ` + tryKcore("/proc/kcore")
}

// tryKcore reports whether kernel text can be copied.
func tryKcore(path string) string {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		var b [1]byte
		if _, err = f.Read(b[:]); err == nil {
			return "it can be read now"
		}
	}
	return fmt.Sprintf("it cannot: %v", err)
}
