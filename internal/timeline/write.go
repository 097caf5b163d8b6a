package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/raysys/raysys/internal/core"
)

// Event is one run of a task, or one turn of a call. Nodes send it.
type Event struct {
	Turn    core.TaskID `json:"t"` // that submitted it, whose id is that of its own task or call
	Seq     uint64      `json:"n"`
	Of      int         `json:"f"` // in the functions of the node
	Began   int64       `json:"b"` // in nanoseconds, of Unix time once it is in a Node
	Took    int64       `json:"d"`
	Slot    uint32      `json:"s,omitempty"`
	Outcome string      `json:"o,omitempty"` // "" for ok, Running where it had not ended

	row int32 // noRow where there is none left
}

const (
	// Running is the Outcome of what had not ended when the recording did.
	Running = "running"
	noRow   = -1
	// maxRows bounds the rows of one kind of grain, and those of CPU slots.
	maxRows = 1000
)

// Function is what ran: a task's function, or a method as kind.method.
type Function struct {
	Name string `json:"name"`
	Call bool   `json:"call,omitempty"`
}

// Node is what one node has recorded.
type Node struct {
	Name      string
	Functions []Function
	Events    []Event // Write sorts them
	Begun     uint64  // runs that began in the time
	LeftOut   uint64  // those of them that were not recorded; Write adds those for which there is no row
	Silent    string  // why there is nothing of the node, or not all
	Written   int     // set by Write: how many of Events are in the file
}

// Head is what the file says of itself.
type Head struct {
	Cluster, Function string
	For               time.Duration
}

// row is one line of a process in the file. What runs on a slot keeps to its row.
type row struct {
	name string
	tid  int
	slot uint32
	ends []int64 // of the events that the next may lie within, the innermost last
}

// Write writes the file, and returns when the first event began.
func Write(w io.Writer, head Head, nodes []Node) (began time.Time, err error) {
	out := bufio.NewWriterSize(w, 64<<10)
	first, tids := int64(math.MaxInt64), 0
	rows := make([][]row, len(nodes))
	for i := range nodes {
		rows[i] = layout(&nodes[i], &tids)
		if list := nodes[i].Events; len(list) > 0 {
			first = min(first, list[0].Began)
		}
	}
	if first == math.MaxInt64 {
		first = 0
	}
	began = time.Unix(0, first)
	fmt.Fprintf(out, `{"displayTimeUnit":"ms","otherData":{"cluster":%s,"for":"%v","function":%s,"began":"%s"`, quoted(head.Cluster), head.For, quoted(head.Function), began.UTC().Format(time.RFC3339Nano))
	for i := range nodes {
		fmt.Fprintf(out, `,%s:%s`, quoted("node "+nodes[i].Name), quoted(says(&nodes[i])))
	}
	out.WriteString("},\"traceEvents\":[\n{\"ph\":\"M\",\"pid\":0,\"name\":\"process_labels\",\"args\":{\"labels\":\"raysys\"}}")
	for i := range nodes {
		writeNode(out, &nodes[i], i+1, rows[i], first)
	}
	flows(out, nodes, rows, first)
	out.WriteString("\n]}\n")
	return began, out.Flush() // which has the error of all before
}

// says is what a node has in the file, and what not.
func says(n *Node) string {
	switch kept := n.Begun - n.LeftOut; {
	case n.Silent != "":
		return "left out: what it has not said: " + n.Silent
	case n.LeftOut > 0:
		return fmt.Sprintf("left out: %d of %d tasks and calls; of about %d one is here", n.LeftOut, n.Begun, (n.Begun+kept/2)/max(kept, 1))
	}
	return fmt.Sprintf("all %d tasks and calls", n.Begun)
}

// layout sorts the events and gives each a row.
func layout(n *Node, tids *int) (rows []row) {
	slices.SortFunc(n.Events, func(a, b Event) int { return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(b.Took, a.Took)) })
	last := map[uint32]int64{} // when the last event of a slot begins
	for i := range n.Events {
		last[n.Events[i].Slot] = n.Events[i].Began
	}
	groups := map[string][]int{} // indices of rows
	for i := range n.Events {
		e := &n.Events[i]
		group, call := "CPU slot", n.Functions[e.Of].Call
		if call {
			kind := n.Functions[e.Of].Name
			group = "grain " + kind[:max(strings.LastIndexByte(kind, '.'), 0)]
		}
		to := noRow
		for _, j := range groups[group] {
			r := &rows[j]
			for len(r.ends) > 0 && r.ends[len(r.ends)-1] <= e.Began {
				r.ends = r.ends[:len(r.ends)-1]
			}
			within := len(r.ends) == 0 || e.Began+e.Took <= r.ends[len(r.ends)-1]
			if !call && r.slot == e.Slot && within {
				to = j
				break
			}
			if to == noRow && len(r.ends) == 0 && (call || last[r.slot] < e.Began) {
				to = j
			}
		}
		if number := len(groups[group]) + 1; to == noRow && number <= maxRows {
			*tids++
			name := fmt.Sprintf("%s %d", group, number)
			if call && number == 1 {
				name = group
			}
			to, rows = len(rows), append(rows, row{name: name, tid: *tids})
			groups[group] = append(groups[group], to)
		}
		if e.row = int32(to); to == noRow {
			n.LeftOut++
			continue
		}
		n.Written++
		rows[to].slot, rows[to].ends = e.Slot, append(rows[to].ends, e.Began+e.Took)
	}
	return rows
}

