package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// ChildCommand is the hidden command under which a binary that runs rounds must call Child.
const ChildCommand = "chaos-round"

// hang bounds a round in real time: one that takes longer has a loop, or waits for a lock.
const hang = 10 * time.Minute

// reportMark begins the line of a child's output that is its report.
const reportMark = "raysys-lab chaos report: "

// ErrChild is a child process that was started by somebody else.
var ErrChild = errors.New(ChildCommand + " is for raysys-lab chaos, which starts it: use raysys-lab chaos")

// Child runs the round that in describes as a test, because virtual time exists in tests only, and ends the process.
func Child(in io.Reader) error {
	var o Round
	if err := json.NewDecoder(in).Decode(&o); err != nil || o.Nodes == 0 {
		return ErrChild
	}
	testing.Init()
	limit := hang
	if o.Processes {
		limit += o.Length
	}
	os.Args = []string{os.Args[0], "-test.timeout=" + limit.String()}
	testing.Main(func(string, string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "round", F: func(t *testing.T) {
		var rep Report
		defer func() {
			b, err := json.Marshal(rep)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Printf("%s%s\n", reportMark, b)
			if len(rep.Violations) > 0 {
				t.Fail()
			}
		}()
		if o.Processes {
			RunProcesses(t, o, &rep, func(line string) { fmt.Fprintln(os.Stderr, line) })
		} else {
			Run(t, o, &rep)
		}
	}}}, nil, nil)
	return nil
}

// Start runs a round in a child process of program and returns its report. What the round's own checks did not see, a
// goroutine left behind or a panic, is a violation too.
//
// What a round with processes says meanwhile goes to talk.
func Start(ctx context.Context, program string, o Round, talk io.Writer) (rep Report, err error) {
	rep.Round = o
	in, err := json.Marshal(o)
	if err != nil {
		return rep, err
	}
	cmd := exec.CommandContext(ctx, program, ChildCommand)
	cmd.Stdin = bytes.NewReader(in)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "RAYSYS_TESTKIT_") { // another seed
			cmd.Env = append(cmd.Env, v)
		}
	}
	var out, talked bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talked
	if o.Processes {
		cmd.Stderr = io.MultiWriter(&talked, talk)
	}
	err = cmd.Run()
	if ctx.Err() != nil {
		return rep, context.Cause(ctx)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return rep, fmt.Errorf("start a round: %w", err)
	}
	lines := slices.Collect(strings.Lines(talked.String()))
	reported := false
	for line := range strings.Lines(out.String()) {
		text, ok := strings.CutPrefix(line, reportMark)
		reported = reported || ok
		if !ok {
			lines = append(lines, line)
		} else if err := json.Unmarshal([]byte(text), &rep); err != nil {
			return rep, fmt.Errorf("read the report of a round: %w", err)
		}
	}
	if (err != nil || !reported) && len(rep.Violations) == 0 {
		if len(lines) > maxTalk {
			lines = slices.Concat(lines[:maxTalk/2], []string{"...\n"}, lines[len(lines)-maxTalk/2:])
		}
		rep.Violations = []Violation{{Law: "a round ends, and leaves nothing behind", Detail: strings.Join(lines, "")}}
	}
	return rep, nil
}

// maxTalk bounds the lines of a child that a violation shows: the stacks of all goroutines are long.
const maxTalk = 120

// Minimize takes events out of the plan of a round that failed, as long as a round without them fails too, and returns the
// smallest that failed with its report. try runs one round; told hears of each.
func Minimize(failed Report, try func(Round) (Report, error), told func(events int, failed bool)) (Report, error) {
	var which []int
	for _, e := range failed.Round.plan() {
		which = append(which, e.Number)
	}
	for size := max(1, len(which)/2); size > 0; size /= 2 {
		for at := 0; at < len(which); {
			o := failed.Round
			o.Only = slices.Concat(which[:at], which[min(len(which), at+size):])
			if o.Only == nil {
				o.Only = []int{}
			}
			rep, err := try(o)
			if err != nil {
				return failed, err
			}
			bad := len(rep.Violations) > 0
			told(len(o.Only), bad)
			if bad {
				failed, which = rep, o.Only
			} else {
				at += size
			}
		}
	}
	return failed, nil
}
