package taskengine

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/core"
	"github.com/raysys/raysys/internal/golden"
	"github.com/raysys/raysys/internal/ledger"
	"github.com/raysys/raysys/internal/wire"
)

// The frames of version 1: their bytes never change, since nodes of the next version send and read them.
func TestFramesOfVersion1(t *testing.T) {
	n := ledger.Need{CPU: 500, GPU: 1000, Memory: 1 << 30, Custom: map[string]int64{"licence": 2000, "disk": 500}}
	for name, got := range map[string][]byte{
		"tasks-head": appendTasks(nil, 300),
		"task-plain": appendSlot(appendHead(nil, 7, 1000, taskHead{attempt: 1}), 5),
		"task-full":  appendSlot(appendHead(nil, 7, math.MaxUint64, taskHead{attempt: 3, timeLeft: int64(time.Second), need: &n}), 9<<32|65535),
		"load":       AppendLoad(nil, Load{Queued: 1000, Inbound: 3, Busy: 1.5, Free: 0.5, Mean: time.Millisecond, Draining: true}),
		"load-rest": AppendLoad(nil, Load{Free: 1, Rest: encodeRest(&ledger.Report{
			Memory: 1 << 30, Custom: map[string]int64{"licence": 500}, Devices: []ledger.FreeDevice{{Share: 500, Memory: 40 << 30}, {Sick: true}},
		})}),
		"task-device": appendSlot(appendHead(nil, 7, 1, taskHead{attempt: 1, need: &ledger.Need{CPU: 1000, GPU: 500, GPUMemory: 1 << 30, GPUModel: "H100"}}), 5),
		"task-bundle": appendSlot(appendHead(nil, 7, 1, taskHead{attempt: 1, need: &ledger.Need{CPU: 1000, Bundle: core.Bundle{Group: "p/ns\x00g", Index: 1, Captures: true}}}), 5),
		"task-class":  appendSlot(appendHead(nil, 7, 1, taskHead{attempt: 1, classed: true, class: core.High}), 5),
	} {
		if want := golden.Hex(t, "frames/v1-"+name+".hex", got); !bytes.Equal(got, want) {
			t.Errorf("%s: %x\nwant  %x", name, got, want)
		}
	}
}

func TestTaskHeadRoundTrip(t *testing.T) {
	zone := map[string]string{"zone": "a", "": "", "rack": "7"}
	labels := string(appendLabels(nil, zone))
	if got := readLabels(labels); !maps.Equal(got, zone) {
		t.Errorf("got %v", got)
	}
	if got := readLabels(labels[:len(labels)-1]); len(got) != 2 {
		t.Errorf("of labels cut off: %v", got)
	}
	for _, h := range []taskHead{
		{attempt: 1},
		{attempt: 2},
		{attempt: 1, timeLeft: 1},
		{attempt: 9, timeLeft: math.MaxInt32, need: &ledger.Need{CPU: 1, GPU: 2, Memory: 3, Custom: map[string]int64{"a": 1, "b": 2}}},
		{attempt: 1, need: &ledger.Need{}},
		{attempt: 1, need: &ledger.Need{GPU: 2000, GPUMemory: 80 << 30, GPUModel: "H100"}},
		{attempt: 1, need: &ledger.Need{GPU: 500, GPUModel: "H100"}, remakes: true},
		{attempt: 4, remakes: true},
		{attempt: 1, classed: true, class: core.High},
		{attempt: 1, classed: true},
		{attempt: 1, need: &ledger.Need{CPU: 1000, GPU: 1000, GPUMemory: 1, Bundle: core.Bundle{Group: "p/ns\x00g", Index: core.AnyBundle}}},
		{attempt: 2, classed: true, class: core.Low, remakes: true, need: &ledger.Need{GPU: 500, GPUModel: "H100"}},
		{attempt: 1, labels: labels},
		{attempt: 1, stays: true, need: &ledger.Need{GPU: 500, GPUModel: "H100", Bundle: core.Bundle{Group: "p/ns\x00g", Index: 2}}, labels: labels},
	} {
		r := wire.NewReader(appendSlot(appendHead(nil, 3, 4, h), 5<<32|6))
		fn, seq, got, err := readTask(&r)
		slot := readSlot(&r)
		if err != nil || fn != 3 || seq != 4 || slot != 5<<32|6 || r.Len() != 0 || r.Err() != nil {
			t.Errorf("%+v: function %d, sequence %d, slot %x, %v", h, fn, seq, slot, err)
		}
		if d := cmp.Diff(h, got, cmp.AllowUnexported(taskHead{})); d != "" {
			t.Error(d)
		}
	}
}

