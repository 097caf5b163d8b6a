package devices_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/raysys/raysys/placement/devices"
)

// watch runs a Watcher over lib in a bubble, and returns it with the inventories that it reports.
func watch(t *testing.T, lib devices.Library, cfg devices.Config) (*devices.Watcher, <-chan devices.Inventory) {
	t.Helper()
	cfg.LookupEnv = noVariable
	w, err := devices.NewWatcher(lib, cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	changes, ended := make(chan devices.Inventory, 100), make(chan error, 1)
	go func() { ended <- w.Run(ctx, func(i devices.Inventory) { changes <- i }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the watch ended with %v", err)
		}
		<-time.After(time.Minute) // the call that waited for an event ends by itself
	})
	return w, changes
}

func fake(t *testing.T, name string) *devices.Fake {
	t.Helper()
	f, err := devices.NewFake(name, "host")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func fault(t *testing.T, f *devices.Fake, gpu int, what string) {
	t.Helper()
	if err := f.Fault(gpu, what); err != nil {
		t.Fatal(err)
	}
}

// TestSickness: each fault makes its device sick, and no other, until its cause ends; an Xid of the hardware for good, an Xid
// of a program not at all.
func TestSickness(t *testing.T) {
	for _, c := range []struct{ fault, sick, after string }{
		{"ecc", "1 uncorrectable ECC errors", ""},
		{"lost", "the GPU is lost", ""},
		{"hang", "does not answer", ""},
		{"error RESET_REQUIRED", "RESET_REQUIRED", ""},
		{"xid 79", "Xid 79: GPU has fallen off the bus", "Xid 79"},
		{"xid 48", "Xid 48: double-bit ECC error", "Xid 48"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := fake(t, "h100x3")
			var said atomic.Value
			w, changes := watch(t, f, devices.Config{Say: func(line string) { said.Store(line) }})
			fault(t, f, 1, c.fault)
			i := <-changes
			if got := i.Devices[1].Sick; !strings.Contains(got, c.sick) || i.Devices[0].Sick+i.Devices[2].Sick != "" {
				t.Errorf("%s of GPU 1: the devices are sick of %q, %q, %q", c.fault, i.Devices[0].Sick, got, i.Devices[2].Sick)
			}
			if line, _ := said.Load().(string); !strings.Contains(line, i.Devices[1].UUID) {
				t.Errorf("%s of GPU 1: it says %q", c.fault, line)
			}
			fault(t, f, 1, "well")
			<-time.After(time.Minute)
			if got := w.Inventory().Devices[1].Sick; !strings.HasPrefix(got, c.after) || c.after == "" && got != "" {
				t.Errorf("after %s: GPU 1 is sick of %q, want %q", c.fault, got, c.after)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := fake(t, "h100x3")
		w, changes := watch(t, f, devices.Config{})
		fault(t, f, 2, "xid 31")
		fault(t, f, 0, "busy 70")
		if i := <-changes; i.Devices[0].Busy != 70 || i.Devices[0].Sick+i.Devices[2].Sick != "" {
			t.Errorf("an Xid of a program and a busy GPU: got %+v", i.Devices)
		}
		<-time.After(time.Hour)
		if got := w.Inventory().Devices[2].Sick; got != "" || len(changes) > 0 {
			t.Errorf("an Xid of a program makes a device sick: %q", got)
		}
	})
}

// counted is a Library whose only GPU counts the calls that are on, and hangs when told.
type counted struct {
	calls, most atomic.Int32
	all         atomic.Int32
	hang        atomic.Pointer[chan struct{}] // closed when it answers again
	broken      error                         // of Wait
	waits       atomic.Int32                  // calls of Wait
	hangWait    chan struct{}                 // where Wait hangs until it is closed
}

func (c *counted) GPUs() ([]devices.GPU, error) { return []devices.GPU{c}, nil }

func (c *counted) Wait(d time.Duration) (devices.Event, bool, error) {
	c.waits.Add(1)
	if c.broken != nil {
		return devices.Event{}, false, c.broken
	}
	if c.hangWait != nil {
		<-c.hangWait
	}
	<-time.After(d)
	return devices.Event{}, false, nil
}

func (c *counted) Describe() (devices.Description, error) {
	return devices.Description{Devices: []devices.Device{{UUID: "GPU-1"}}}, nil
}

func (c *counted) Sample() (devices.Sample, error) {
	c.all.Add(1)
	if n := c.calls.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	defer c.calls.Add(-1)
	if hang := c.hang.Load(); hang != nil {
		<-*hang
	}
	return devices.Sample{}, nil
}

// TestHangCostsOneGoroutine: however long a GPU does not answer, one call is on; it is well again when that returns. The
// watch goes on, also where the library has no events.
func TestHangCostsOneGoroutine(t *testing.T) {
	for _, broken := range []error{nil, errors.New("no events here")} {
		synctest.Test(t, func(t *testing.T) {
			c := &counted{broken: broken}
			w, changes := watch(t, c, devices.Config{})
			hang := make(chan struct{})
			c.hang.Store(&hang)
			if i := <-changes; i.Devices[0].Sick != devices.ErrSilent.Error() {
				t.Errorf("a GPU that hangs is sick of %q", i.Devices[0].Sick)
			}
			before := c.all.Load()
			<-time.After(time.Hour)
			if n, more := c.most.Load(), c.all.Load()-before; n != 1 || more != 0 {
				t.Errorf("a GPU that hangs was called %d times more, %d at once", more, n)
			}
			c.hang.Store(nil)
			close(hang)
			if i := <-changes; i.Devices[0].Sick != "" || w.Inventory().Devices[0].Sick != "" {
				t.Errorf("a GPU that answers again is sick of %q", i.Devices[0].Sick)
			}
		})
	}
}

// TestWaitHangs: however long the library does not return from waiting for an event, one such call is on and the GPUs are asked how
// they are; events are waited for again when it returns.
func TestWaitHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &counted{hangWait: make(chan struct{})}
		_, changes := watch(t, c, devices.Config{})
		for range 3 {
			hang := make(chan struct{})
			c.hang.Store(&hang)
			select {
			case i := <-changes:
				if i.Devices[0].Sick != devices.ErrSilent.Error() {
					t.Errorf("a GPU that hangs is sick of %q", i.Devices[0].Sick)
				}
			case <-time.After(time.Minute):
				t.Fatal("nobody asks the GPU how it is")
			}
			c.hang.Store(nil)
			close(hang)
			if i := <-changes; i.Devices[0].Sick != "" {
				t.Errorf("a GPU that answers again is sick of %q", i.Devices[0].Sick)
			}
		}
		<-time.After(time.Hour)
		if n := c.waits.Load(); n != 1 {
			t.Errorf("%d calls wait for an event in a library that hangs", n)
		}
		close(c.hangWait)
		<-time.After(time.Minute)
		if n := c.waits.Load(); n < 2 {
			t.Errorf("the library answers again, and no event is waited for: %d calls", n)
		}
	})
}

