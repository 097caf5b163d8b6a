package objectstore_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/objectstore"
)

// FuzzSpillHeader reads any bytes as a spill file: what is accepted says the same when it is written again.
func FuzzSpillHeader(f *testing.F) {
	for n, size := range []int{0, 1, 3*mib + 1} {
		b := content(n, size)
		f.Add(append(objectstore.FileHeader("c", strings.Repeat("n", n), version(n, b), objectstore.SumsOf(b)), b[:min(size, 100)]...), int64(size))
	}
	f.Add([]byte("raysysOB"), int64(7))
	f.Fuzz(func(t *testing.T, head []byte, rest int64) {
		length := int64(len(head)) + max(0, rest%(8*mib))
		v, label, sums, body, err := objectstore.ReadFileHeader(bytes.NewReader(head), length, "c")
		if err != nil {
			return
		}
		again := objectstore.FileHeader("c", label, v, sums)
		if int64(len(again)) != body || len(head) < len(bytes.TrimRight(again, "\x00")) || length != body+v.Size {
			t.Fatalf("%+v at %d of %d", v, body, length)
		}
	})
}

func TestSpillHeaderKeepsAll(t *testing.T) {
	b := content(1, 3*mib+1)
	want, sums := version(7, b), objectstore.SumsOf(b)
	want.Attempt = 3
	head := objectstore.FileHeader("cluster", "label", want, sums)
	length := int64(len(head)) + want.Size
	got, label, found, body, err := objectstore.ReadFileHeader(bytes.NewReader(head), length, "cluster")
	if err != nil || got != want || label != "label" || !slices.Equal(found, sums) || body%4096 != 0 {
		t.Fatalf("%+v at %d with the sums %x, %v", got, body, found, err)
	}
	for i := range bytes.TrimRight(head, "\x00") {
		bad := bytes.Clone(head)
		bad[i] ^= 1
		if _, _, _, _, err := objectstore.ReadFileHeader(bytes.NewReader(bad), length, "cluster"); err == nil {
			t.Errorf("a header with another byte %d is read", i)
		}
	}
	if _, _, _, _, err := objectstore.ReadFileHeader(bytes.NewReader(head), length-1, "cluster"); err == nil {
		t.Error("a file that is too short is read")
	}
}
