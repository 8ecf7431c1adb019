// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// webPages are the paths of web's pages, which take ADDR and TIME.
var webPages = []string{
	"/", "/state", "/map", "/map/tile?zx=0&zy=0&x=0&y=0", "/map/names?p=ADDR", "/map/pick?x=0&y=0&zx=0&zy=0",
	"/at?addr=ADDR&t=TIME", "/functions", "/diff?from=start&to=end", "/log", "/log?sort=bytes", "/search?q=e", "/suggest?q=e",
	"/profile/flamegraph", "/profile/top",
}

// judgeWeb serves a recording, asks for every page, and ends the server. The arguments
// are the program, the recording, an address and a time. Its errors are those of the
// server, whose exit code it returns if that is an error.
func judgeWeb(args []string) int {
	cmd := exec.Command(args[0], "web", "-i", args[1], "--index", "never", "--no-browser")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	base, _ := bufio.NewReader(out).ReadString('\n')
	err = nil
	if base != "" { // else the recording cannot be read
		fill := strings.NewReplacer("ADDR", url.QueryEscape(args[2]), "TIME", url.QueryEscape(args[3]))
		for _, path := range webPages {
			err = errors.Join(err, webPage(strings.TrimSpace(base)+strings.TrimPrefix(fill.Replace(path), "/")))
		}
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM))
	}
	ended := cmd.Wait()
	os.Stderr.Write(stderr.Bytes())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	var exit *exec.ExitError
	if errors.As(ended, &exit) {
		return max(exit.ExitCode(), 2)
	}
	return 0
}

// webPage asks for a page until it is ready. Only a page that cannot be made of what is
// there may be refused.
func webPage(page string) error {
	for range 600 {
		answer, err := http.Get(page)
		if err != nil {
			return err
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		switch {
		case err != nil:
			return err
		case answer.StatusCode == http.StatusServiceUnavailable && answer.Header.Get("Retry-After") != "":
			time.Sleep(100 * time.Millisecond)
			continue
		case answer.StatusCode >= 500:
			return fmt.Errorf("%s: %s\n%.400s", page, answer.Status, body)
		}
		return nil
	}
	return fmt.Errorf("%s: not ready", page)
}
