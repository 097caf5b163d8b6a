package system_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/inspect"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	lineStep = tasks.DefineIn(table, "line step", func(_ context.Context, n int) (int, error) {
		<-time.After(7 * time.Millisecond)
		if n%100 == 99 {
			return 0, errors.New("as ever")
		}
		return n, nil
	})
	lineAll = tasks.DefineIn(table, "line all", func(ctx context.Context, n int) (int, error) {
		var refs []raysys.Ref[int]
		b, c := lineStep.With(raysys.Label("node", "b")), lineStep.With(raysys.Label("node", "c"))
		for i := range n {
			switch {
			case i < n/3:
				refs = append(refs, b.Go(ctx, i))
			case i < 2*n/3:
				refs = append(refs, c.Go(ctx, i))
			default:
				refs = append(refs, lineStep.Go(ctx, i))
			}
		}
		failed := 0
		for _, ref := range refs {
			if _, err := ref.Get(ctx); err != nil {
				failed++
			}
		}
		return failed, nil
	})
	lineForever = tasks.Define0In(table, "line forever", func(ctx context.Context) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	})
)

// lineGrain is a grain whose turns take time.
type lineGrain struct{}

func (*lineGrain) Stay(context.Context) (int, error) {
	<-time.After(5 * time.Millisecond)
	return 0, nil
}

var (
	lineKind = grains.DefineIn[lineGrain](table, "line grain")
	lineStay = grains.Method0(lineKind, "stay", (*lineGrain).Stay)
)

// lineFile is a timeline as a viewer reads it.
type lineFile struct {
	OtherData   map[string]string `json:"otherData"`
	TraceEvents []struct {
		Ph, Name, Cat string
		PID, TID, ID  int
		TS, Dur       float64
		Args          map[string]any
	} `json:"traceEvents"`
}

func lineOf(t *testing.T, ctx context.Context, n *system.Node, q inspect.TimelineQuery) (all inspect.Timeline, f lineFile) {
	t.Helper()
	var b bytes.Buffer
	all, err := n.Timeline(ctx, q, &b)
	if err == nil {
		err = json.Unmarshal(b.Bytes(), &f)
	}
	if err != nil {
		t.Errorf("%+v: %v\n%.1000s", q, err, b.String())
	}
	return all, f
}

