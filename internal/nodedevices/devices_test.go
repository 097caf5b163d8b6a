package nodedevices

import (
	"fmt"
	"strings"
	"testing"

	"github.com/raysys/raysys"
)

// TestComplete: the devices of a node, by what its program gives.
func TestComplete(t *testing.T) {
	for _, c := range []struct {
		name    string
		r       raysys.Resources
		given   []raysys.Device
		visible string
		want    string // UUID:share of each, and the GPUs
		err     string
	}{
		{name: "none", want: " 0"},
		{name: "a number", r: raysys.Resources{GPU: 2}, want: "0:1000 1:1000 2"},
		{name: "part of one", r: raysys.Resources{GPU: 1.5}, want: "0:1000 1:500 1.5"},
		{name: "names of the variable", r: raysys.Resources{GPU: 2}, visible: "GPU-a,GPU-b,GPU-c", want: "GPU-a:1000 GPU-b:1000 2"},
		{name: "fewer names", r: raysys.Resources{GPU: 2}, visible: "GPU-a", err: "names 1: offer no more"},
		{name: "a model of none", r: raysys.Resources{GPUModel: "A100"}, err: "say how many"},
		{name: "more than a record holds", r: raysys.Resources{GPU: 1e6}, err: "give 0 to"},
		{name: "given", given: []raysys.Device{{UUID: "x"}, {UUID: "y", Share: 0.25}}, want: "x:1000 y:250 1.25"},
		{name: "given, and their number", r: raysys.Resources{GPU: 1}, given: []raysys.Device{{UUID: "x"}}, want: "x:1000 1"},
		{name: "another number", r: raysys.Resources{GPU: 2}, given: []raysys.Device{{UUID: "x"}}, err: "leave GPU out"},
		{name: "the same twice", given: []raysys.Device{{UUID: "x"}, {UUID: "x"}}, err: `Config.Devices[1] has UUID "x"`},
		{name: "a share of more than all", given: []raysys.Device{{UUID: "x", Share: 2}}, err: "0.001 to 1"},
	} {
		list, err := Complete(&c.r, c.given, c.visible)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want an error with %q", c.name, err, c.err)
			}
			continue
		}
		var names []string
		for _, d := range Ledger(list) {
			names = append(names, fmt.Sprintf("%s:%d", d.UUID, d.Share))
		}
		if got := fmt.Sprintf("%s %g", strings.Join(names, " "), c.r.GPU); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

// TestPlacement: in a view all that a node has of its devices is free.
func TestPlacement(t *testing.T) {
	list := Placement([]raysys.Device{{UUID: "x", Memory: 7}, {UUID: "y", Share: 0.5}})
	if len(list) != 2 || list[0].FreeShare != 1 || list[0].FreeMemory != 7 || list[1].FreeShare != 0.5 {
		t.Errorf("got %+v", list)
	}
}

// TestWatch: who watches devices hears once, of the first that is sick, and at once of one that is sick already; not after stop, and of no
// other device.
func TestWatch(t *testing.T) {
	var h Health
	var heard []string
	watch := func(who string, uuids ...string) (stop func()) {
		return h.Watch(uuids, func(uuid, cause string) { heard = append(heard, who+" "+uuid+" "+cause) })
	}
	set := func(uuid, cause string, news bool) {
		t.Helper()
		tell, isNews := h.set(uuid, cause)
		if isNews != news {
			t.Errorf("that %s is %q is news: %v", uuid, cause, isNews)
		}
		if tell != nil {
			tell()
		}
	}
	watch("first", "x", "y")
	watch("stopped", "x")()
	watch("other", "z")
	set("x", "hot", true)
	set("x", "hot", false)
	set("y", "lost", true)
	watch("late", "y")
	set("x", "", true)
	watch("well", "x")
	if got, want := strings.Join(heard, ", "), "first x hot, late y lost"; got != want {
		t.Errorf("heard %q, want %q", got, want)
	}
}