// TestDeadLibrary: a library that hangs or fails when it is asked for its GPUs is an error, in bounded time; a GPU that cannot
// be described is left out, and the others are there.
func TestDeadLibrary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		hangs := func() ([]devices.GPU, error) { <-release; return nil, nil }
		for name, c := range map[string]struct {
			list func() ([]devices.GPU, error)
			want error
		}{"hangs": {hangs, devices.ErrSilent}, "fails": {func() ([]devices.GPU, error) { return nil, devices.ErrLost }, devices.ErrLost}} {
			if _, err := devices.NewWatcher(list{c.list}, devices.Config{}); !errors.Is(err, c.want) {
				t.Errorf("a library that %s: got %v", name, err)
			}
		}
		var said []string
		w, err := devices.NewWatcher(list{func() ([]devices.GPU, error) {
			return []devices.GPU{undescribed{release}, new(counted)}, nil
		}}, devices.Config{LookupEnv: noVariable, Say: func(line string) { said = append(said, line) }})
		if err != nil {
			t.Fatal(err)
		}
		if i := w.Inventory(); len(i.Devices) != 1 || i.Devices[0].UUID != "GPU-1" || !slices.Equal(said, []string{"GPU 0 is left out: does not answer"}) {
			t.Errorf("one of two GPUs hangs: got %v, and it says %q", i, said)
		}
	})
}

type list struct{ gpus func() ([]devices.GPU, error) }

func (l list) GPUs() ([]devices.GPU, error) { return l.gpus() }

func (l list) Wait(time.Duration) (devices.Event, bool, error) {
	return devices.Event{}, false, devices.ErrNoLibrary
}

type undescribed struct{ release chan struct{} }

func (u undescribed) Describe() (devices.Description, error) {
	<-u.release
	return devices.Description{}, nil
}

func (u undescribed) Sample() (devices.Sample, error) { return devices.Sample{}, nil }

