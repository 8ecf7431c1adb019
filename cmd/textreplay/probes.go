// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline/replay"
)

func (a *app) probesCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "probes [flags] [-- COMMAND]",
		Short: "Print the probes that record text changes on arm64 and powerpc",
		Long: `probes prints a shell script that records kernel text on arm64 and powerpc, whose
kernels record no text pokes. It reads the code of the running kernel, which takes
root, or of the kernel that --kcore DIR and --kallsyms name, and checks that probes can
record each of its changes. On x86-64, whose kernels record text pokes, the script also
records what is written, and "textreplay verify" compares the two. docs/probes.md explains
the script. "textreplay record" needs none: it makes the same probes itself.`,
		Example: `  sudo textreplay probes > record.sh
  sudo sh record.sh sleep 10
  textreplay probes --kcore perf.data/kcore_dir`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(a.copies) > 0 {
				return usagef("probes reads the code of one kernel, at any time: --kcore DIR, without @TIME")
			}
			core, k, err := a.kernelCode()
			if err != nil {
				return inputError(err)
			}
			a.opened = append(a.opened, core)
			p, err := replay.PlanProbes(core, k)
			if err != nil {
				return inputError(err)
			}
			if a.json {
				return outputError(encoder(a.out).Encode(planJSON(p)))
			}
			writePlan(a.out, p, args)
			return nil
		},
	}
}

// kernelCode returns the text and the symbols of the kernel that the flags name, or of the
// running one.
func (a *app) kernelCode() (*kcore.Core, *kcore.Kallsyms, error) {
	if len(a.kcore) > 0 {
		snap, err := kcore.Open(a.kcore[0])
		if err != nil {
			return nil, nil, err
		}
		k := snap.Kallsyms
		if a.kallsyms != "" {
			if k, err = readKallsyms(a.kallsyms); err != nil {
				return nil, nil, err
			}
		}
		if k == nil || snap.Core == nil {
			return nil, nil, fmt.Errorf("%s has no %s", a.kcore[0], map[bool]string{true: "kallsyms", false: "kcore"}[k == nil])
		}
		return snap.Core, k, nil
	}
	path := "/proc/kallsyms"
	if a.kallsyms != "" {
		path = a.kallsyms
	}
	k, err := readKallsyms(path)
	if err != nil {
		return nil, nil, err
	}
	if k.Restricted() {
		return nil, nil, fmt.Errorf("%s has no addresses: only root can read them", path)
	}
	core, err := runningText(k)
	return core, k, err
}