// What a later version adds to a task is skipped; a flag that is not known is not, nor is what is missing.
func TestTaskOfALaterVersion(t *testing.T) {
	b := []byte{3, 4, taskAttempt | taskMore, 2, 7, 0, 0, 'l', 'a', 't', 'e', 'r', 6, 0}
	r := wire.NewReader(b)
	fn, seq, h, err := readTask(&r)
	if slot := readSlot(&r); err != nil || fn != 3 || seq != 4 || h.attempt != 2 || slot != 6 || r.Len() != 0 {
		t.Errorf("got %d %d %+v %d, %v", fn, seq, h, slot, err)
	}
	for _, b := range [][]byte{{3, 4, 0x80, 1, 2, 3}, {3, 4, taskMore, 1, 0, 6, 0}, {3, 4, taskMore, 0, 6, 0}} {
		r = wire.NewReader(b)
		if _, _, _, err := readTask(&r); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("%v: got %v", b, err)
		}
	}
}

func TestLoadRoundTrip(t *testing.T) {
	rest := encodeRest(&ledger.Report{Memory: 9})
	for _, l := range []Load{
		{},
		{Queued: 1, Inbound: 2, Busy: 3.5, Free: 4.25, Mean: 5, Draining: true},
		{Mean: 5, Bandwidth: 7},
		{Rest: rest},
		{Queued: 5, Inbound: 4, Shaped: 3, InboundShaped: 2},
		{Busy: 2, Rest: rest, Held: 1.057},
		{Line: 3 * time.Hour},
		{Queued: 5, Shaped: 3, Rest: rest, Held: 2, Line: time.Second},
		{Inbound: 3, InboundShaped: 1, Parked: 2},
		{Busy: 4, Held: 4, Shared: 2.5},
		{Inbound: 3, Parked: 1, Busy: 4, Held: 2, Shared: 2},
	} {
		b := AppendLoad(nil, l)
		b = append(b, 99) // what follows
		r := wire.NewReader(b)
		got, err := ReadLoad(&r)
		if err != nil || got != l || r.Byte() != 99 {
			t.Errorf("got %+v, %v; want %+v", got, err, l)
		}
		r = wire.NewReader(append([]byte{b[0] + 1}, append(b[1:len(b)-1:len(b)-1], 42)...)) // with a field more
		if got, err := ReadLoad(&r); err != nil || got != l || r.Len() != 0 {
			t.Errorf("with a field more: got %+v, %v", got, err)
		}
		for i := range len(b) - 1 {
			r := wire.NewReader(b[:i])
			if _, err := ReadLoad(&r); err == nil {
				t.Errorf("%d bytes of it are accepted", i)
			}
		}
	}
}

func FuzzReadTask(f *testing.F) {
	f.Add(appendSlot(appendHead(nil, 3, 4, taskHead{attempt: 2, timeLeft: 5, need: &ledger.Need{CPU: 1, Custom: map[string]int64{"a": 1}}}), 7))
	f.Add([]byte{3, 4, taskMore, 200})
	f.Add(appendHead(nil, 3, 4, taskHead{attempt: 1, labels: string(appendLabels(nil, map[string]string{"zone": "a"}))}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		fn, seq, h, err := readTask(&r)
		if err != nil {
			return
		}
		if h.timeLeft < 0 || h.need != nil && (h.need.CPU < 0 || h.need.GPU < 0 || h.need.Memory < 0) {
			t.Errorf("negative: %+v", h)
		}
		again := wire.NewReader(appendHead(nil, fn, seq, h))
		if fn2, seq2, h2, err := readTask(&again); err != nil || fn2 != fn || seq2 != seq || h2.timeLeft != h.timeLeft {
			t.Errorf("%+v came back as %+v, %v", h, h2, err)
		}
	})
}

func FuzzReadLoad(f *testing.F) {
	f.Add(AppendLoad(nil, Load{Queued: 1, Mean: time.Second, Draining: true}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		l, err := ReadLoad(&r)
		if err == nil && (l.Queued < 0 || l.Inbound < 0 || l.Busy < 0 || l.Free < 0 || l.Mean < 0 || l.Line < 0) {
			t.Errorf("negative: %+v", l)
		}
	})
}