func writeNode(out *bufio.Writer, n *Node, pid int, rows []row, first int64) {
	fmt.Fprintf(out, ",\n"+`{"ph":"M","pid":%d,"name":"process_name","args":{"name":%s}}`, pid, quoted(n.Name))
	fmt.Fprintf(out, ",\n"+`{"ph":"M","pid":%d,"name":"process_sort_index","args":{"sort_index":%d}}`, pid, pid)
	if n.LeftOut > 0 || n.Silent != "" {
		fmt.Fprintf(out, ",\n"+`{"ph":"i","s":"p","pid":%d,"tid":0,"ts":0,"name":%s}`, pid, quoted(says(n)))
	}
	for i := range rows {
		sort := i
		if rows[i].slot == 0 {
			sort += maxRows // grains below the CPUs
		}
		fmt.Fprintf(out, ",\n"+`{"ph":"M","pid":%d,"tid":%d,"name":"thread_name","args":{"name":%s}}`, pid, rows[i].tid, quoted(rows[i].name))
		fmt.Fprintf(out, ",\n"+`{"ph":"M","pid":%d,"tid":%d,"name":"thread_sort_index","args":{"sort_index":%d}}`, pid, rows[i].tid, sort)
	}
	names := make([]string, len(n.Functions))
	for i, f := range n.Functions {
		names[i] = quoted(f.Name)
	}
	for i := range n.Events {
		e := &n.Events[i]
		if e.row == noRow {
			continue
		}
		cat, colour := "task", ""
		if n.Functions[e.Of].Call {
			cat = "call"
		}
		switch e.Outcome {
		case "", Running:
		default:
			colour = `"cname":"terrible",`
		}
		fmt.Fprintf(out, ",\n"+`{"ph":"X","pid":%d,"tid":%d,"ts":%s,"dur":%s,"cat":"%s",%s"name":%s,"args":{"id":"%v","submitter":"%v","outcome":%s}}`,
			pid, rows[e.row].tid, micros(e.Began-first), micros(e.Took), cat, colour, names[e.Of], e.Turn.Child(e.Seq), e.Turn, quoted(cmp.Or(e.Outcome, "ok")))
	}
}

// flows writes the arrows. One begins where its task began, or within the submitter where that has ended before, or a clock is late.
func flows(out *bufio.Writer, nodes []Node, rows [][]row, first int64) {
	type place struct{ node, event int32 }
	by := map[core.TaskID]place{}
	for i := range nodes {
		for j := range nodes[i].Events {
			if e := &nodes[i].Events[j]; e.row != noRow {
				by[e.Turn.Child(e.Seq)] = place{int32(i), int32(j)}
			}
		}
	}
	id := 0
	for i := range nodes {
		for j := range nodes[i].Events {
			e := &nodes[i].Events[j]
			p, ok := by[e.Turn]
			if !ok || e.row == noRow {
				continue
			}
			id++
			from := &nodes[p.node].Events[p.event]
			at := max(min(e.Began, from.Began+from.Took-1), from.Began)
			fmt.Fprintf(out, ",\n"+`{"ph":"s","id":%d,"pid":%d,"tid":%d,"ts":%s,"cat":"submits","name":"submits"}`, id, p.node+1, rows[p.node][from.row].tid, micros(at-first))
			fmt.Fprintf(out, ",\n"+`{"ph":"f","bp":"e","id":%d,"pid":%d,"tid":%d,"ts":%s,"cat":"submits","name":"submits"}`, id, i+1, rows[i][e.row].tid, micros(e.Began-first))
		}
	}
}

// micros is a time as traces have it, to the nanosecond.
func micros(ns int64) string { return fmt.Sprintf("%d.%03d", ns/1000, ns%1000) }

func quoted(s string) string {
	b, _ := json.Marshal(s) // no string fails
	return string(b)
}
