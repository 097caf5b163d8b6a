package objectstore_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/raysys/raysys/internal/objectstore"
)

// neighbour is a second process that shares object 1 with this one.
type neighbour struct {
	offer
	tell  io.WriteCloser
	lines *bufio.Scanner
}

func startNeighbour(t *testing.T) *neighbour {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childJob+"=share")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the second process: %v", err)
		}
	})
	n := &neighbour{tell: in, lines: bufio.NewScanner(out)}
	if !n.lines.Scan() {
		t.Fatal("the second process said nothing")
	}
	if err := json.Unmarshal(n.lines.Bytes(), &n.offer); err != nil {
		t.Fatal(err)
	}
	return n
}

// letGo makes the neighbour release the object, and waits until it has.
func (n *neighbour) letGo(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(n.tell, "let go\n"); err != nil {
		t.Fatal(err)
	}
	if !n.lines.Scan() || n.lines.Text() != "released" {
		t.Fatalf("the second process answered %q", n.lines.Text())
	}
}

func TestAttachToASecondProcess(t *testing.T) {
	n := startNeighbour(t)
	s := open(t, objectstore.Config{Budget: 64 * mib})
	want := content(1, 3*mib+17)
	o, err := s.Attach(context.Background(), n.Shared, n.Version)
	if err != nil {
		t.Fatal(err)
	}
	m, err := o.Map(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(m.Bytes(), want) {
		t.Fatal("other bytes")
	}
	if st := s.Stats(); st.Used != 0 {
		t.Errorf("the other's memory is charged here: %+v", st)
	}
	if f := forms(o); !slices.Equal(f, []string{"foreign"}) {
		t.Errorf("forms %v", f)
	}
	if _, err := o.Share(context.Background()); !errors.Is(err, objectstore.ErrNotShareable) {
		t.Errorf("passing it on: %v", err)
	}
	// The owner lets go: what is mapped stays.
	n.letGo(t)
	if !bytes.Equal(m.Bytes(), want) {
		t.Fatal("the bytes went with their owner's need")
	}
	same(t, o, want)
	m.Close()
	empty(t, s, o)
	// And cannot be mapped anew.
	if _, err := s.Attach(context.Background(), n.Shared, n.Version); !errors.Is(err, objectstore.ErrNotShareable) {
		t.Errorf("attach to what was given up: %v", err)
	}
	empty(t, s)
}

func TestAttachDoubts(t *testing.T) {
	owner := open(t, objectstore.Config{Budget: 64 * mib})
	want := content(1, 2*mib)
	o := receive(t, owner, 1, want, objectstore.Segment)
	good, err := o.Share(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	v := versionOf(t, o)
	plain, err := os.Create(t.TempDir() + "/plain")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := plain.Write(want); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.MemfdCreate("unsealed", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	unsealed := os.NewFile(uintptr(fd), "unsealed")
	defer unsealed.Close()
	if _, err := unsealed.Write(want); err != nil {
		t.Fatal(err)
	}
	at := func(f *os.File) objectstore.Shared {
		device, inode := objectstore.Identity(t, f)
		return objectstore.Shared{PID: os.Getpid(), FD: int(f.Fd()), Device: device, Inode: inode, Capacity: int64(len(want)), Sums: good.Sums}
	}
	s := open(t, objectstore.Config{Budget: 64 * mib})
	cases := map[string]func(at *objectstore.Shared, v *objectstore.Version){
		"no process":     func(at *objectstore.Shared, v *objectstore.Version) { at.PID = 0 },
		"other process":  func(at *objectstore.Shared, v *objectstore.Version) { at.PID = 1 << 30 },
		"no descriptor":  func(at *objectstore.Shared, v *objectstore.Version) { at.FD = -1 },
		"closed":         func(at *objectstore.Shared, v *objectstore.Version) { at.FD = 1 << 20 },
		"another file":   func(at *objectstore.Shared, v *objectstore.Version) { at.FD = int(plain.Fd()) },
		"other inode":    func(at *objectstore.Shared, v *objectstore.Version) { at.Inode++ },
		"other device":   func(at *objectstore.Shared, v *objectstore.Version) { at.Device++ },
		"other capacity": func(at *objectstore.Shared, v *objectstore.Version) { at.Capacity += 4096 },
		"too small":      func(at *objectstore.Shared, v *objectstore.Version) { at.Capacity = 5 },
		"no memory":      func(s *objectstore.Shared, v *objectstore.Version) { *s = at(plain) },
		"not sealed":     func(s *objectstore.Shared, v *objectstore.Version) { *s = at(unsealed) },
		"other bytes":    func(at *objectstore.Shared, v *objectstore.Version) { at.Sums = objectstore.SumsOf(content(2, 2*mib)) },
		"too few sums":   func(at *objectstore.Shared, v *objectstore.Version) { at.Sums = at.Sums[:1] },
		"too many sums":  func(at *objectstore.Shared, v *objectstore.Version) { at.Sums = append(slices.Clone(at.Sums), 1) },
		"other size":     func(at *objectstore.Shared, v *objectstore.Version) { v.Size-- },
	}
	for what, spoil := range cases {
		at, bad := good, v
		spoil(&at, &bad)
		_, err := s.Attach(context.Background(), at, bad)
		if !errors.Is(err, objectstore.ErrNotShareable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	bad := v
	bad.Nonce = 0
	if _, err := s.Attach(context.Background(), good, bad); err == nil {
		t.Error("a version that its owner has no nonce for")
	}
	a, err := s.Attach(context.Background(), good, v)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Attach(context.Background(), good, v); !errors.Is(err, objectstore.ErrPresent) {
		t.Errorf("twice: %v", err)
	}
	same(t, a, want)
	empty(t, s, a, o)
	empty(t, owner)
}

func TestSharedSegmentIsNeverUsedAgain(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 64 * mib})
	o := receive(t, s, 1, content(1, 2*mib), objectstore.Segment)
	if _, err := o.Share(context.Background()); err != nil {
		t.Fatal(err)
	}
	o.Release()
	if st := s.Stats(); st.Warm != 0 || st.Used != 0 {
		t.Errorf("a shared segment is kept for the next object: %+v", st)
	}
}

func TestShareEveryForm(t *testing.T) {
	want := content(1, 3*mib+5)
	for what, put := range map[string]func(s *objectstore.Store) *objectstore.Object{
		"value":   func(s *objectstore.Store) *objectstore.Object { return add(t, s, 1, newValue(want)) },
		"heap":    func(s *objectstore.Store) *objectstore.Object { return receive(t, s, 1, want, objectstore.Heap) },
		"segment": func(s *objectstore.Store) *objectstore.Object { return receive(t, s, 1, want, objectstore.Segment) },
		"file":    func(s *objectstore.Store) *objectstore.Object { return receive(t, s, 1, want, objectstore.Disk) },
	} {
		s := open(t, objectstore.Config{Budget: 64 * mib})
		other := open(t, objectstore.Config{Budget: 64 * mib})
		o := put(s)
		at, err := o.Share(context.Background())
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if again, err := o.Share(context.Background()); err != nil || !reflect.DeepEqual(again, at) {
			t.Errorf("%s: shared twice as %+v and %+v, %v", what, at, again, err)
		}
		if !slices.Equal(at.Sums, objectstore.SumsOf(want)) {
			t.Errorf("%s: the sums that go with it are %x", what, at.Sums)
		}
		a, err := other.Attach(context.Background(), at, versionOf(t, o))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		same(t, a, want)
		same(t, o, want)
		empty(t, s, a, o)
		empty(t, other)
	}
}

func TestShareWithoutRoom(t *testing.T) {
	s := open(t, objectstore.Config{Budget: 4 * mib})
	o := receive(t, s, 1, content(1, 5*mib), objectstore.Disk)
	if _, err := o.Share(context.Background()); !errors.Is(err, objectstore.ErrNotShareable) {
		t.Errorf("%v", err)
	}
	none := add(t, s, 2, newValue(nil))
	if _, err := none.Share(context.Background()); !errors.Is(err, objectstore.ErrNotShareable) {
		t.Errorf("no bytes: %v", err)
	}
	empty(t, s, o, none)
}
