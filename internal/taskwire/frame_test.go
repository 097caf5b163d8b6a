package taskwire

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
		"tasks-head":  AppendTasks(nil, 300),
		"task-plain":  AppendSlot(AppendHead(nil, 7, 1000, Head{Attempt: 1}), 5),
		"task-full":   AppendSlot(AppendHead(nil, 7, math.MaxUint64, Head{Attempt: 3, TimeLeft: int64(time.Second), Need: &n}), 9<<32|65535),
		"task-device": AppendSlot(AppendHead(nil, 7, 1, Head{Attempt: 1, Need: &ledger.Need{CPU: 1000, GPU: 500, GPUMemory: 1 << 30, GPUModel: "H100"}}), 5),
		"task-bundle": AppendSlot(AppendHead(nil, 7, 1, Head{Attempt: 1, Need: &ledger.Need{CPU: 1000, Bundle: core.Bundle{Group: "p/ns\x00g", Index: 1, Captures: true}}}), 5),
		"task-class":  AppendSlot(AppendHead(nil, 7, 1, Head{Attempt: 1, Classed: true, Class: core.High}), 5),
	} {
		if want := golden.Hex(t, "frames/v1-"+name+".hex", got); !bytes.Equal(got, want) {
			t.Errorf("%s: %x\nwant  %x", name, got, want)
		}
	}
}

func TestTaskHeadRoundTrip(t *testing.T) {
	zone := map[string]string{"zone": "a", "": "", "rack": "7"}
	labels := string(AppendLabels(nil, zone))
	if got := ReadLabels(labels); !maps.Equal(got, zone) {
		t.Errorf("got %v", got)
	}
	if got := ReadLabels(labels[:len(labels)-1]); len(got) != 2 {
		t.Errorf("of labels cut off: %v", got)
	}
	for _, h := range []Head{
		{Attempt: 1},
		{Attempt: 2},
		{Attempt: 1, TimeLeft: 1},
		{Attempt: 9, TimeLeft: math.MaxInt32, Need: &ledger.Need{CPU: 1, GPU: 2, Memory: 3, Custom: map[string]int64{"a": 1, "b": 2}}},
		{Attempt: 1, Need: &ledger.Need{}},
		{Attempt: 1, Need: &ledger.Need{GPU: 2000, GPUMemory: 80 << 30, GPUModel: "H100"}},
		{Attempt: 1, Need: &ledger.Need{GPU: 500, GPUModel: "H100"}, Remakes: true},
		{Attempt: 4, Remakes: true},
		{Attempt: 1, Classed: true, Class: core.High},
		{Attempt: 1, Classed: true},
		{Attempt: 1, Need: &ledger.Need{CPU: 1000, GPU: 1000, GPUMemory: 1, Bundle: core.Bundle{Group: "p/ns\x00g", Index: core.AnyBundle}}},
		{Attempt: 2, Classed: true, Class: core.Low, Remakes: true, Need: &ledger.Need{GPU: 500, GPUModel: "H100"}},
		{Attempt: 1, Labels: labels},
		{Attempt: 1, Placed: true},
		{Attempt: 2, Placed: true, Stays: true, Labels: labels},
		{Attempt: 1, Stays: true, Need: &ledger.Need{GPU: 500, GPUModel: "H100", Bundle: core.Bundle{Group: "p/ns\x00g", Index: 2}}, Labels: labels},
	} {
		r := wire.NewReader(AppendSlot(AppendHead(nil, 3, 4, h), 5<<32|6))
		fn, seq, got, err := ReadTask(&r)
		slot := ReadSlot(&r)
		if err != nil || fn != 3 || seq != 4 || slot != 5<<32|6 || r.Len() != 0 || r.Err() != nil {
			t.Errorf("%+v: function %d, sequence %d, slot %x, %v", h, fn, seq, slot, err)
		}
		if d := cmp.Diff(h, got, cmp.AllowUnexported(Head{})); d != "" {
			t.Error(d)
		}
	}
}

// What a later version adds to a task is skipped; a flag that is not known is not, nor is what is missing.
func TestTaskOfALaterVersion(t *testing.T) {
	b := []byte{3, 4, taskAttempt | taskMore, 2, 7, 0, 0, 'l', 'a', 't', 'e', 'r', 6, 0}
	r := wire.NewReader(b)
	fn, seq, h, err := ReadTask(&r)
	if slot := ReadSlot(&r); err != nil || fn != 3 || seq != 4 || h.Attempt != 2 || slot != 6 || r.Len() != 0 {
		t.Errorf("got %d %d %+v %d, %v", fn, seq, h, slot, err)
	}
	for _, b := range [][]byte{{3, 4, 0x80, 1, 2, 3}, {3, 4, taskMore, 1, 0, 6, 0}, {3, 4, taskMore, 0, 6, 0}} {
		r = wire.NewReader(b)
		if _, _, _, err := ReadTask(&r); !errors.Is(err, wire.ErrCorrupt) {
			t.Errorf("%v: got %v", b, err)
		}
	}
}

func FuzzReadTask(f *testing.F) {
	f.Add(AppendSlot(AppendHead(nil, 3, 4, Head{Attempt: 2, TimeLeft: 5, Need: &ledger.Need{CPU: 1, Custom: map[string]int64{"a": 1}}}), 7))
	f.Add([]byte{3, 4, taskMore, 200})
	f.Add(AppendHead(nil, 3, 4, Head{Attempt: 1, Labels: string(AppendLabels(nil, map[string]string{"zone": "a"}))}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := wire.NewReader(b)
		fn, seq, h, err := ReadTask(&r)
		if err != nil {
			return
		}
		if h.TimeLeft < 0 || h.Need != nil && (h.Need.CPU < 0 || h.Need.GPU < 0 || h.Need.Memory < 0) {
			t.Errorf("negative: %+v", h)
		}
		again := wire.NewReader(AppendHead(nil, fn, seq, h))
		if fn2, seq2, h2, err := ReadTask(&again); err != nil || fn2 != fn || seq2 != seq || h2.TimeLeft != h.TimeLeft {
			t.Errorf("%+v came back as %+v, %v", h, h2, err)
		}
	})
}
