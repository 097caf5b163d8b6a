package progress

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys/internal/nodelog"
	"github.com/raysys/raysys/internal/worklog"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// display is a fake terminal: it has what a person sees.
type display struct {
	mu   sync.Mutex
	rows []string
	raw  strings.Builder
	lost bool // it was closed
}

func (d *display) Terminal() bool { return true }

func (d *display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost {
		return 0, os.ErrClosed
	}
	d.raw.Write(p)
	if d.rows == nil {
		d.rows = []string{""}
	}
	at := &d.rows[len(d.rows)-1]
	for rest := string(p); rest != ""; {
		switch {
		case strings.HasPrefix(rest, clear):
			*at, rest = "", rest[len(clear):]
		case strings.HasPrefix(rest, noWrap), strings.HasPrefix(rest, wrap):
			rest = rest[len(wrap):]
		case rest[0] == '\n':
			d.rows = append(d.rows, "")
			at, rest = &d.rows[len(d.rows)-1], rest[1:]
		default:
			*at += rest[:1]
			rest = rest[1:]
		}
	}
	return len(p), nil
}

// wants checks what is on the display, and how often the row was drawn since.
func (d *display) wants(t *testing.T, rows ...string) (drawn int) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(d.rows, rows) {
		t.Errorf("the terminal has\n%s\nwant\n%s", strings.Join(d.rows, "\n"), strings.Join(rows, "\n"))
	}
	drawn = strings.Count(d.raw.String(), noWrap)
	d.raw.Reset()
	return drawn
}

// TestCounter: the line says done, failed, rate and time left, is drawn when it changes, and stays when the work is over.
func TestCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d display
		c := count(NewLine(&d), "rollouts", 40)
		pass := func(took time.Duration) { <-time.After(took); synctest.Wait() }
		pass(50 * time.Millisecond)
		d.wants(t)
		pass(time.Second)
		if n := d.wants(t, "rollouts: 0 of 40 (0%)"); n != 1 {
			t.Errorf("a line that does not change was drawn %d times", n)
		}
		for i := range 10 {
			c.Done(i == 3)
			pass(95 * time.Millisecond)
		}
		d.wants(t, "rollouts: 10 of 40 (25%), 1 failed, 5.00/s, 6s left")
		for range 30 {
			c.Done(false)
		}
		c.End()
		c.End()
		d.wants(t, "rollouts: 40 of 40 (100%), 1 failed, 20.0/s, in 2s", "")
		pass(time.Minute)
		if n := d.wants(t, "rollouts: 40 of 40 (100%), 1 failed, 20.0/s, in 2s", ""); n != 0 {
			t.Errorf("the line was drawn %d times after the end", n)
		}
	})
}

// TestElsewhere: where there is no terminal a line comes each ten seconds, and of work that is over before that none.
func TestElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b strings.Builder
		c := count(NewLine(&b), "short", 1)
		<-time.After(9 * time.Second)
		c.Done(false)
		c.End()
		if b.Len() > 0 {
			t.Errorf("of short work came %q", b.String())
		}
		c = count(NewLine(&b), "long", 4)
		for range 3 {
			<-time.After(9 * time.Second)
			c.Done(false)
		}
		c.End()
		want := "long: 1 of 4 (25%), 0.100/s, 30s left\nlong: 2 of 4 (50%), 0.100/s, 20s left\nlong: 3 of 4 (75%), 0.111/s, in 27s\n"
		if b.String() != want {
			t.Errorf("the lines are\n%swant\n%s", b.String(), want)
		}
	})
}

// TestBeside: what a Writer and the node's logger write never runs into a line, and the line is below it.
func TestBeside(t *testing.T) {
	var d display
	w := Writer(&d)
	fmt.Fprintln(w, "before")
	d.wants(t, "before", "")
	a, b := NewLine(&d), NewLine(&d)
	a.Draw("one")
	log := nodelog.New(zapcore.AddSync(w), nodelog.Terminal, zap.InfoLevel)
	log.Info("hello")
	rows := d.rows
	if len(rows) != 3 || !strings.HasSuffix(rows[1], "hello") || strings.Contains(rows[1], "one") || rows[2] != "one" {
		t.Errorf("with the logger's line the terminal has %q", rows)
	}
	term := worklog.NewTerminal(w, true)
	term.Show("far", []json.RawMessage{json.RawMessage(`{"ts":"2026-01-02T15:04:05.678Z","level":"info","msg":"7","node":"?","driver":"d","function":"f","id":"1"}`)}, 0)
	rows = d.rows
	if len(rows) != 4 || !strings.Contains(rows[2], "far") || strings.Contains(rows[2], "one") || rows[3] != "one" {
		t.Errorf("with the line of another node the terminal has %q", rows)
	}
	d = display{}
	b.Draw("two")
	d.wants(t, "one | two")
	if n, err := fmt.Fprintln(w, "from a node"); n != 12 || err != nil {
		t.Errorf("the write says %d, %v", n, err)
	}
	d.wants(t, "from a node", "one | two")
	a.End()
	d.wants(t, "from a node", "one", "two")
	fmt.Fprint(w, "half")
	d.wants(t, "from a node", "one", "half")
	fmt.Fprintln(w, " a row")
	d.wants(t, "from a node", "one", " a row", "two") // what was not whole is gone: said
	b.End()
	b.End()
	fmt.Fprintln(w, "after")
	d.wants(t, "from a node", "one", " a row", "two", "after", "")
	var plain strings.Builder
	if w := Writer(&plain); w != io.Writer(&plain) {
		t.Errorf("a writer that is no terminal became %T", w)
	}
}

// TestClosedTerminal: a terminal that is gone ends nothing.
func TestClosedTerminal(t *testing.T) {
	d := display{lost: true}
	c := count(NewLine(&d), "x", 1)
	c.Done(false)
	c.End()
	if _, err := Writer(&d).Write([]byte("x\n")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a Writer hides the error: %v", err)
	}
}

// TestOff: RAYSYS_PROGRESS=off shows nothing on the standard error, and a writer that was given stays.
func TestOff(t *testing.T) {
	t.Setenv(Variable, "off")
	if l := NewLine(nil); l != nil || l.Live() {
		t.Errorf("a line is %+v", l)
	}
	var b strings.Builder
	NewLine(&b).Draw("x")
	if b.String() != "x\n" {
		t.Errorf("%q", b.String())
	}
	c := Count("x", 1)
	c.Done(false)
	c.End()
}

func TestRate(t *testing.T) {
	for x, want := range map[float64]string{12345.6: "12346/s", 123: "123/s", 12.34: "12.3/s", 1.234: "1.23/s", 0.01234: "0.012/s"} {
		if got := rate(x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
}
