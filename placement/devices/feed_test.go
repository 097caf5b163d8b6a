package devices_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/placement/devices"
)

func feed(t *testing.T, lines string) (*devices.Feed, *os.File, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	if _, err := w.WriteString(lines); err != nil {
		t.Fatal(err)
	}
	if lines == "" {
		w.Close()
	}
	f, err := devices.FeedOf(r)
	return f, w, err
}

// TestFeed: a program has the inventory that its supervisor has, and each later one, until its context or the pipe ends.
func TestFeed(t *testing.T) {
	first := inventory(t, "dgx1")
	f, w, err := feed(t, string(first.Line()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, f.Inventory()); diff != "" {
		t.Errorf("the first inventory (-want +got):\n%s", diff)
	}
	later := inventory(t, "dgx1")
	later.Devices[3].Sick = "lost"
	changes, ended := make(chan devices.Inventory), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- f.Run(ctx, func(i devices.Inventory) { changes <- i }) }()
	if _, err := w.Write(later.Line()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(later, <-changes); diff != "" || !f.Inventory().Equal(later) {
		t.Errorf("a later inventory (-want +got):\n%s", diff)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the feed of a context that ended: %v", err)
	}

	// A node that joins again runs it again, and has what was written meanwhile, in pieces.
	again := first.Line()
	if _, err := w.Write(again[:100]); err != nil {
		t.Fatal(err)
	}
	go func() { ended <- f.Run(t.Context(), func(i devices.Inventory) { changes <- i }) }()
	if _, err := w.Write(again[100:]); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, <-changes); diff != "" {
		t.Errorf("after it ran again (-want +got):\n%s", diff)
	}
	w.Close()
	if err := <-ended; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the feed of a pipe that ended: %v", err)
	}
}

// TestFeedEnds: a pipe that ends, speaks of other devices or says what cannot be meant ends the feed with an error.
func TestFeedEnds(t *testing.T) {
	first := inventory(t, "t4x2")
	for name, c := range map[string]struct{ line, want string }{
		"ends":          {"", "unexpected EOF"},
		"other devices": {string(inventory(t, "t4x3").Line()), "others than at the start"},
		"nonsense":      {"nonsense\n", "read inventory"},
	} {
		f, w, err := feed(t, string(first.Line()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString(c.line); err != nil {
			t.Fatal(err)
		}
		w.Close()
		err = f.Run(t.Context(), func(devices.Inventory) { t.Errorf("%s: taken", name) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
	if _, _, err := feed(t, ""); err == nil {
		t.Error("a pipe that ends before the first line is no error")
	}
	for _, variable := range []string{"", "x", "0:0", "1:1", "3", "999999:1"} {
		if f, err := devices.OpenFeed(variable); f != nil || err != nil {
			t.Errorf("variable %q: got a feed, or %v", variable, err)
		}
	}
}

// TestLineOfVersion1 holds what a program and a raysys node of another version say to each other.
func TestLineOfVersion1(t *testing.T) {
	const file = "testdata/inventory.v1.json"
	i := inventory(t, "h100x2")
	i.Devices[0].Busy, i.Devices[0].Used, i.Devices[0].Sick = 70, 1<<30, "Xid 79: GPU has fallen off the bus"
	i.Devices[0].UUID, i.Devices[1].UUID = "GPU-b4d4a735-d2a9-9ab3-15b1-b13af35d35f5", "GPU-2323963e-a1e1-f5b1-b99f-7cd2d2568ba6"
	i.Devices[1].GPU, i.Devices[1].UUID, i.Devices[1].NUMA = i.Devices[1].UUID, "MIG-1", devices.Unknown
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got := i.Line(); !bytes.Equal(got, want) {
		t.Errorf("a line of version 1 is\n%s, and is written\n%s", want, got)
	}
	got, err := devices.ParseLine(want)
	if err != nil || !got.Equal(i) {
		t.Errorf("a line of version 1: got %+v, %v", got, err)
	}
	newer := strings.Replace(string(want), `{"v":1,`, `{"v":2,"fabric":[1],`, 1)
	if got, err := devices.ParseLine([]byte(newer)); err != nil || !got.Equal(i) {
		t.Errorf("a line of a later version with more in it: got %+v, %v", got, err)
	}
}

// TestBadLines: what comes over the pipe is not believed.
func TestBadLines(t *testing.T) {
	for _, line := range []string{
		``, `{}`, `[]`, `{"v":0,"devices":[],"links":[]}`,
		`{"v":1,"devices":[{"uuid":"a"}],"links":[]}`,
		`{"v":1,"devices":[{"uuid":"a"}],"links":[[]]}`,
		`{"v":1,"devices":[{"uuid":""}],"links":[[0]]}`,
		`{"v":1,"devices":[{"uuid":"a","memory":-1}],"links":[[0]]}`,
		`{"v":1,"devices":[{"uuid":"a"},{"uuid":"a"}],"links":[[0,0],[0,0]]}`,
	} {
		if i, err := devices.ParseLine([]byte(line)); err == nil {
			t.Errorf("%s is taken for %+v", line, i)
		}
	}
}

func FuzzLine(f *testing.F) {
	b, err := os.ReadFile("testdata/inventory.v1.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := devices.ParseLine(b)
		if err != nil {
			return
		}
		for _, row := range i.Links {
			if len(row) != len(i.Devices) {
				t.Fatalf("%q: a row of %d links for %d devices", b, len(row), len(i.Devices))
			}
		}
		if again, err := devices.ParseLine(i.Line()); err != nil || !again.Equal(i) {
			t.Fatalf("%q: read, written and read again it is %+v, %v", b, again, err)
		}
	})
}
