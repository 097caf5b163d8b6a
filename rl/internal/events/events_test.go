package events

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// fields are those of a protobuf message by number; a field that comes twice has its bytes joined.
func fields(t *testing.T, b []byte) map[protowire.Number][]byte {
	t.Helper()
	all := map[protowire.Number][]byte{}
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		value := b[:n]
		if typ == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b)
		}
		all[num] = append(all[num], value...)
		b = b[n:]
	}
	return all
}

// records are those of the only file in a folder, after a look at their checksums by another formula than the writer's.
func records(t *testing.T, folder string) (list [][]byte) {
	t.Helper()
	files, err := filepath.Glob(folder + "/events.out.tfevents.*")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	sum := func(data, want []byte) {
		m := uint64(binary.LittleEndian.Uint32(want)) - 0xa282ead8
		m &= math.MaxUint32
		if c := uint32(m<<15 | m>>17); c != crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)) {
			t.Errorf("the checksum of %d bytes is wrong", len(data))
		}
	}
	for len(b) > 0 {
		n := binary.LittleEndian.Uint64(b)
		sum(b[:8], b[8:12])
		sum(b[12:12+n], b[12+n:])
		list = append(list, b[12:12+n])
		b = b[16+n:]
	}
	return list
}

// TestFile: what is written is what the format says; what is not a number is left out.
func TestFile(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "runs", "a")
	f, err := Create(folder)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1_700_000_000, 250_000_000)
	for range 2 {
		if err := f.Add(at, 70_000, Scalar{"loss", 0.125}, Scalar{"none", math.NaN()}, Scalar{"endless", math.Inf(1)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	list := records(t, folder)
	if len(list) != 3 || string(fields(t, list[0])[3]) != "brain.Event:2" {
		t.Fatalf("%d records, the first is %q", len(list), list[0])
	}
	e := fields(t, list[2])
	wall, _ := protowire.ConsumeFixed64(e[1])
	step, _ := protowire.ConsumeVarint(e[2])
	value := fields(t, fields(t, e[5])[1])
	number, _ := protowire.ConsumeFixed32(value[2])
	if math.Float64frombits(wall) != 1_700_000_000.25 || step != 70_000 || string(value[1]) != "loss" || math.Float32frombits(number) != 0.125 || len(value) != 2 {
		t.Errorf("the event is %v: at %v, step %d, %q %v", e, math.Float64frombits(wall), step, value[1], math.Float32frombits(number))
	}
	if !reflect.DeepEqual(list[1], list[2]) {
		t.Error("the same numbers are not written alike")
	}
	if g, err := Create(folder); err != nil || g.Close() != nil {
		t.Errorf("a second file: %v", err)
	}
	if err := os.WriteFile(folder+"/file", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(folder + "/file"); err == nil || !strings.Contains(err.Error(), "file") {
		t.Errorf("a folder that is a file: %v", err)
	}
}

// TestOrder: the files of a folder sort in the order in which they were begun, which is how TensorBoard reads them: within a second, and where the clock of an
// earlier host was ahead.
func TestOrder(t *testing.T) {
	folder := t.TempDir()
	ahead := filepath.Join(folder, fmt.Sprintf("%s%010d.other.1.5", eventFiles, time.Now().Add(time.Hour).Unix()))
	for _, name := range []string{ahead, filepath.Join(folder, eventFiles+"of.another"), filepath.Join(folder, "zzz")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begun := []string{ahead}
	for range 5 {
		f, err := Create(folder)
		if err != nil {
			t.Fatal(err)
		}
		begun = append(begun, f.f.Name())
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.IsSorted(begun) {
		t.Errorf("begun in the order %v", begun)
	}
}
