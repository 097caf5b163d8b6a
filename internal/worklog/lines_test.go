package worklog

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/core"
)

// bench is the Lines of node n, whose incarnation is 1, and drivers.
type bench struct {
	*Lines
	out     bytes.Buffer
	drivers map[uint64]raysys.NodeID
	runs    sync.WaitGroup
}

func newBench(folder string) *bench {
	b := &bench{drivers: map[uint64]raysys.NodeID{7: "d"}}
	b.Lines = New(Config{
		Node: "n", Folder: folder, Out: &b.out, Run: func(f func()) { b.runs.Go(f) }, Own: func() uint64 { return 1 },
		Drivers: func() map[uint64]raysys.NodeID { return b.drivers },
	})
	return b
}

// work is a turn of a driver's work.
func work(run uint64) *core.Turn {
	return core.NewRemote(core.RemoteSpec{Job: &core.Job{Run: run, ID: raysys.JobID{Hi: 5}}, Name: "f", ID: raysys.TaskID{Hi: 9}})
}

// ask asks for d, and returns where the answer comes.
func (b *bench) ask(q Question) <-chan Batch {
	c := make(chan Batch, 1)
	b.Take(core.NodeKey{Node: "d", Incarnation: 7}, q, func(got Batch) { c <- got })
	return c
}

func texts(b Batch) (list []string) {
	for _, raw := range b.Lines {
		l, _ := Parse(raw)
		list = append(list, l.Text)
	}
	return list
}

// TestLogger: a line says whose work wrote it, and is written on the node whatever happens to it later.
func TestLogger(t *testing.T) {
	b := newBench("")
	defer b.Close()
	for _, c := range []struct {
		turn *core.Turn
		want string
	}{
		{work(7), `"msg":"hello","node":"n","driver":"d","function":"f","id":"00000000000000090000000000000000","x":1}`},
		{work(8), `"msg":"hello","node":"n","driver":"job-000000000000","function":"f","id":"00000000000000090000000000000000","x":1}`},
		{core.NewRoot(&core.Job{Run: 1}, context.Background(), nil, core.TaskID{}), `"msg":"hello","node":"n","driver":"n","x":1}`},
	} {
		b.out.Reset()
		log := b.Logger(c.turn)
		log.Info("hello", "x", 1)
		log.Debug("never")
		if got := strings.TrimSpace(b.out.String()); !strings.HasSuffix(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
	delete(b.drivers, 7) // its work goes on when it has left
	b.out.Reset()
	b.Logger(work(7)).With("y", 2).WithGroup("g").Warn("late", "level", "x")
	if got := b.out.String(); !strings.Contains(got, `"level":"warn","msg":"late","node":"n","driver":"d"`) || !strings.Contains(got, `"y":2,"g":{"level":"x"}`) {
		t.Error(got)
	}
	var out bytes.Buffer
	alone := New(Config{Node: "n", Log: slog.New(slog.NewTextHandler(&out, nil))})
	alone.Logger(work(0)).Info("hello")
	if got := out.String(); !strings.Contains(got, "msg=hello node=n driver=n function=f id=") {
		t.Error(got)
	}
	out.Reset()
	alone.Show("m", &Batch{Lines: texted("there"), Omitted: 3})
	if got := out.String(); !strings.Contains(got, "msg=there node=m function=f") || !strings.Contains(got, "lines=3") {
		t.Error(got)
	}
}

func texted(text string) []json.RawMessage { return []json.RawMessage{said("f", text)} }

// TestTake: a driver gets each line once and in order, some at a time, and again when the answer did not come.
func TestTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench("")
		defer b.Close()
		log := b.Logger(work(7))
		log.Info("before it asked")
		first := <-b.ask(Question{})
		if got := texts(first); fmt.Sprint(got) != "[before it asked]" || first.Number != 1 {
			t.Errorf("%q", got)
		}
		next := b.ask(Question{Had: 1})
		log.Info("one")
		b.Logger(work(1)).Info("of this node")
		log.Info("two")
		got := <-next
		if fmt.Sprint(texts(got)) != "[one two]" {
			t.Errorf("%q", texts(got))
		}
		log.Info("three")
		if again := <-b.ask(Question{Had: 1}); fmt.Sprint(texts(again)) != "[one two]" || again.Number != got.Number {
			t.Errorf("%q", texts(again))
		}
		if third := <-b.ask(Question{Had: 2}); fmt.Sprint(texts(third)) != "[three]" {
			t.Errorf("%q", texts(third))
		}
		waits := b.ask(Question{Had: 3})
		log.Info("last")
		if last := <-b.ask(Question{Had: 3, Last: true}); fmt.Sprint(texts(last)) != "[last]" {
			t.Errorf("%q", texts(last))
		}
		if old := <-waits; len(old.Lines) > 0 {
			t.Errorf("a question that was asked anew got %q", texts(old))
		}
		if none := <-b.ask(Question{Had: 4, Last: true}); len(none.Lines) > 0 || none.Number != 4 {
			t.Errorf("%+v", none)
		}
	})
}

