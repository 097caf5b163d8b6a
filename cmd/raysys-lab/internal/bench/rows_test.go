package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

// small is the least that measures anything: one call a side.
var small = Plan{Rounds: 2, Slice: time.Nanosecond, Size: 1 << 20}

// lighter are the rows whose one operation is large, in small.
var lighter = map[string]func(context.Context, Plan) (measured, error){
	"queued_1m":   func(ctx context.Context, p Plan) (measured, error) { return queued(ctx, p, 3000) },
	"grains_idle": func(ctx context.Context, p Plan) (measured, error) { return idleInChild(ctx, p, 3000) },
	"ticks":       func(ctx context.Context, p Plan) (measured, error) { return ticksOf(ctx, p, 300) },
}

func TestRows(t *testing.T) {
	for _, row := range Rows(InProcess) {
		t.Run(row.Name, func(t *testing.T) {
			if f := lighter[row.Name]; f != nil {
				row.measure = f
			}
			r, err := row.Run(t.Context(), small)
			if err != nil {
				t.Fatal(err)
			}
			check(t, row, r)
		})
	}
}

// check looks at what holds for every result, whatever the machine.
func check(t *testing.T, row Row, r Result) {
	t.Helper()
	if r.Row != row.Name || r.Tier != row.Tier || r.Unit != row.Unit || r.Limit == "" {
		t.Errorf("the result is not named: %+v", r)
	}
	if r.Value <= 0 || r.LimitValue <= 0 {
		t.Errorf("value %v beside limit %v", r.Value, r.LimitValue)
	}
	if want := r.Value / r.LimitValue; row.Name != "put_gigabytes" && math.Abs(r.Ratio-want) > want/100 {
		t.Errorf("ratio %v, want %v over %v", r.Ratio, r.Value, r.LimitValue)
	}
	if r.Detail["operation"] != row.Operation {
		t.Errorf("detail %v does not say what an operation is", r.Detail)
	}
	switch timed := row.Unit != Bytes; {
	case timed && (r.P50 == nil || r.P99 == nil || r.Max == nil):
		t.Errorf("p50 %v, p99 %v, max %v: want all three", r.P50, r.P99, r.Max)
	case timed && (*r.P50 <= 0 || *r.P99 <= 0 || *r.Max < *r.P99 || r.Detail["latency_of"] == ""):
		t.Errorf("p50 %v, p99 %v, max %v of %v", *r.P50, *r.P99, *r.Max, r.Detail["latency_of"])
	case !timed && (r.P50 != nil || r.P99 != nil || r.Max != nil):
		t.Error("a row of bytes has durations")
	}
	if row.Unit == Latency && *r.P50 != r.Value {
		t.Errorf("value %v is not the p50, %v", r.Value, *r.P50)
	}
}

func TestQueuedDetail(t *testing.T) {
	m, err := queued(t.Context(), small, 2000)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"seconds", "submit_seconds", "peak_live_heap_mib"} {
		if v, ok := m.detail[key].(float64); !ok || v <= 0 {
			t.Errorf("detail %s is %v", key, m.detail[key])
		}
	}
}

func TestCancelledRun(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for _, name := range []string{"tasks_sync", "queued_1m", "node_start"} {
		rows, err := Select([]string{name}, InProcess)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := rows[0].Run(ctx, small); err == nil || !strings.Contains(err.Error(), "measure "+name) {
			t.Errorf("%s under a cancelled context: %v", name, err)
		}
	}
}

func TestUnusableNode(t *testing.T) {
	p := small
	p.Node = system.Config{Resources: raysys.Resources{CPU: -1}}
	for _, row := range Rows(InProcess)[:2] {
		if _, err := row.Run(t.Context(), p); err == nil {
			t.Errorf("%s ran on a node with -1 CPU", row.Name)
		}
	}
}

func TestChildThatFails(t *testing.T) {
	p := small
	p.Self = "/nonexistent/raysys"
	if _, err := nodeStart(t.Context(), p); err == nil || !strings.Contains(err.Error(), "start child") {
		t.Errorf("a binary that is not there: %v", err)
	}
	if _, err := idleInChild(t.Context(), small, 0); err == nil || !strings.Contains(err.Error(), "give 1 or more") {
		t.Errorf("a child that refuses: %v", err)
	}
}

func TestChildArguments(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"dance"},
		{childNothing, "more"},
		{childGrains},
		{childGrains, "many"},
		{childWorker},
		{childEcho, "loud"},
		{childPing, "127.0.0.1:1", "-2"},
		{childCaller, "cluster", "127.0.0.1:1", "dance"},
	} {
		var out bytes.Buffer
		err := Child(t.Context(), small, args, strings.NewReader(""), &out)
		var selection *SelectionError
		if !errors.As(err, &selection) || out.Len() > 0 {
			t.Errorf("Child(%q) wrote %q, %v", args, out.String(), err)
		}
	}
}

// The report leaves the child before it waits, and the child goes when its input ends.
func TestGrainsReport(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Child(t.Context(), small, []string{childGrains, "1500"}, inR, outW) }()
	var rep idleReport
	if err := json.NewDecoder(outR).Decode(&rep); err != nil {
		t.Fatal(err)
	}
	// Its heap is that of all tests here; TestRows weighs the grains in a process of their own.
	if rep.Grains != 1500 || rep.Struct != 8 || rep.Heap == 0 || rep.Seconds <= 0 {
		t.Errorf("report %+v", rep)
	}
	if (rep.Resident > 0) != (runtime.GOOS == "linux") {
		t.Errorf("resident memory %d on %s", rep.Resident, runtime.GOOS)
	}
	inW.Close()
	go io.Copy(io.Discard, outR)
	if err := <-done; err != nil {
		t.Error(err)
	}
	outW.Close()
}

func TestRising(t *testing.T) {
	for _, c := range []struct {
		results []int
		grains  int
		ok      bool
	}{{[]int{1, 2, 5}, 1, true}, {[]int{1, 2, 2}, 1, false}, {[]int{5, 1, 6, 2}, 2, true}, {[]int{5, 1, 4, 2}, 2, false}} {
		if err := rising(c.results, c.grains); (err == nil) != c.ok {
			t.Errorf("rising(%v, %d): %v", c.results, c.grains, err)
		}
	}
}
