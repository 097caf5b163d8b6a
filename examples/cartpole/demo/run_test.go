package demo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/examples/cartpole/demo"
)

// easy is a whole run of one iteration.
func easy() demo.Options {
	o := demo.Defaults()
	o.Goal, o.Serve = 5, 20*time.Millisecond
	return o
}

func TestRunJSON(t *testing.T) {
	o := easy()
	o.Form, o.Seed = demo.JSON, 7
	var stdout, stderr bytes.Buffer
	if err := demo.Run(t.Context(), o, &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	var fields map[string]float64
	d := json.NewDecoder(&stdout)
	if err := d.Decode(&fields); err != nil || d.More() {
		t.Fatalf("not exactly one object of numbers: %v", err)
	}
	keys := []string{"seed", "mean_return", "random_return", "steps", "seconds", "steps_per_s", "requests_per_s", "p50_us", "p99_us"}
	for _, k := range keys {
		if v, ok := fields[k]; !ok || v <= 0 {
			t.Errorf("%s is %v", k, v)
		}
	}
	if len(fields) != len(keys) {
		t.Errorf("fields %v, want %v", fields, keys)
	}
	if fields["seed"] != 7 || fields["mean_return"] < 5 || fields["p99_us"] < fields["p50_us"] {
		t.Errorf("report %v", fields)
	}
	if rate := fields["steps"] / fields["seconds"]; math.Abs(rate-fields["steps_per_s"]) > rate/10 {
		t.Errorf("%v steps in %v s, but %v steps/s", fields["steps"], fields["seconds"], fields["steps_per_s"])
	}
}

func TestRunText(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if err := demo.Run(t.Context(), easy(), &stdout, &stderr); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want string }{
		"report": {stdout.String(), `^mean return  \d+\.\d over 100 fresh episodes, a random policy's is \d+\.\d
learned      2,\d{3} steps in \d+\.\d\d s, [\d,]+ steps/s
served       [\d,]+ requests/s, p50 \d+\.\d us, p99 \d+\.\d us
$`},
		"progress": {stderr.String(), `^learning: mean return \d+\.\d over \d+ episodes, 2\d{3} steps
serving for 20ms
$`},
	} {
		if !regexp.MustCompile(c.want).MatchString(c.got) {
			t.Errorf("the %s is\n%s\nwant\n%s", name, c.got, c.want)
		}
	}
}

// cancelAt is a standard error that interrupts the run when it is told something.
type cancelAt struct {
	text   string
	cancel context.CancelCauseFunc
	told   bytes.Buffer
}

var errInterrupt = errors.New("interrupt signal received")

func (c *cancelAt) Write(b []byte) (int, error) {
	if strings.Contains(string(b), c.text) {
		c.cancel(errInterrupt)
	}
	return c.told.Write(b)
}

// Ctrl-C in either half ends the run at once, with its cause and without a report. TestMain sees that nothing stays.
func TestRunInterrupted(t *testing.T) {
	for _, at := range []string{"learning", "serving"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		o := easy()
		o.Serve = time.Hour
		if at == "learning" {
			o.Goal, o.Steps = 475, math.MaxInt
		}
		var stdout bytes.Buffer
		stderr := &cancelAt{text: at, cancel: cancel}
		err := demo.Run(ctx, o, &stdout, stderr)
		cancel(nil)
		if !errors.Is(err, errInterrupt) || err.Error() != "stopped: interrupt signal received" || stdout.Len() > 0 {
			t.Errorf("interrupted at %q: %v, %q", at, err, stdout.String())
		}
		if told := strings.Count(stderr.told.String(), at); told != 1 {
			t.Errorf("interrupted at %q, told on: %q", at, stderr.told.String())
		}
	}
}

func TestOptions(t *testing.T) {
	if err := demo.Defaults().Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change func(*demo.Options)
		want   string
	}{
		{func(o *demo.Options) { o.Seed = 0 }, "seed is 0: give 1 or more"},
		{func(o *demo.Options) { o.Steps = -1 }, "steps is -1: give 1 or more"},
		{func(o *demo.Options) { o.Serve = 0 }, "serve is 0s: give a positive duration, such as 2s"},
		{func(o *demo.Options) { o.Goal = math.NaN() }, "goal is NaN: give 0 (the environment's) or more"},
		{func(o *demo.Options) { o.Form = "xml" }, `form is "xml": the forms are text and json`},
	} {
		o := demo.Defaults()
		c.change(&o)
		var stdout, stderr bytes.Buffer
		err := demo.Run(t.Context(), o, &stdout, &stderr)
		if !errors.Is(err, demo.ErrUsage) || err.Error() != c.want {
			t.Errorf("%v, want ErrUsage: %s", err, c.want)
		}
		if stdout.Len()+stderr.Len() > 0 {
			t.Errorf("bad options wrote %q, %q", stdout.String(), stderr.String())
		}
	}
}