func readKallsyms(path string) (*kcore.Kallsyms, error) {
	text, err := mapfile.ReadListFile(path)
	if err != nil {
		return nil, err
	}
	k, err := kcore.ParseKallsyms(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

// runningText reads the text of the running kernel. /proc/kcore cannot be mapped.
func runningText(k *kcore.Kallsyms) (*kcore.Core, error) {
	const path = "/proc/kcore"
	lo, hi, ok := k.Text()
	if !ok || hi-lo > 1<<30 {
		return nil, errors.New("kallsyms does not say where kernel text is")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_LOAD || lo < p.Vaddr || hi-p.Vaddr > p.Filesz {
			continue
		}
		text := make([]byte, hi-lo)
		if _, err := p.ReadAt(text, int64(lo-p.Vaddr)); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return &kcore.Core{Machine: f.Machine, Class: f.Class, Data: f.Data, Segments: []kcore.Segment{{Addr: lo, Data: text}}}, nil
	}
	return nil, fmt.Errorf("%s has no kernel text at %#x", path, lo)
}

// probeScript records with probes. It is run by root. kallsyms is bound over without the
// lines that make perf's --kcore fail once a kprobe exists. The workload reads the hit
// counters before and after: the process that reads them names itself, and perf records
// when it ran. That process executes no other program, which would hit the probe of powerpc.
// The last command of a shell may be no process of its own, so one more follows. perf writes
// the formats of its events last, so the script stores them first.
const probeScript = `set -e
FORMATS=$(mktemp)
cd "${TRACEFS:-/sys/kernel/tracing}"
trap 'rm -f "$FORMATS"; for e in %s; do [ ! -d "${TRACEFS:-/sys/kernel/tracing}/events/tp/$e" ] || echo "-:tp/$e" >> "${TRACEFS:-/sys/kernel/tracing}/kprobe_events"; done' EXIT
%s
for e in module/module_load module/module_free cpuhp/cpuhp_enter %s; do
  echo "system: ${e%%/*}"
  cat "events/$e/format"
done > "$FORMATS"
cd "$OLDPWD"
export FORMATS DIR="${OUT:-perf.data}" PROFILE="${TRACEFS:-/sys/kernel/tracing}/kprobe_profile"
unshare -m sh -e -c '
  tmp=$(mktemp)
  grep -v -e __builtin__ -e "\[bpf\]" /proc/kallsyms > "$tmp"
  mount --bind "$tmp" /proc/kallsyms
  rm "$tmp"
  exec perf record -o "$DIR" -a --kcore -m 16M -e dummy \
    -e module:module_load -e module:module_free -e cpuhp:cpuhp_enter %s \
    -- sh -c "
      counters() (
        read -r pid rest < /proc/self/stat
        echo \"pid \$pid\"
        while IFS= read -r line; do echo \"\$line\"; done < \"\$PROFILE\"
      )
      umount /proc/kallsyms
      cp \"\$FORMATS\" \"\$DIR/tracing_formats.new\"
      mv \"\$DIR/tracing_formats.new\" \"\$DIR/tracing_formats\"
      counters > \"\$DIR/kprobe_profile.start\"
      \"\$@\"
      counters > \"\$DIR/kprobe_profile.end\"
      true
      " sh "$@"
' sh %s
`

// writePlan prints the script, and what the kernel's code shows as comments.
func writePlan(w io.Writer, p *replay.ProbePlan, command []string) {
	fmt.Fprintf(w, "#!/bin/sh\n# Records kernel text on this kernel (%s), as textreplay probes has checked its code:\n", machineName(p.Machine))
	for _, x := range p.Writers {
		fmt.Fprintf(w, "#   %s: %s\n", x.Name, x.Text)
	}
	for _, x := range p.Others {
		fmt.Fprintf(w, "#   %s also maps pages: %s\n", x.Name, x.Text)
	}
	define, events, names, dirs := "", "", "", ""
	for i, d := range p.Definitions {
		define += fmt.Sprintf("echo '%s' >> kprobe_events\n", d)
		events += "-e " + p.Events[i] + " "
		_, name, _ := strings.Cut(p.Events[i], ":")
		names += name + " "
		dirs += "tp/" + name + " "
	}
	run := `"$@"`
	if len(command) > 0 {
		run = ""
		for _, c := range command {
			run += "'" + strings.ReplaceAll(c, "'", `'\''`) + "' "
		}
	}
	fmt.Fprintf(w, probeScript, strings.TrimSpace(names), strings.TrimSuffix(define, "\n"), strings.TrimSpace(dirs), strings.TrimSpace(events), strings.TrimSpace(run))
}

func machineName(m elf.Machine) string {
	switch m {
	case elf.EM_AARCH64:
		return "arm64"
	case elf.EM_PPC64:
		return "powerpc"
	case elf.EM_X86_64:
		return "x86-64"
	}
	return m.String()
}

// The probes that record a kernel's changes of text.
type jsonPlan struct {
	Arch        string       `json:"arch"`
	Definitions []string     `json:"definitions"` // as kprobe_events of tracefs takes them
	Events      []string     `json:"events"`      // what perf record -e takes
	Writers     []jsonWriter `json:"writers"`     // functions whose changes are recorded
	Others      []jsonWriter `json:"others"`      // functions that map text for writing, too: of their changes only the time is known, and perhaps the place
}

// A function of the kernel, and what its code shows of it.
type jsonWriter struct {
	Function string `json:"function"`
	Text     string `json:"text"`
}

func planJSON(p *replay.ProbePlan) jsonPlan {
	out := jsonPlan{machineName(p.Machine), p.Definitions, p.Events, []jsonWriter{}, []jsonWriter{}}
	for _, x := range p.Writers {
		out.Writers = append(out.Writers, jsonWriter{x.Name, x.Text})
	}
	for _, x := range p.Others {
		out.Others = append(out.Others, jsonWriter{x.Name, x.Text})
	}
	return out
}
