package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// inOrder sorts records the plain way; equal keys keep their order.
func inOrder(records []byte) []byte {
	list := slices.Collect(slices.Chunk(records, recordSize))
	slices.SortStableFunc(list, func(a, b []byte) int { return bytes.Compare(a[:keySize], b[:keySize]) })
	return slices.Concat(list...)
}

// TestSplitAndMerge: cut into blocks by any splitters and merged, partition by partition, records are in order.
func TestSplitAndMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		draw := func(n int) []byte { // keys of few values, so that many are equal
			b := make([]byte, n)
			for i := range b {
				b[i] = byte(rng.IntN(2))
			}
			return b
		}
		partitions := rapid.IntRange(1, 9).Draw(t, "partitions")
		cuts := splitters(draw(keySize*rapid.IntRange(0, 20).Draw(t, "sample")), partitions)
		runs := make([][][]byte, len(cuts)/keySize+1)
		var all []byte
		for range rapid.IntRange(0, 5).Draw(t, "parts") {
			part := draw(recordSize * rapid.IntRange(0, 50).Draw(t, "records"))
			all = append(all, part...)
			for i, block := range split(part, cuts) {
				runs[i] = append(runs[i], block)
			}
		}
		var got []byte
		for _, r := range runs {
			if err := merge(r, func(rec []byte) error { got = append(got, rec...); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got, inOrder(all)) {
			t.Fatalf("%d records in %d partitions are not in order", len(all)/recordSize, len(runs))
		}
	})
}

func TestSplitters(t *testing.T) {
	var sample []byte
	for i := range uint64(10_000) {
		sample = append(sample, record(nil, 1, i)[:keySize]...)
	}
	cuts := splitters(sample, 16)
	if len(cuts) != 15*keySize {
		t.Fatalf("%d splitters", len(cuts)/keySize)
	}
	var part []byte
	for i := range uint64(10_000) {
		part = record(part, 1, i)
	}
	for i, b := range split(part, cuts) {
		if n := len(b) / recordSize; n < 600 || n > 650 {
			t.Errorf("partition %d has %d of 10000 records", i, n)
		}
	}
}

// TestSummary: a summary tells every way in which a file can be wrong.
func TestSummary(t *testing.T) {
	name := filepath.Join(t.TempDir(), "records")
	const n = 1000
	if err := blank(name, n*recordSize); err != nil {
		t.Fatal(err)
	}
	for _, first := range []uint64{500, 0} {
		if err := generate(name, 5, first, n/2); err != nil {
			t.Fatal(err)
		}
	}
	read := func(records []byte) (s summary) {
		t.Helper()
		if records != nil {
			if err := os.WriteFile(name, records, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, half := range [][2]int64{{0, 300}, {300, n - 300}} {
			got, err := summarize(name, half[0]*recordSize, half[1]*recordSize, 10)
			if err != nil {
				t.Fatal(err)
			}
			s = s.join(got)
		}
		return s
	}
	in := read(nil)
	if in.Ordered || in.Count != n || len(in.Sample) != n/10*keySize {
		t.Fatalf("%d records, ordered %v, %d bytes of sample", in.Count, in.Ordered, len(in.Sample))
	}
	input, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	sorted := inOrder(input)
	if err := read(sorted).sortedFrom(in); err != nil {
		t.Error(err)
	}
	swapped := bytes.Clone(sorted)
	copy(swapped[299*recordSize:], sorted[300*recordSize:][:recordSize]) // where the halves meet
	copy(swapped[300*recordSize:], sorted[299*recordSize:][:recordSize])
	twice := bytes.Clone(sorted)
	copy(twice[4*recordSize:], sorted[5*recordSize:][:recordSize])
	changed := bytes.Clone(sorted)
	changed[77]++
	for want, records := range map[string][]byte{"not in order": swapped, "hashes": twice, "add up": changed} {
		if err := read(records).sortedFrom(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := summarize(name, 0, (n+1)*recordSize, 0); err == nil {
		t.Error("a file that is too short")
	}
	if err := (summary{Count: 3, Ordered: true}).sortedFrom(in); err == nil {
		t.Error("records are missing")
	}
}
