package ledger

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/core"
)

// TestCarveTogether: whole devices of bundles that are carved at once are chosen at once, what few devices do for is carved first, and
// where one part has no room nothing is held.
func TestCarveTogether(t *testing.T) {
	models := []string{"A100", "H100", "H100", "A100", "H100"}
	var devices []Device
	for i, m := range models {
		devices = append(devices, Device{UUID: string(rune('a' + i)), Model: m})
	}
	var asked [][2]int // how many are free, and how many of them are chosen
	l := &Line{}
	l.Init(Need{CPU: 4000}, devices, Hooks{
		Queue: func() (pushed, popped uint64) { return 0, 0 }, Now: func() int64 { return 0 }, Freed: func() {}, Above: func(Standing) (above, less bool) { return false, false },
		Choose: func(free []int, n int) []int { // the last
			asked = append(asked, [2]int{len(free), n})
			return append([]int(nil), free[len(free)-n:]...)
		},
	})
	part := func(index int, gpu int64, model string) Part {
		return Part{core.Bundle{Group: "g", Index: index}, Need{GPU: gpu, GPUModel: model}}
	}
	fresh := l.Spares()
	if _, without, short := l.Carve(part(0, 1000, ""), part(1, 3000, "A100"), part(2, 2000, "")); without != 1 || !short.GPU {
		t.Errorf("three devices of a model of which there are two: part %d has no room, %+v", without, short)
	}
	if _, without, short := l.Carve(part(0, 3000, "H100"), part(1, 1000, ""), part(2, 2000, "")); without < 1 || !short.GPU {
		t.Errorf("six devices of five: part %d has no room, %+v", without, short)
	}
	if diff := cmp.Diff(fresh, l.Spares()); diff != "" {
		t.Errorf("devices are held after a refusal:\n%s", diff)
	}
	asked = nil
	list, _, short := l.Carve(part(0, 1000, ""), part(1, 500, ""), part(2, 1000, "A100"), part(3, 2000, ""))
	if !short.Empty() {
		t.Fatalf("there is room for all, and it is refused: %+v", short)
	}
	var got []string
	for _, b := range list {
		uuids := ""
		for _, s := range b.Spares() {
			uuids += s.UUID
		}
		got = append(got, uuids)
	}
	if diff := cmp.Diff([]string{"b", "a", "d", "ce"}, got); diff != "" {
		t.Errorf("the bundles have other devices:\n%s", diff)
	}
	if diff := cmp.Diff([][2]int{{2, 1}, {4, 3}, {3, 2}}, asked); diff != "" {
		t.Errorf("other choices were made:\n%s", diff)
	}
	inside := &inside{}
	if ok, _ := l.PushIn(in(3, Need{GPU: 1000}), inside); !ok || inside.hold == nil {
		t.Fatal("a bundle of two devices has no room for one")
	}
	if diff := cmp.Diff([]string{"e"}, l.Devices(inside.hold)); diff != "" {
		t.Errorf("work in a bundle has another device than the one chosen:\n%s", diff)
	}
	for _, b := range list {
		b.Close(nil, func() {})
	}
	l.Return(inside.hold)
	if diff := cmp.Diff(fresh, l.Spares()); diff != "" {
		t.Errorf("devices are held after all:\n%s", diff)
	}
}
