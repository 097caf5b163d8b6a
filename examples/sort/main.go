// Command sort sorts a file that is larger than the memory it may use, by a shuffle, and checks the result.
//
//	go run ./examples/sort -size 256MB -memory 64MB     in this process
//	RAYSYS_CONSUL=127.0.0.1:8500 go run ./examples/sort -size 1GB -dir /shared
//	                                                    on the workers of a cluster (raysys node --app bin/sort)
//
// It makes the file first, of records of 100 bytes with random keys of 10, unless -in names one.
//
//	input        map tasks: read a part, sort it, cut it          merge tasks: pull a partition's blocks, merge, write
//	[part 0] ──► blocks 0 1 2 ... stay where the task ran ──┬──►  partition 0 ──► sorted file
//	[part 1] ──► blocks 0 1 2 ... (Put; spilled to disk     ├──►  partition 1 ──►   (each at its place)
//	[part 2] ──► blocks 0 1 2 ...  when memory is short)  ──┴──►  partition 2 ──►
//
// This process holds references to the blocks and hands them on; the records go from the node that sorted them to the one
// that merges them. A node that dies takes its blocks with it: the parts they came from are then sorted again, which needs
// the input and nothing else.
//
// What is checked is the order of all records, their count, and that the sum of their hashes is the input's. The report
// goes to standard output. Exit codes: 0 ok, 1 not sorted or interrupted, 2 usage. RAYSYS_* configure the node as they do
// every program's.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/raysys/raysys/progress"
	"github.com/raysys/raysys/system"
)

// bytesFlag is a number of bytes, such as 256MB or 1GiB.
type bytesFlag int64

func (b *bytesFlag) String() string { return size(int64(*b)) }

func (b *bytesFlag) Set(v string) error {
	n, err := system.ParseSize(v, 0)
	*b = bytesFlag(n)
	return err
}

// size is n as people read it.
func size(n int64) string {
	switch {
	case n < 1e6:
		return fmt.Sprintf("%.4gKB", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.4gMB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.4gGB", float64(n)/1e9)
}

// options are what the flags say.
type options struct {
	size, memory      bytesFlag
	in, out, dir      string
	seed              uint64
	parts, partitions int
	parallel          int
}

func define(set *flag.FlagSet) *options {
	o := &options{size: 256e6}
	set.Var(&o.size, "size", "of the file to make and sort")
	set.Var(&o.memory, "memory", "that this process's object store may take; 0: 30 % of what there is. Other nodes have their own")
	set.StringVar(&o.in, "in", "", "file to sort, of records of 100 bytes; empty: one is made")
	set.StringVar(&o.out, "out", "", "where the sorted file is kept; empty: nowhere")
	set.StringVar(&o.dir, "dir", "", "where the other files are made, for the time of the run; all nodes must reach it. Empty: the system's own for such files")
	set.Uint64Var(&o.seed, "seed", 1, "of the file that is made")
	set.IntVar(&o.parts, "parts", 0, "parts of the input, each of which a task reads; 0: by memory")
	set.IntVar(&o.partitions, "partitions", 0, "partitions of the keys, each of which a task writes; 0: by memory")
	set.IntVar(&o.parallel, "parallel", 2*runtime.GOMAXPROCS(0), "tasks at a time")
	return o
}

// check says what is wrong with the flags.
func (o options) check(args []string) error {
	switch {
	case len(args) > 0:
		return fmt.Errorf("sort takes no argument, and was given %q", args[0])
	case o.parallel < 1 || o.parts < 0 || o.partitions < 0:
		return errors.New("parallel is 1 or more, parts and partitions are 0 or more")
	}
	return nil
}

func main() {
	o := define(flag.CommandLine)
	flag.Parse()
	if err := o.check(flag.Args()); err != nil {
		fmt.Fprintf(os.Stderr, "error: %v: run with -h for the flags\n", err)
		os.Exit(2)
	}
	if o.memory > 0 {
		_ = os.Setenv("RAYSYS_OBJECT_MEMORY", fmt.Sprint(int64(o.memory))) // the name is valid
	}
	system.Main(func(ctx context.Context) error { return o.sort(ctx, os.Stdout, os.Stderr) })
}

// smallBlock is what blocks have at least, on average.
const smallBlock = 128 << 10

// sort makes the file, sorts it and checks it.
func (o options) sort(ctx context.Context, stdout, stderr io.Writer) error {
	dir, err := os.MkdirTemp(o.dir, "raysys-sort-")
	if err != nil {
		return fmt.Errorf("make a directory for the files: %w", err)
	}
	defer os.RemoveAll(dir)
	in, out := cmp.Or(o.in, filepath.Join(dir, "input")), cmp.Or(o.out, filepath.Join(dir, "sorted"))
	length := int64(o.size) / recordSize * recordSize
	if o.in != "" {
		st, err := os.Stat(in)
		if err != nil {
			return fmt.Errorf("read records: %w", err)
		}
		if length = st.Size(); length%recordSize != 0 {
			return fmt.Errorf("%w: %s has %d bytes, which are no records of %d", system.ErrConfig, in, length, recordSize)
		}
	}
	// A task holds its part twice, and blocks below 64 KiB would travel with their references through this process.
	part := 8e6
	if o.memory > 0 {
		part = float64(o.memory) / 4
	}
	cut := max(1, int(min(math.Ceil(float64(length)/part), math.Sqrt(float64(length)/smallBlock))))
	s := newSorter(in, out, length, cmp.Or(o.parts, cut), cmp.Or(o.partitions, cut), o.parallel)
	s.log = func(format string, args ...any) { fmt.Fprintf(progress.Writer(stderr), format+"\n", args...) }
	if o.in == "" {
		if err := s.generate(ctx, o.seed); err != nil {
			return err
		}
	}
	before, err := s.summarize(ctx, in)
	if err == nil {
		err = s.sort(ctx, before.Sample)
	}
	var after summary
	if err == nil {
		after, err = s.summarize(ctx, out)
	}
	if err == nil {
		err = after.sortedFrom(before)
	}
	if err != nil {
		return err
	}
	r := s.report
	took := r.Map + r.Merge
	fmt.Fprintf(stdout, "sorted     %s, %d records, in %d parts and %d partitions on %d nodes\n", size(r.Bytes), after.Count, len(s.parts), s.partitions, r.Nodes)
	fmt.Fprintf(stdout, "took       %v (map %v, merge %v): %s/s\n", took.Round(time.Millisecond), r.Map.Round(time.Millisecond), r.Merge.Round(time.Millisecond), size(int64(float64(r.Bytes)/took.Seconds())))
	fmt.Fprintf(stdout, "spilled    %s\n", size(r.Spilled))
	fmt.Fprintf(stdout, "moved      %s between nodes\n", size(r.Moved))
	fmt.Fprintf(stdout, "redone     %d parts\n", r.Redone)
	fmt.Fprintf(stdout, "checked    order, count, and the sum of hashes %016x\n", after.Sum)
	return nil
}
