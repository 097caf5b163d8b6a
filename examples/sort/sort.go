package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/progress"
	"github.com/raysys/raysys/system"
)

// sorter sorts one file. It holds references to the blocks, and never the records.
type sorter struct {
	in, out    string
	parts      []stretch // of the input, each what one task reads
	partitions int       // of the keys, each what one task writes
	parallel   int       // tasks at a time
	again      int       // how often a part may be lost
	log        func(format string, args ...any)

	cuts   []byte
	maps   []mapped // by part
	lost   []int    // how often each was
	done   []bool   // by partition
	report report
}

// report is what a sort came to.
type report struct {
	Bytes          int64
	Nodes          int
	Spilled, Moved int64 // bytes that went to disk, and from node to node
	Redone         int   // parts that were sorted again because their blocks were lost
	Map, Merge     time.Duration
}

// newSorter plans a sort of size bytes.
func newSorter(in, out string, size int64, parts, partitions, parallel int) *sorter {
	s := &sorter{in: in, out: out, partitions: partitions, parallel: parallel, again: 3, log: func(string, ...any) {}}
	records := size / recordSize
	for i := range int64(parts) {
		from, to := records*i/int64(parts), records*(i+1)/int64(parts)
		s.parts = append(s.parts, stretch{File: in, Offset: from * recordSize, Length: (to - from) * recordSize})
	}
	s.report.Bytes = records * recordSize
	s.maps, s.lost, s.done = make([]mapped, parts), make([]int, parts), make([]bool, partitions)
	return s
}

// generate makes the input.
func (s *sorter) generate(ctx context.Context, seed uint64) error {
	if err := blank(s.in, s.report.Bytes); err != nil {
		return err
	}
	return each(ctx, "generate", s.parallel, count(len(s.parts)), func(i int) raysys.Ref[bool] {
		p := s.parts[i]
		p.Seed = seed
		return generating.Go(ctx, p)
	}, func(_ int, _ bool, err error) error { return err })
}

// blank makes a file of that size, whatever was there.
func blank(name string, size int64) error {
	f, err := os.Create(name)
	if err == nil {
		err = errors.Join(f.Truncate(size), f.Close())
	}
	if err != nil {
		return fmt.Errorf("make file: %w", err)
	}
	return nil
}

// samples is about how many keys the splitters are chosen from.
const samples = 20_000

// summarize reads a whole file, of the same size as the input.
func (s *sorter) summarize(ctx context.Context, file string) (all summary, err error) {
	found := make([]summary, len(s.parts))
	err = each(ctx, "read", s.parallel, count(len(s.parts)), func(i int) raysys.Ref[summary] {
		p := s.parts[i]
		p.File, p.Step = file, s.report.Bytes/recordSize/samples+1
		return summarizing.Go(ctx, p)
	}, func(i int, got summary, err error) error {
		found[i] = got
		return err
	})
	for _, f := range found {
		all = all.join(f)
	}
	return all, err
}

// sort shuffles: the tasks of the parts leave their blocks where they ran, and the task of a partition pulls its blocks from
// wherever they are. When blocks are lost with their node, the parts that they came from are sorted again.
func (s *sorter) sort(ctx context.Context, sample []byte) error {
	s.cuts = splitters(sample, s.partitions)
	s.partitions = len(s.cuts)/keySize + 1
	s.done = s.done[:s.partitions]
	before, err := used(ctx)
	if err == nil {
		err = blank(s.out, s.report.Bytes)
	}
	if err != nil {
		return err
	}
	missing := count(len(s.parts))
	for {
		began := time.Now()
		if err := s.mapParts(ctx, missing); err != nil {
			return err
		}
		s.report.Map += time.Since(began)
		began = time.Now()
		lost, err := s.mergePartitions(ctx)
		s.report.Merge += time.Since(began)
		if err != nil {
			return err
		}
		if len(lost) == 0 {
			after, err := used(ctx)
			s.report.Nodes, s.report.Spilled, s.report.Moved = after.nodes, after.spilled-before.spilled, after.moved-before.moved
			return err
		}
		missing = lost
	}
}