// TestTimeline: 1,000 tasks over three nodes are in the file, each once, none overlaps another on its CPU, and arrows lead to all from the task
// that submitted them; so are calls, and what had not ended. Who asks meanwhile gets the same recording, and none stays behind.
func TestTimeline(t *testing.T) {
	inBubble(t, func(b *bubble) {
		t := b.t
		for _, name := range []string{"a", "b", "c"} {
			b.join(raysys.NodeID(name), system.Worker, func(c *system.Config) {
				c.Resources.CPU, c.Cluster.Labels = 2, map[string]string{"node": name}
			})
		}
		operator, _ := b.join("o", system.Driver, func(c *system.Config) { c.Cluster.Observer, c.Table = true, raysys.NewTable() })
		_, ctx, end := b.aDriver("d")
		defer end()
		forever, stop := context.WithCancel(ctx)
		defer stop()

		type got struct {
			all inspect.Timeline
			f   lineFile
		}
		ask := func(q inspect.TimelineQuery) <-chan got {
			c := make(chan got, 1)
			go func() {
				all, f := lineOf(t, context.Background(), operator, q)
				c <- got{all, f}
			}()
			return c
		}
		first := ask(inspect.TimelineQuery{For: 20 * time.Second})
		<-time.After(time.Second)
		second := ask(inspect.TimelineQuery{For: 5 * time.Second, Function: "line grain.stay"})
		<-time.After(time.Second)
		if failed, err := lineAll.Go(ctx, 1000).Get(ctx); failed != 10 || err != nil {
			t.Fatalf("%d failed: %v", failed, err)
		}
		for i := range 12 {
			if _, err := lineStay.Call(ctx, lineKind.Get(fmt.Sprint(i))).Get(ctx); err != nil {
				t.Fatal(err)
			}
		}
		lineForever.Go(forever)

		one := <-first
		type row struct{ pid, tid int }
		process, rows := map[int]string{}, map[row]string{}
		until, ids, nodes := map[row]float64{}, map[string]bool{}, map[string]int{}
		outcomes, count := map[string]int{}, map[string]int{}
		starts, ends, submitter := map[int]row{}, 0, row{}
		for _, e := range one.f.TraceEvents {
			at := row{e.PID, e.TID}
			switch e.Ph {
			case "M":
				if name := fmt.Sprint(e.Args["name"]); e.Name == "process_name" {
					process[e.PID] = name
				} else if e.Name == "thread_name" {
					rows[at] = name
				}
			case "X":
				count[e.Name]++
				outcomes[e.Name+" "+fmt.Sprint(e.Args["outcome"])]++
				if e.Name == "line all" {
					submitter = at
				}
				if e.Name != "line step" {
					continue
				}
				id := fmt.Sprint(e.Args["id"])
				if ids[id] || len(id) != 32 || e.Cat != "task" || e.Dur < 7000 || !strings.HasPrefix(rows[at], "CPU slot ") {
					t.Errorf("%+v on %s", e, rows[at])
				}
				if e.TS < until[at]-0.0005 {
					t.Errorf("%s of %s: a task begins at %v, and another ends at %v", rows[at], process[e.PID], e.TS, until[at])
				}
				ids[id], until[at] = true, e.TS+e.Dur
				nodes[process[e.PID]]++
			case "s":
				starts[e.ID] = at
			case "f":
				if e.Name == "submits" && starts[e.ID] == submitter {
					ends++
				}
			}
		}
		if len(ids) != 1000 || ends != 1000 || len(nodes) != 3 || nodes["a"] < 100 || nodes["b"] < 100 || nodes["c"] < 100 {
			t.Errorf("%d tasks, %d arrows; by node: %v", len(ids), ends, nodes)
		}
		for what, n := range map[string]int{"line step ok": 990, "line step error": 10, "line all ok": 1, "line grain.stay ok": 12, "line forever running": 1} {
			if outcomes[what] != n {
				t.Errorf("%s: %d, want %d", what, outcomes[what], n)
			}
		}
		if one.all.Events < 1014 || one.all.LeftOut != 0 || len(one.all.Silent) != 0 || one.all.For != 20*time.Second || one.f.OtherData["for"] != "20s" {
			t.Errorf("%+v, %v", one.all, one.f.OtherData)
		}

		other := <-second
		calls := 0
		for _, e := range other.f.TraceEvents {
			if e.Ph == "X" {
				if calls++; e.Name != "line grain.stay" || e.Cat != "call" {
					t.Errorf("%+v", e)
				}
			}
		}
		if calls != 12 || other.all.For != 20*time.Second || other.all.Events != 12 {
			t.Errorf("who asked second has %d calls: %+v", calls, other.all)
		}

		// Both have it, so the next is a new one, of less time.
		began := time.Now()
		all, _ := lineOf(t, context.Background(), operator, inspect.TimelineQuery{For: 2 * time.Second})
		if all.For != 2*time.Second || all.Events != 0 || time.Since(began) > 4*time.Second {
			t.Errorf("a third: %+v after %v", all, time.Since(began))
		}

		for _, c := range []struct {
			q    inspect.TimelineQuery
			want string
			is   error
		}{
			{inspect.TimelineQuery{For: time.Millisecond}, "a timeline of 1ms: give 100ms to 1m0s", raysys.ErrBadOption},
			{inspect.TimelineQuery{For: time.Hour}, "a timeline of 1h0m0s: give", raysys.ErrBadOption},
			{inspect.TimelineQuery{Function: "line stop"}, "no node has a function line stop: there are ", raysys.ErrNotFound},
		} {
			if _, err := operator.Timeline(context.Background(), c.q, &bytes.Buffer{}); !errors.Is(err, c.is) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%+v: %v", c.q, err)
			}
		}

		// Who goes away leaves a recording that ends by itself.
		gone, cancel := context.WithTimeout(context.Background(), time.Second)
		if _, err := operator.Timeline(gone, inspect.TimelineQuery{For: 3 * time.Second}, &bytes.Buffer{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		cancel()
		<-time.After(15 * time.Second)
		if all, _ := lineOf(t, context.Background(), operator, inspect.TimelineQuery{For: time.Second}); all.For != time.Second {
			t.Errorf("after one that nobody fetched: %+v", all)
		}
	})
}
