package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/cmd/raysys/internal/client"
	"github.com/raysys/raysys/inspect"
)

// TestWaitsTable: waits are shown from those for which nothing waits down to the work at the end: over mailboxes, in cycles, and where no
// node knows more.
func TestWaitsTable(t *testing.T) {
	on := func(id, name string) inspect.WaitsOn { return inspect.WaitsOn{ID: id, Name: name} }
	call := func(id, grain string) inspect.WaitsOn {
		return inspect.WaitsOn{ID: id, Name: grain + ".pay", Grain: grain}
	}
	blocked := func(id, name string, ons ...inspect.WaitsOn) inspect.Task {
		return inspect.Task{ID: id, Function: name, Node: "a", State: inspect.TaskBlocked, Lasts: time.Minute, On: ons, Open: len(ons)}
	}
	turn := blocked("05", "k/x.pay", on("06", "step"))
	turn.Grain = "k/x"
	many := blocked("01", "main", on("02", "first"), call("03", "k/x"), on("09", "gone"))
	many.Open = 7
	far := inspect.WaitsOn{ID: "0a", Name: "far", Node: "z"}
	all := inspect.Waits{
		Count:  9,
		Waits:  []inspect.Task{turn, many, blocked("02", "first", on("06", "step"), far), blocked("07", "left", on("08", "right")), blocked("08", "right", on("07", "left"))},
		Ends:   []inspect.Task{{ID: "06", Function: "step", Node: "b", State: inspect.TaskWaiting, For: "a CPU", Lasts: time.Millisecond}},
		Silent: []string{"z: no answer within 3s"},
	}
	const want = `main 01 on a: blocked, 1m0s
  first 02 on a: blocked, 1m0s
    step 06 on b: waiting for a CPU, <1s
    far 0a: at node z
  k/x.pay 03: in the mailbox, behind
    k/x.pay 05 on a: blocked, 1m0s
      step 06 on b: waiting for a CPU, <1s, as above
  gone 09: no node says where it is
  and 4 more
left 07 on a: blocked, 1m0s
  right 08 on a: blocked, 1m0s
    left 07 on a: blocked, 1m0s, as above

z: no answer within 3s: what is there is missing
total: 9 tasks and turns that wait for other work; 4 are not listed: raise --limit, or give a filter
`
	var b strings.Builder
	if err := client.WaitsTable(&b, all); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	if client.WaitsTable(full{}, all) == nil || client.TasksTable(full{}, inspect.Tasks{}) == nil || client.GrainsTable(full{}, inspect.Grains{}) == nil {
		t.Error("the writer's error is lost")
	}
}