// mapParts sorts parts, and keeps the references to what came of them.
func (s *sorter) mapParts(ctx context.Context, parts []int) error {
	for len(parts) > 0 {
		why := map[int]string{}
		err := each(ctx, "map", s.parallel, parts, func(i int) raysys.Ref[mapped] {
			return mapping.Go(ctx, mapJob{Part: s.parts[i], Splitters: s.cuts, Done: slices.Clone(s.done)})
		}, func(i int, m mapped, err error) error {
			if errors.Is(err, raysys.ErrObjectLost) { // the list of references went with its node
				why[i] = err.Error()
				return nil
			}
			s.maps[i] = m
			return err
		})
		if err != nil {
			return err
		}
		if parts, err = s.redo(why); err != nil {
			return err
		}
	}
	return nil
}

// redo returns the parts that have to be sorted again, and why one of them has been lost too often.
func (s *sorter) redo(why map[int]string) (parts []int, err error) {
	for i := range why {
		parts = append(parts, i)
		if s.lost[i]++; s.lost[i] > s.again {
			err = errors.Join(err, fmt.Errorf("%w: what part %d was sorted into, %d times: %s", raysys.ErrObjectLost, i, s.lost[i], why[i]))
		}
	}
	if len(parts) > 0 {
		slices.Sort(parts)
		s.report.Redone += len(parts)
		s.log("sorted blocks were lost: %d of %d parts are sorted again: %v: %s", len(parts), len(s.parts), parts, why[parts[0]])
	}
	return parts, err
}

// mergePartitions writes the partitions that are missing, and returns the parts whose blocks were lost before they were all
// written.
func (s *sorter) mergePartitions(ctx context.Context) (lost []int, err error) {
	why := map[int]string{}
	offsets := make([]int64, s.partitions+1)
	var missing []int
	for p := range s.partitions {
		offsets[p+1] = offsets[p]
		for _, m := range s.maps {
			offsets[p+1] += int64(m.Sizes[p])
		}
		if !s.done[p] {
			missing = append(missing, p)
		}
	}
	err = each(ctx, "merge", s.parallel, missing, func(p int) raysys.Ref[merged] {
		job := mergeJob{File: s.out, Offset: offsets[p]}
		for _, m := range s.maps {
			job.Runs = append(job.Runs, m.Blocks[p].Handle())
		}
		return merging.Go(ctx, job)
	}, func(p int, m merged, err error) error {
		if err != nil {
			return fmt.Errorf("partition %d: %w", p, err)
		}
		for _, i := range m.Lost {
			why[i] = m.Why
		}
		if len(m.Lost) > 0 {
			return nil
		}
		s.done[p] = true
		for _, m := range s.maps {
			m.Blocks[p].Release() // its memory, or its place on disk, is for others now
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.redo(why)
}

// usage is what the stores of all nodes have done since the nodes began.
type usage struct {
	spilled, moved int64 // bytes
	nodes          int
}

// used asks the nodes. Those that are gone do not answer.
func used(ctx context.Context) (u usage, err error) {
	m, err := system.NodeOf(ctx).Memory(ctx, "", 1)
	for _, n := range m.Nodes {
		u.spilled += n.Store.SpilledBytes
		u.moved += n.Store.ReceivedBytes
	}
	u.nodes = len(m.Nodes)
	return u, err
}

// each submits work for every item, so that at most window are under way, hands on what came of each, and shows how far it is. The first error ends it.
func each[R any](ctx context.Context, name string, window int, items []int, submit func(int) raysys.Ref[R], done func(int, R, error) error) error {
	under, counter := map[raysys.Ref[R]]int{}, progress.Count(name, len(items))
	defer counter.End()
	var refs []raysys.Ref[R]
	defer func() {
		for _, r := range refs {
			r.Cancel()
		}
	}()
	for len(items) > 0 || len(refs) > 0 {
		for len(items) > 0 && len(refs) < window {
			r := submit(items[0])
			under[r] = items[0]
			refs, items = append(refs, r), items[1:]
		}
		ready, rest, err := raysys.Wait(ctx, refs, 1)
		if err != nil {
			return err
		}
		for _, r := range ready {
			v, err := r.Get(ctx)
			counter.Done(err != nil)
			if err := done(under[r], v, err); err != nil {
				return err
			}
			delete(under, r)
		}
		refs = slices.Clone(rest)
	}
	return nil
}

func count(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