// TestFlood: of a flood a node sends 1,000 lines a second and what fits, and each other line is counted.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench("")
		defer b.Close()
		log := b.Logger(work(7))
		const n = 3_456
		for i := range n {
			log.Info(fmt.Sprint("line ", i))
		}
		got := <-b.ask(Question{})
		if len(got.Lines) != perSecond || got.Omitted != n-perSecond {
			t.Errorf("%d lines, %d omitted", len(got.Lines), got.Omitted)
		}
		<-time.After(2 * time.Second)
		for range 100 {
			log.Info(strings.Repeat("x", 50_000))
		}
		got = <-b.ask(Question{Had: 1})
		if len(got.Lines) == 0 || len(got.Lines) > maxBox/50_000 || len(got.Lines)+got.Omitted != 100 {
			t.Errorf("%d lines, %d omitted", len(got.Lines), got.Omitted)
		}
		// Drivers that come and go leave nothing behind.
		for run := range uint64(10 * maxBoxes) {
			b.Logger(work(100 + run)).Info("x")
		}
		if len(b.boxes) > maxBoxes {
			t.Errorf("%d boxes", len(b.boxes))
		}
		<-time.After(2 * boxKept)
		b.Logger(work(99)).Info("x")
		if len(b.boxes) > 2 {
			t.Errorf("%d boxes of drivers that have left", len(b.boxes))
		}
	})
}

// TestPlain: plain output is for the sole driver, from its first question on; with another driver it is for none. Before the driver ends
// all that was written is there.
func TestPlain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		k, err := NewKeeper(folder, "n", false)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		var mu sync.Mutex
		keep := func(stream string, line []byte) {
			mu.Lock()
			defer mu.Unlock()
			if _, err := k.Keep(stream, line); err != nil {
				t.Error(err)
			}
		}
		b := newBench(folder)
		b.mark = func(n uint64) { // the outputs are read by another process
			time.AfterFunc(marked/2, func() {
				keep("stdout", []byte("late words"))
				keep("stdout", fmt.Append(nil, k.mark, n))
				keep("stderr", fmt.Append(nil, k.mark, n))
			})
		}
		keep("stdout", []byte("before"))
		next := b.ask(Question{})
		keep("stdout", []byte("words"))
		keep("stderr", []byte("more"))
		keep(Supervisor, []byte("of the supervisor"))
		keep("stderr", fmt.Append(nil, k.mark, string(said("g", "logged"))))
		if got := texts(<-next); fmt.Sprint(got) != "[words more]" {
			t.Errorf("%q", got)
		}
		if got := texts(<-b.ask(Question{Had: 1, Last: true})); fmt.Sprint(got) != "[late words]" {
			t.Errorf("%q", got)
		}
		b.mu.Lock()
		b.drivers[8] = "e"
		b.mu.Unlock()
		next = b.ask(Question{Had: 2})
		keep("stdout", []byte("whose"))
		<-time.After(10 * lookEvery)
		b.mu.Lock()
		delete(b.drivers, 8)
		b.mu.Unlock()
		keep("stdout", []byte("still whose"))
		<-time.After(2 * lookEvery)
		keep("stdout", []byte("mine"))
		if got := texts(<-next); fmt.Sprint(got) != "[mine]" {
			t.Errorf("%q", got)
		}
		b.mark = func(uint64) {} // the supervisor is gone
		next = b.ask(Question{Had: 3, Last: true})
		began := time.Now()
		<-next
		if took := time.Since(began); took < marked || took > 2*marked { // of the bubble's clock
			t.Errorf("it waited for %v", took)
		}
		b.Close()
		b.runs.Wait()
	})
}

