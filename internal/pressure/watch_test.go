package pressure

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/hostmemory"
	"github.com/raysys/raysys/internal/loadreport"
)

// machine is a process whose memory is garbage, what its grains take, and what is neither.
type machine struct {
	*Watch
	garbage, other, each int64 // bytes
	grains, fixed        int   // those that may go, and those that may not
	again                int   // of those that went
	gone                 int
	refused              error
	told                 []loadreport.Memory
	freed                int
	now                  time.Time
	lines                []Short
}

func newMachine() *machine {
	m := &machine{each: 1, now: time.Unix(1000, 0)}
	m.Watch = &Watch{
		Node: "n1", Gauge: hostmemory.Gauge{Limit: 1000}, Warn: func(s Short) { m.lines = append(m.lines, s) },
		Used: func() int64 { return m.garbage + m.other + m.each*int64(m.grains+m.fixed) },
		Free: func() { m.garbage = 0; m.freed++ }, Waste: func() int64 { return m.garbage },
		Grains: Grains{
			Unload: func(share float64) (int, map[string]map[string]int) {
				n := min(m.grains, int(share*float64(m.grains+m.fixed))+1)
				m.grains -= n
				m.gone += n
				return n, map[string]map[string]int{"cart": {"with timers": m.fixed}}
			},
			Wanted:  func() (int, int) { return m.again, m.gone },
			Refuse:  func(err error) { m.refused = err },
			Changed: func() { m.told = append(m.told, MemoryOf(m.Watch)) },
		},
	}
	return m
}

// looks is so many looks, one for each round.
func (m *machine) looks(n int) {
	for range n {
		m.now = m.now.Add(roundEvery)
		m.Look(m.now)
	}
}

// TestIdleGrainsGo: from 80 % on idle grains go, until less than 75 % is used.
func TestIdleGrainsGo(t *testing.T) {
	m := newMachine()
	m.grains = 799
	if m.looks(3); m.gone != 0 || m.freed != 0 || len(m.told) != 0 {
		t.Fatalf("below 80 %% %d grains went, memory was freed %d times, and %v was told", m.gone, m.freed, m.told)
	}
	m.grains = 810
	m.looks(1)
	if want := 41; m.gone != want || MemoryOf(m.Watch) != loadreport.Crowded {
		t.Fatalf("%d grains went in a look, want %d; the node is %v", m.gone, want, MemoryOf(m.Watch))
	}
	for range 9 { // between rounds
		m.now = m.now.Add(lookEvery)
		m.Look(m.now)
	}
	if m.gone != 41 || m.freed != 0 {
		t.Errorf("within a second %d grains went, and memory was freed %d times", m.gone, m.freed)
	}
	if m.looks(1); m.freed != 1 {
		t.Errorf("after grains went memory was freed %d times", m.freed)
	}
	m.looks(4)
	if m.grains >= 750 || m.grains < 700 || MemoryOf(m.Watch) != loadreport.Roomy {
		t.Errorf("%d grains stay, and the node is %q", m.grains, MemoryOf(m.Watch))
	}
	if fmt.Sprint(m.told) != fmt.Sprint([]loadreport.Memory{loadreport.Crowded, loadreport.Roomy}) {
		t.Errorf("told: %v", m.told)
	}
	if n := len(m.lines); n != 1 {
		t.Errorf("%d lines in a minute", n)
	}
}

// TestGarbageIsNoReason: memory that nothing uses is given back, and no grain goes for it.
func TestGarbageIsNoReason(t *testing.T) {
	m := newMachine()
	m.grains, m.garbage = 500, 450
	if m.looks(1); m.freed != 1 || m.gone != 0 || m.refused != nil || MemoryOf(m.Watch) != loadreport.Roomy {
		t.Errorf("freed %d times, %d grains went, refused %v", m.freed, m.gone, m.refused)
	}
	m = newMachine()
	m.other, m.garbage = 850, 70
	if m.looks(1); m.freed != 1 || m.refused != nil || MemoryOf(m.Watch) != loadreport.Crowded {
		t.Errorf("freed %d times, refused %v, the node is %q", m.freed, m.refused, MemoryOf(m.Watch))
	}
}