// TestOpen: what may be asked for, and errors that say what can be.
func TestOpen(t *testing.T) {
	for spec, want := range map[string]int{"none": 0, "fake:l4": 1, "fake:h100x8": 8, "fake:dgx1": 8, "fake:a100x4@/none": 4} {
		w, err := devices.Open(spec, devices.Config{LookupEnv: noVariable})
		if err != nil || devices.CheckSpec(spec) != nil || len(w.Inventory().Devices) != want {
			t.Errorf("%s: got %v, want %d devices", spec, err, want)
		}
	}
	for spec, want := range map[string]string{
		"":             "give auto, none or fake:NAME",
		"all":          `devices "all": give auto, none or fake:NAME`,
		"fake:":        "there is dgx1, and models a100,",
		"fake:x8":      "such as h100x8",
		"fake:h900x8":  "there is dgx1, and models a100,",
		"fake:h100x":   `"" is no number from 1 to 64`,
		"fake:h100x0":  `"0" is no number`,
		"fake:h100x65": `"65" is no number`,
		"fake:h100x-1": `"-1" is no number`,
		"fake:dgx1@":   "there is no file of faults after @",
	} {
		_, err := devices.Open(spec, devices.Config{})
		if !errors.Is(err, devices.ErrBadSpec) || !strings.Contains(err.Error(), want) || devices.CheckSpec(spec) == nil {
			t.Errorf("%q: got %v, want %q", spec, err, want)
		}
	}
	if _, err := devices.Open("auto", devices.Config{}); !errors.Is(err, devices.ErrNotLinked) {
		t.Errorf("auto without a library: got %v", err)
	}
}

// TestRegisteredLibrary: auto takes what was registered, in bounded time.
func TestRegisteredLibrary(t *testing.T) {
	defer devices.Register(nil)
	devices.Register(func() (devices.Library, error) { return devices.NewFake("t4x2", "") })
	if w, err := devices.Open("auto", devices.Config{LookupEnv: noVariable}); err != nil || len(w.Inventory().Devices) != 2 {
		t.Errorf("a registered library: got %v", err)
	}
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		devices.Register(func() (devices.Library, error) { <-release; return nil, nil })
		if _, err := devices.Open("auto", devices.Config{}); !errors.Is(err, devices.ErrNoLibrary) || !errors.Is(err, devices.ErrSilent) {
			t.Errorf("a library whose start hangs: got %v", err)
		}
		close(release)
	})
}

// TestFakes: made-up devices have one UUID each, the same the next time and others on another host.
func TestFakes(t *testing.T) {
	i, again := inventory(t, "h100x8"), inventory(t, "h100x8")
	if !i.Equal(again) || i.Links[0][1] != 18 || i.Links[3][3] != 0 || i.Devices[7].NUMA != 1 || i.Devices[0].Memory < 79<<30 {
		t.Errorf("got %+v, then %+v", i, again)
	}
	other, err := devices.Open("fake:h100x8", devices.Config{Host: "other", LookupEnv: noVariable})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range append(i.Devices, other.Inventory().Devices...) {
		if len(d.UUID) != len("GPU-8932f937-d72c-4106-c12f-20bd9faed9f6") || seen[d.UUID] {
			t.Errorf("the UUID %q is no UUID, or is there twice", d.UUID)
		}
		seen[d.UUID] = true
	}
	f := fake(t, "t4x2")
	for _, c := range []struct {
		gpu  int
		what string
	}{{2, "well"}, {-1, "well"}, {0, "ill"}, {0, "xid"}, {0, "xid -1"}, {0, "busy 101"}, {0, "lost now"}} {
		if err := f.Fault(c.gpu, c.what); err == nil {
			t.Errorf("fault %q of GPU %d of two is no error", c.what, c.gpu)
		}
	}
}

// TestFileOfFaults: a file makes made-up devices fail and heal while a node watches them; a line that cannot be meant is seen.
func TestFileOfFaults(t *testing.T) {
	file := filepath.Join(t.TempDir(), "faults")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		write("1 lost\n")
		f, err := devices.NewFake("h100x2@"+file, "")
		if err != nil {
			t.Fatal(err)
		}
		w, _ := watch(t, f, devices.Config{})
		if got := w.Inventory().Devices; got[0].Sick != "" || got[1].Sick == "" {
			t.Errorf("the file says that GPU 1 is lost: got %+v", got)
		}
		for _, c := range []struct{ text, first, second string }{
			{"0 hang\n", "does not answer", ""},
			{"", "", ""},
			{"2 lost\n", `line "2 lost"`, `line "2 lost"`},
			{"0 xid 79\n1 busy 5\n", "Xid 79", ""},
		} {
			write(c.text)
			<-time.After(time.Minute)
			got := w.Inventory().Devices
			if !strings.Contains(got[0].Sick, c.first) || !strings.Contains(got[1].Sick, c.second) || c.second == "" && got[1].Sick != "" {
				t.Errorf("the file has %q: got %+v", c.text, got)
			}
		}
		write("") // a GPU that hangs answers again
		<-time.After(time.Minute)
	})
}