// TestRead: the last lines that match, at most 1 MiB; or the first ones behind a position, those that come soon too.
func TestRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		k, err := NewKeeper(folder, "n", false)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		b := newBench(folder)
		defer b.Close()
		const n = 800
		for i := range n {
			k.Keep("stderr", fmt.Append(nil, k.mark, string(said([]string{"f", "kind/key.g"}[i%2], fmt.Sprint("line ", i, strings.Repeat("y", 3000))))))
		}
		k.Keep("stdout", fmt.Append(nil, k.mark, 1))
		k.Keep("stdout", []byte("dead"))
		read := func(q Query) Answer {
			t.Helper()
			a, err := b.Read(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		a := read(Query{Limit: 2})
		if got := texts(Batch{Lines: a.Lines}); a.Matched != n+1 || len(got) != 2 || got[1] != "dead" || !strings.HasPrefix(got[0], "line 799y") {
			t.Errorf("%d: %.20q", a.Matched, got)
		}
		size := 0
		a = read(Query{Limit: n, Function: "kind", Driver: "d"})
		for _, l := range a.Lines {
			size += len(l)
		}
		if a.Matched != n/2 || size > maxRead || size < maxRead*9/10 {
			t.Errorf("%d matched, %d bytes", a.Matched, size)
		}
		if a = read(Query{Limit: 5, Function: "kin"}); a.Matched != 0 || fmt.Sprint(a.Functions, a.Drivers) != "[f kind/key.g] [d]" {
			t.Errorf("%+v", a)
		}
		seen, from := 0, int64(0)
		for {
			a = read(Query{Follow: true, From: from})
			if len(a.Lines) == 0 {
				break
			}
			size = 0
			for _, l := range a.Lines[1:] {
				size += len(l)
			}
			if size > maxRead {
				t.Errorf("%d bytes behind the first line", size)
			}
			seen, from = seen+len(a.Lines), a.Next
		}
		for i := range 2 * maxNames {
			k.Keep("stderr", fmt.Append(nil, k.mark, string(said(fmt.Sprint("function ", i), "line"))))
		}
		if a = read(Query{Limit: 5, Function: "kin"}); len(a.Functions) != maxNames || len(a.Drivers) != 1 {
			t.Errorf("%d functions and %d drivers are named", len(a.Functions), len(a.Drivers))
		}
		for range 2 {
			from = read(Query{Follow: true, From: from}).Next
		}
		if seen != n+1 {
			t.Errorf("%d lines were seen", seen)
		}
		time.AfterFunc(readFor/2, func() { k.Keep("stdout", []byte("soon")) })
		if got := texts(Batch{Lines: read(Query{Follow: true, From: from}).Lines}); fmt.Sprint(got) != "[soon]" {
			t.Errorf("%q", got)
		}
		if _, err := newBench("").Read(t.Context(), Query{}); err == nil || !strings.Contains(err.Error(), "raysys node did not start it") {
			t.Errorf("%v", err)
		}
		if _, err := newBench(t.TempDir()).Read(t.Context(), Query{}); err == nil || !strings.Contains(err.Error(), "its folder") {
			t.Errorf("%v", err)
		}
	})
}

// TestWatchEndsWithNode: a node that leaves waits for what looks after plain output, while a driver still asks.
func TestWatchEndsWithNode(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(folder)
		defer b.Close()
		done := make(chan struct{})
		b.cfg.Done = done
		b.ask(Question{})
		synctest.Wait()
		close(done)
		b.runs.Wait() // before Close
	})
}
