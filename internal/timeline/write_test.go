package timeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// trace is a file as viewers read it.
type trace struct {
	OtherData   map[string]string
	TraceEvents []struct {
		Ph, Name, Cat string
		PID, TID, ID  int
		TS, Dur       float64
		Args          map[string]any
	}
}

func written(t *testing.T, nodes ...Node) (tr trace, text string) {
	t.Helper()
	var b strings.Builder
	if _, err := Write(&b, Head{Cluster: "c\"<", For: time.Second}, nodes); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b.String()), &tr); err != nil {
		t.Fatalf("%v:\n%s", err, b.String())
	}
	return tr, b.String()
}

// shown are the rows, slices, arrows and notes of a file, a line each.
func (tr *trace) shown() (all string) {
	process, row := map[int]string{}, map[int]string{}
	for _, e := range tr.TraceEvents {
		switch at := process[e.PID] + " " + row[e.TID]; e.Ph + e.Name {
		case "Mprocess_name":
			process[e.PID] = fmt.Sprint(e.Args["name"])
		case "Mthread_name":
			row[e.TID] = fmt.Sprint(e.Args["name"])
		default:
			switch e.Ph {
			case "X":
				all += fmt.Sprintf("%s: %v+%v %s %s %v\n", at, e.TS, e.Dur, e.Cat, e.Name, e.Args["outcome"])
			case "s":
				all += fmt.Sprintf("%s: %v arrow %d", at, e.TS, e.ID)
			case "f":
				all += fmt.Sprintf(" to %s: %v %d\n", at, e.TS, e.ID)
			case "i":
				all += fmt.Sprintf("%s: %s\n", process[e.PID], e.Name)
			}
		}
	}
	return all
}

func TestWrite(t *testing.T) {
	root := core.TaskID{Hi: 7, Lo: 7}
	functions := []Function{{Name: "f"}, {Name: "k.m", Call: true}, {Name: "g\"<script>\n"}}
	for _, c := range []struct {
		name  string
		nodes []Node
		want  string
	}{
		{"nothing", nil, ""},
		{"a node with nothing", []Node{{Name: "a"}}, ""},
		{"one slot, another, and one whose row is free", []Node{{Name: "a", Functions: functions, Events: []Event{
			{Of: 0, Seq: 1, Began: 3_000, Took: 1_000, Slot: 5, Outcome: "error"},
			{Of: 0, Seq: 2, Began: 1_000, Took: 2_001, Slot: 5},
			{Of: 2, Seq: 3, Began: 1_500, Took: 9_000, Slot: 6, Outcome: Running},
			{Of: 0, Seq: 4, Began: 9_000, Took: 1_000, Slot: 7},
		}}}, `a CPU slot 1: 0+2.001 task f ok
a CPU slot 2: 0.5+9 task g"<script>
 running
a CPU slot 3: 2+1 task f error
a CPU slot 1: 8+1 task f ok
`},
		{"what lies within, and what does not", []Node{{Name: "a", Functions: functions, Events: []Event{
			{Of: 0, Seq: 1, Began: 0, Took: 10_000, Slot: 1},
			{Of: 0, Seq: 2, Began: 0, Took: 4_000, Slot: 1},
			{Of: 0, Seq: 3, Began: 4_000, Took: 6_000, Slot: 1},
			{Of: 0, Seq: 4, Began: 9_000, Took: 2_000, Slot: 1},
		}}}, `a CPU slot 1: 0+10 task f ok
a CPU slot 1: 0+4 task f ok
a CPU slot 1: 4+6 task f ok
a CPU slot 2: 9+2 task f ok
`},
		{"calls, and arrows between nodes", []Node{
			{Name: "a", Functions: functions, Events: []Event{{Turn: root, Of: 0, Seq: 1, Began: 1_000, Took: 2_000, Slot: 1}}},
			{Name: "b", Functions: functions, Events: []Event{
				{Turn: root.Child(1), Of: 1, Seq: 1, Began: 2_000, Took: 4_000},
				{Turn: root.Child(1), Of: 1, Seq: 2, Began: 5_000, Took: 4_000, Outcome: "cancelled"},
				{Turn: core.TaskID{Hi: 9}, Of: 1, Seq: 2, Began: 0, Took: 1_000},
			}},
		}, `a CPU slot 1: 1+2 task f ok
b grain k: 0+1 call k.m ok
b grain k: 2+4 call k.m ok
b grain k 2: 5+4 call k.m cancelled
a CPU slot 1: 2 arrow 1 to b grain k: 2 1
a CPU slot 1: 2.999 arrow 2 to b grain k 2: 5 2
`},
		{"what is left out", []Node{
			{Name: "a", Begun: 640, LeftOut: 630, Functions: functions, Events: []Event{{Of: 0, Took: 1, Slot: 1}}},
			{Name: "b", Silent: "no answer within 3s"},
		}, `a: left out: 630 of 640 tasks and calls; of about 64 one is here
a CPU slot 1: 0+0.001 task f ok
b: left out: what it has not said: no answer within 3s
`},
	} {
		tr, text := written(t, c.nodes...)
		if got := tr.shown(); got != c.want {
			t.Errorf("%s:\n%swant\n%sfile\n%s", c.name, got, c.want, text)
		}
		for _, n := range c.nodes {
			if tr.OtherData["node "+n.Name] == "" || tr.OtherData["cluster"] != "c\"<" {
				t.Errorf("%s: the head: %v", c.name, tr.OtherData)
			}
		}
	}
}

// TestRows: whatever runs on whatever slot, two events on one row never overlap in part, and where there are too many rows it is said.
func TestRows(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	n := Node{Name: "a", Functions: []Function{{Name: "f"}, {Name: "k.m", Call: true}}}
	for i := range 5000 {
		n.Events = append(n.Events, Event{Of: i % 2, Seq: uint64(i), Began: rnd.Int64N(1000), Took: rnd.Int64N(1 << rnd.IntN(10)), Slot: uint32(rnd.IntN(4) * (1 - i%2))})
	}
	for i := range 2 * maxRows {
		n.Events = append(n.Events, Event{Of: 1, Seq: uint64(i), Began: 1_000_000, Took: 10})
	}
	list := []Node{n}
	tids := 0
	rows := layout(&list[0], &tids)
	open := make([][]int64, len(rows))
	out := 0
	for _, e := range list[0].Events {
		if e.row == noRow {
			out++
			continue
		}
		for o := open[e.row]; len(o) > 0 && o[len(o)-1] <= e.Began; o = open[e.row] {
			open[e.row] = o[:len(o)-1]
		}
		if o := open[e.row]; len(o) > 0 && e.Began+e.Took > o[len(o)-1] {
			t.Fatalf("%+v overlaps what ends at %d", e, o[len(o)-1])
		}
		open[e.row] = append(open[e.row], e.Began+e.Took)
	}
	if out < maxRows || uint64(out) != list[0].LeftOut || list[0].Written != len(list[0].Events)-out || tids != len(rows) {
		t.Errorf("%d left out, said %d; %d written; %d rows", out, list[0].LeftOut, list[0].Written, len(rows))
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestWriteFails: a file that cannot be written is an error.
func TestWriteFails(t *testing.T) {
	if _, err := Write(full{}, Head{}, []Node{{Name: "a"}}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Error(err)
	}
}
