package devices

import (
	"crypto/sha256"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Fake is a Library of GPUs that are made up, for tests and for clusters on hosts without any. Its GPUs fail on command.
type Fake struct {
	file   string // of faults; empty: none
	events chan Event

	mu   sync.Mutex // guards what follows
	gpus []*fakeGPU
	read string // what was last in the file
}

// faultPause is how often a Fake looks at its file of faults.
const faultPause = 100 * time.Millisecond

// FakeUUID is what the UUID of a made-up GPU begins with.
const FakeUUID = "GPU-00000000-"

// NewFake makes the GPUs of a name, which is that of a machine (dgx1: eight V100 with uneven links), or that of a model and a
// number: h100x8. After an @ there may be the path of a file of faults: h100x8@/tmp/faults. It has a line "GPU FAULT" for each
// GPU that fails, with a fault as Fault takes it, and is looked at several times a second; a GPU without a line is well.
//
// The host is part of the UUIDs. The same name on the same host has the same UUIDs again.
func NewFake(name, host string) (*Fake, error) {
	spec, err := parseFake(name)
	if err != nil {
		return nil, err
	}
	f := &Fake{file: spec.file, events: make(chan Event, maxEvents)}
	address := func(i int) string { return fmt.Sprintf("0000:%02x:00.0", 6+i) }
	for i := range spec.count {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %d", host, name, i))
		g := &fakeGPU{fake: f, description: Description{Devices: []Device{{
			UUID:  fmt.Sprintf("%s%x-%x-%x-%x", FakeUUID, sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
			Model: spec.model.name, Memory: spec.model.memory, Index: i, PCI: address(i), NUMA: i * 2 / max(spec.count, 2),
		}}}}
		for j, n := range spec.links(i) {
			for range n {
				g.description.Links = append(g.description.Links, Link{Remote: address(j)})
			}
		}
		f.gpus = append(f.gpus, g)
	}
	return f, nil
}

// GPUs implements Library.
func (f *Fake) GPUs() ([]GPU, error) {
	list := make([]GPU, len(f.gpus))
	for i, g := range f.gpus {
		list[i] = g
	}
	return list, nil
}

// Wait implements Library. With a file of faults it looks there meanwhile.
func (f *Fake) Wait(limit time.Duration) (Event, bool, error) {
	end := time.NewTimer(limit)
	defer end.Stop()
	var look <-chan time.Time
	if f.file != "" {
		t := time.NewTicker(faultPause)
		defer t.Stop()
		look = t.C
	}
	for {
		select {
		case e := <-f.events:
			return e, true, nil
		case <-look:
			if f.reread() {
				return Event{}, false, nil // the GPUs are asked now
			}
		case <-end.C:
			return Event{}, false, nil
		}
	}
}

// reread takes the faults of the file when it changed. A line that cannot be meant becomes the fault of all GPUs, so that it is
// seen.
func (f *Fake) reread() (changed bool) {
	b, err := os.ReadFile(f.file)
	if err != nil {
		b = nil // no file, no faults
	}
	text := string(b)
	f.mu.Lock()
	defer f.mu.Unlock()
	if text == f.read {
		return false
	}
	f.read = text
	faults := make([]string, len(f.gpus))
	for line := range strings.Lines(text) {
		number, fault, _ := strings.Cut(strings.TrimSpace(line), " ")
		i, err := strconv.Atoi(number)
		if err != nil || i < 0 || i >= len(faults) || checkFault(fault) != nil {
			for i := range faults {
				faults[i] = fmt.Sprintf("error %s: line %q: give GPU FAULT", f.file, strings.TrimSpace(line))
			}
			break
		}
		faults[i] = fault
	}
	for i, fault := range faults {
		f.set(i, fault)
	}
	return true
}

// Fault makes a GPU fail, by its place, until it is given another fault:
//
//	well       nothing
//	ecc        it has an uncorrectable ECC error
//	lost       the driver has lost it
//	hang       it does not answer
//	busy 70    it computes 70 percent of the time, and is well
//	xid 79     the driver reports this Xid of it, once
//	error TEXT every call ends with this
func (f *Fake) Fault(gpu int, fault string) error {
	if gpu < 0 || gpu >= len(f.gpus) {
		return fmt.Errorf("fault of GPU %d: there are GPUs 0 to %d", gpu, len(f.gpus)-1)
	}
	if err := checkFault(fault); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(gpu, fault)
	return nil
}

// set changes the fault of a GPU. f.mu is held.
func (f *Fake) set(gpu int, fault string) {
	g := f.gpus[gpu]
	if fault == g.fault {
		return
	}
	g.fault = fault
	if g.hang != nil {
		close(g.hang)
		g.hang = nil
	}
	if fault == "hang" {
		g.hang = make(chan struct{})
	}
	if xid, ok := strings.CutPrefix(fault, "xid "); ok {
		n, _ := strconv.ParseUint(xid, 10, 64)
		select {
		case f.events <- Event{GPU: gpu, Xid: n}:
		default: // there are more than a watcher hears at once
		}
	}
}

// checkFault reports what Fault would not take.
func checkFault(fault string) error {
	word, value, _ := strings.Cut(fault, " ")
	ok := slices.Contains([]string{"", "well", "ecc", "lost", "hang"}, fault) || word == "error"
	switch word {
	case "xid":
		_, err := strconv.ParseUint(value, 10, 64)
		ok = err == nil
	case "busy":
		n, err := strconv.Atoi(value)
		ok = err == nil && n >= 0 && n <= 100
	}
	if !ok {
		return fmt.Errorf("fault %q: give well, ecc, lost, hang, busy PERCENT, xid NUMBER or error TEXT", fault)
	}
	return nil
}

// fakeGPU is one GPU of a Fake, whose mutex guards fault and hang.
type fakeGPU struct {
	fake        *Fake
	description Description
	fault       string
	hang        chan struct{} // closed when the GPU answers again; nil while it does
}

// Describe implements GPU.
func (g *fakeGPU) Describe() (Description, error) {
	if g.fake.file != "" {
		g.fake.reread()
	}
	return g.description, nil
}

// Sample implements GPU.
func (g *fakeGPU) Sample() (Sample, error) {
	for {
		g.fake.mu.Lock()
		fault, hang := g.fault, g.hang
		g.fake.mu.Unlock()
		if hang != nil {
			<-hang
			continue
		}
		s := Sample{Uses: []Use{{}}}
		word, value, _ := strings.Cut(fault, " ")
		switch word {
		case "ecc":
			s.Uncorrectable = 1
		case "lost":
			return Sample{}, ErrLost
		case "error":
			return Sample{}, fmt.Errorf("%s", value)
		case "busy":
			s.Uses[0].Busy, _ = strconv.Atoi(value)
		}
		return s, nil
	}
}