// TestFreesNothingInVain: where no grain may go, and there is no garbage to speak of, no collection is asked for.
func TestFreesNothingInVain(t *testing.T) {
	m := newMachine()
	m.fixed, m.other, m.garbage = 10, 900, 20
	m.grains = 0
	if m.looks(60); m.freed != 0 || MemoryOf(m.Watch) != loadreport.Full {
		t.Errorf("freed %d times, the node is %q", m.freed, MemoryOf(m.Watch))
	}
	m.other = 790
	if m.looks(60); m.freed != 0 || MemoryOf(m.Watch) != loadreport.Crowded {
		t.Errorf("freed %d times, the node is %q", m.freed, MemoryOf(m.Watch))
	}
}

// TestFullStartsNone: from 90 % on no grain starts, and the error says what to do; below it they start again.
func TestFullStartsNone(t *testing.T) {
	m := newMachine()
	m.fixed, m.grains = 700, 250
	m.looks(1)
	if !errors.Is(m.refused, raysys.ErrOverloaded) || !strings.Contains(m.refused.Error(), "node n1 starts no grain") {
		t.Fatalf("refused with %v", m.refused)
	}
	if m.looks(5); m.refused != nil {
		t.Errorf("refused with %v at %d of 1000", m.refused, m.Used())
	}
	if m.looks(20); m.Used() >= 750 || MemoryOf(m.Watch) != loadreport.Roomy {
		t.Errorf("%d of 1000 are used, the node is %q", m.Used(), MemoryOf(m.Watch))
	}
}

// TestUnloadsNothingInVain: it rests where what went is called here again, and where nothing comes free, and begins anew after that.
func TestUnloadsNothingInVain(t *testing.T) {
	for _, c := range []struct {
		name   string
		begin  func(*machine)
		rounds int // until it rests
	}{
		{"called again", func(m *machine) { m.grains, m.each, m.other, m.again = 1000, 0, 850, 200 }, 1},
		{"nothing free", func(m *machine) { m.grains, m.each, m.other = 1000, 0, 850 }, 1 + maxVain},
	} {
		m := newMachine()
		c.begin(m)
		m.looks(c.rounds - 1)
		before := m.gone
		if m.looks(1); m.gone == before {
			t.Errorf("%s: none went in round %d", c.name, c.rounds)
		}
		before, freed := m.gone, m.freed
		if m.looks(9); m.gone != before || m.freed != freed {
			t.Errorf("%s: %d grains went, and memory was freed %d times, while it rests", c.name, m.gone-before, m.freed-freed)
		}
		if m.looks(2); m.gone == before {
			t.Errorf("%s: it rests for ever", c.name)
		}
		m.looks(60)
		last := m.lines[len(m.lines)-1]
		if !strings.Contains(last.Stay, "cart: 0 with timers") || len(m.lines) > 2 {
			t.Errorf("%s: %d lines, the last %v", c.name, len(m.lines), last)
		}
	}
}

// TestListed: a line names the kinds with the most grains that stay.
func TestListed(t *testing.T) {
	stays := map[string]map[string]int{"a": {"in a turn": 1, "with timers": 2}, "b": {"kept active": 9}}
	if got, want := listed(stays), "b: 9 kept active; a: 1 in a turn, 2 with timers"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for i := range 20 {
		stays[fmt.Sprint("k", i)] = map[string]int{"in a turn": 1}
	}
	if got := listed(stays); !strings.HasSuffix(got, "; 14 kinds more") {
		t.Errorf("got %q", got)
	}
	if got := listed(nil); got != "none" {
		t.Errorf("got %q", got)
	}
}
