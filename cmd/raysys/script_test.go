//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
	"github.com/raysys/raysys/internal/worklog"
	"github.com/raysys/raysys/placement/devices"
)

// TestScripts runs testdata/script/*.txt, stories of raysys on the command line. Beside testscript's own commands they
// have raysys, app (below), and
//
//	await FILE [PATTERN]  wait until FILE has a line that matches
//	term FILE             send SIGTERM to the process whose id is the last line of FILE
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			// Programs with the race detector else wait a second before they exit.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await": await,
			"term":  term,
			"code":  code,
		},
	})
}

// patience bounds a wait of a script.
const patience = 20 * time.Second

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: await FILE [PATTERN]")
	}
	pattern := regexp.MustCompile(".")
	if len(args) == 2 {
		var err error
		pattern, err = regexp.Compile("(?m)" + args[1])
		ts.Check(err)
	}
	file := ts.MkAbs(args[0])
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(patience); ; {
		text, err := os.ReadFile(file)
		if err == nil && pattern.Match(text) {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			ts.Fatalf("%s has no %v: %q, %v", args[0], pattern, text, err)
		}
	}
}

func term(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: term FILE")
	}
	lines := strings.Fields(ts.ReadFile(args[0]))
	pid, err := strconv.Atoi(lines[len(lines)-1])
	ts.Check(err)
	ts.Check(syscall.Kill(pid, syscall.SIGTERM))
}

// app is a user's program. Its first argument says what it does, the second is a file to which it appends a line once
// it is up: the id of its parent, so that the script can send signals there.
func app() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM)
	what := os.Args[1]
	starts := 0
	if len(os.Args) > 2 {
		starts = mark(os.Args[2])
	}
	switch what {
	case "serve":
		fmt.Println("up")
		<-signals
		fmt.Println("drained")
	case "stubborn":
		for range signals {
			fmt.Println("not now")
		}
	case "crash":
		fmt.Fprintln(os.Stderr, "panic: no such table")
		os.Exit(2)
	case "flaky": // dies as often as the third argument says, then serves
		if deaths, _ := strconv.Atoi(os.Args[3]); starts <= deaths {
			fmt.Println("start", starts, "dies")
			os.Exit(3)
		}
		fmt.Println("start", starts, "serves")
		<-signals
	case "env":
		for _, v := range slices.Sorted(slices.Values(os.Environ())) {
			if mark, ok := strings.CutPrefix(v, worklog.MarkVariable+"="); ok && len(mark) >= 20 {
				v = worklog.MarkVariable + "=drawn"
			}
			if strings.HasPrefix(v, "RAYSYS_") && !strings.HasPrefix(v, "RAYSYS_LAUNCH=") && !strings.HasPrefix(v, "RAYSYS_SUPERVISOR=") {
				fmt.Println(v)
			}
		}
		fmt.Println("arguments:", strings.Join(os.Args[2:], " "))
		tell(supervise.Draining) // so that this was the only start
	case "devices": // writes to the file of the third argument what it hears of its devices
		devicesTo(os.Args[3])
		<-signals
	case "refuse": // as a node does that cannot be made
		fmt.Fprintln(os.Stderr, "error: RAYSYS_CPU=\"many\": give a number of 0 or more")
		tell(supervise.Misconfigured)
		os.Exit(2)
	case "quit": // without having been asked to
	default:
		fmt.Fprintln(os.Stderr, "no such part")
		os.Exit(9)
	}
}

// devicesTo opens the program's devices and writes to the file, at each change, what they are sick of.
func devicesTo(file string) {
	out, err := os.Create(file)
	feed, err2 := devices.OpenFeed(os.Getenv(devices.FeedVariable))
	if err != nil || err2 != nil || feed == nil {
		fmt.Fprintln(os.Stderr, "no devices:", err, err2)
		os.Exit(9)
	}
	say := func(i devices.Inventory) {
		for n, d := range i.Devices {
			fmt.Fprintf(out, "%d %s: %s.\n", n, d.Model, d.Sick)
		}
	}
	say(feed.Inventory())
	go feed.Run(context.Background(), say)
}

// tell writes to the supervisor's pipe.
func tell(what supervise.Told) {
	fd, _, _ := strings.Cut(os.Getenv(supervise.SupervisorVariable), ":")
	n, err := strconv.Atoi(fd)
	if err == nil {
		_, err = fmt.Fprintln(os.NewFile(uintptr(n), "supervisor"), what)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(9)
	}
}

// mark appends the line and returns how many there are.
func mark(file string) int {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = fmt.Fprintln(f, os.Getppid())
	}
	if err == nil {
		err = f.Close()
	}
	text, err2 := os.ReadFile(file)
	if err != nil || err2 != nil {
		fmt.Fprintln(os.Stderr, err, err2)
		os.Exit(9)
	}
	return strings.Count(string(text), "\n")
}
