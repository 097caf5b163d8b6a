package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/tasks"
)

var (
	generating = tasks.Define("sort.generate", func(_ context.Context, s stretch) (bool, error) {
		return true, generate(s.File, s.Seed, uint64(s.Offset/recordSize), uint64(s.Length/recordSize))
	})
	summarizing = tasks.Define("sort.summarize", func(_ context.Context, s stretch) (summary, error) {
		return summarize(s.File, s.Offset, s.Length, s.Step)
	})
	mapping = tasks.Define("sort.map", mapPart)
	merging = tasks.Define("sort.merge", mergePartition)
)

// stretch is a part of a file.
type stretch struct {
	File           string
	Offset, Length int64
	Seed           uint64 // of the records to make
	Step           int64  // from one key of the sample to the next, in records
}

// mapJob is a part of the input that shall be sorted and cut.
type mapJob struct {
	Part      stretch
	Splitters []byte
	Done      []bool // partitions that nobody needs any more
}

// mapped is what came of it: for each partition a reference to the part's records in it, sorted. The records stay on the
// node that the task ran on.
type mapped struct {
	Blocks []raysys.Ref[[]byte]
	Sizes  []int
}

// mapPart makes an object of each block by Put. Its result has the references, and the node that the task ran on owns the
// objects when the task is over, until nobody refers to them.
func mapPart(ctx context.Context, job mapJob) (mapped, error) {
	f, err := os.Open(job.Part.File)
	if err != nil {
		return mapped{}, fmt.Errorf("read records: %w", err)
	}
	defer f.Close()
	part := make([]byte, job.Part.Length)
	if _, err := f.ReadAt(part, job.Part.Offset); err != nil {
		return mapped{}, fmt.Errorf("read records: %w", err)
	}
	var m mapped
	for i, block := range split(part, job.Splitters) {
		m.Sizes = append(m.Sizes, len(block))
		if job.Done != nil && job.Done[i] {
			block = nil
		}
		m.Blocks = append(m.Blocks, raysys.Put(ctx, block)) // which waits while the store spills what it holds
	}
	return m, nil
}

// mergeJob is a partition that shall be written.
type mergeJob struct {
	File   string
	Offset int64
	// Runs are the partition's blocks of all parts. They are handles, not references that the task waits for: that would
	// pull the blocks of every task that waits to start, and one that is lost would fail the task without saying which.
	Runs []raysys.Handle[[]byte]
}

// merged is what came of it.
type merged struct {
	Lost []int  // runs that are gone; then nothing was written
	Why  string // the first of them is
}

// mergePartition looks at all runs where they are, in memory, in a spill file or in what came from another node, and writes
// their records in order. It may run more than once, also at the same time: the bytes and their place are the same.
func mergePartition(ctx context.Context, job mergeJob) (m merged, err error) {
	f, err := os.OpenFile(job.File, os.O_WRONLY, 0)
	if err != nil {
		return m, fmt.Errorf("write partition: %w", err)
	}
	defer f.Close()
	err = m.look(ctx, job, nil, func(runs [][]byte) error {
		w := bufio.NewWriterSize(io.NewOffsetWriter(f, job.Offset), 1<<20)
		if err := merge(runs, func(rec []byte) error { _, err := w.Write(rec); return err }); err != nil {
			return err
		}
		return w.Flush()
	})
	return m, err
}

// look opens the runs one inside the other and calls f with all of them, unless one is lost: then it finds out which others
// are.
func (m *merged) look(ctx context.Context, job mergeJob, open [][]byte, f func([][]byte) error) error {
	i := len(open)
	if i == len(job.Runs) {
		if len(m.Lost) > 0 {
			return nil
		}
		return f(open)
	}
	shown := false
	err := raysys.View(ctx, job.Runs[i].Ref(), func(run []byte) error {
		shown = true
		return m.look(ctx, job, append(open, run), f)
	})
	if shown || !errors.Is(err, raysys.ErrObjectLost) {
		return err
	}
	if m.Lost = append(m.Lost, i); m.Why == "" {
		m.Why = err.Error()
	}
	return m.look(ctx, job, append(open, nil), f)
}
