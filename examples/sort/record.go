package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
)

// A record is 100 bytes, as in the sort benchmarks that gensort makes the input of: a key of 10 bytes, by which records
// are ordered as bytes, and 90 bytes that go with it.
const (
	recordSize = 100
	keySize    = 10
)

// record makes record number i of the file that seed names, wherever it is made.
func record(dst []byte, seed, i uint64) []byte {
	hi, lo := mix(seed^mix(i)), mix(seed+mix(^i))
	dst = binary.BigEndian.AppendUint64(dst, hi)
	dst = binary.BigEndian.AppendUint16(dst, uint16(lo))
	dst = fmt.Appendf(dst, "  %032X  ", i)
	for j := range 13 {
		c := 'A' + byte(lo>>(4*j))%26
		dst = append(dst, c, c, c, c)
	}
	return append(dst, '\r', '\n')
}

// mix is the finalizer of splitmix64: every bit of x changes half of the result's.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// generate writes n records from number first on into the file at their places.
func generate(name string, seed, first, n uint64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	w := bufio.NewWriterSize(io.NewOffsetWriter(f, int64(first)*recordSize), 1<<20)
	var b []byte
	for i := first; i < first+n && err == nil; i++ {
		b = record(b[:0], seed, i)
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Flush()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	return nil
}

// summary is what two files have in common when one has the other's records in another order, and what shows that they are
// in order.
type summary struct {
	Count   int64
	Sum     uint64 // of a hash of each record: the order does not matter
	Ordered bool
	First   []byte // keys; nil of no records
	Last    []byte
	Sample  []byte // some of the keys, one after the other
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func hash(rec []byte) uint64 {
	return uint64(crc32.Checksum(rec, castagnoli))<<32 | uint64(crc32.ChecksumIEEE(rec))
}

// summarize reads a stretch of a file. Of every step records it keeps the key of one.
func summarize(name string, offset, length, step int64) (s summary, err error) {
	f, err := os.Open(name)
	if err != nil {
		return s, fmt.Errorf("read records: %w", err)
	}
	defer f.Close()
	s.Ordered = true
	r := bufio.NewReaderSize(io.NewSectionReader(f, offset, length), 1<<20)
	rec := make([]byte, recordSize)
	for ; s.Count*recordSize < length; s.Count++ {
		if _, err := io.ReadFull(r, rec); err != nil {
			return s, fmt.Errorf("read record %d of %s: %w", offset/recordSize+s.Count, name, err)
		}
		key := rec[:keySize]
		s.Ordered = s.Ordered && bytes.Compare(s.Last, key) <= 0
		s.Sum += hash(rec)
		if s.Count == 0 {
			s.First = bytes.Clone(key)
		}
		if step > 0 && s.Count%step == 0 {
			s.Sample = append(s.Sample, key...)
		}
		s.Last = append(s.Last[:0], key...)
	}
	return s, nil
}

// join is the summary of a stretch and of the one behind it.
func (s summary) join(next summary) summary {
	switch {
	case s.Count == 0:
		return next
	case next.Count == 0:
		return s
	}
	return summary{
		Count: s.Count + next.Count, Sum: s.Sum + next.Sum, First: s.First, Last: next.Last, Sample: append(s.Sample, next.Sample...),
		Ordered: s.Ordered && next.Ordered && bytes.Compare(s.Last, next.First) <= 0,
	}
}

// sortedFrom says why s is not what in is, sorted.
func (s summary) sortedFrom(in summary) error {
	switch {
	case s.Count != in.Count:
		return fmt.Errorf("not sorted: %d records came of %d", s.Count, in.Count)
	case s.Sum != in.Sum:
		return fmt.Errorf("not sorted: the records are not those of the input: their hashes add up to %016x, not %016x", s.Sum, in.Sum)
	case !s.Ordered:
		return fmt.Errorf("not sorted: the records are not in order")
	}
	return nil
}
