package bench

import (
	"context"
	"errors"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
)

const mapName = "access to a map[int]int"

// table1k is the raw limit of the get and put rows: the values in a map, without a lock, for one goroutine.
func table1k(n int) map[int]int {
	m := make(map[int]int, n)
	for i := range n {
		m[i] = i
	}
	return m
}

func getSmall(ctx context.Context, p Plan) (measured, error) {
	m, err := onNode(ctx, p, compareRates, func(driver context.Context) (value, limit side) {
		refs, bare := make([]raysys.Ref[int], batch), table1k(batch)
		for i := range refs {
			refs[i] = raysys.Put(driver, i)
		}
		return side{batch, func() error { return getAll(driver, refs, 0) }}, side{batch, func() error { return lookAll(bare) }}
	})
	m.limit, m.latencyOf = mapName, "1000 gets"
	return m, err
}

// getAll gets values that are first, first+1...
func getAll(ctx context.Context, refs []raysys.Ref[int], first int) error {
	for i, r := range refs {
		v, err := r.Get(ctx)
		if err != nil {
			return err
		}
		if err := expect(v, first+i); err != nil {
			return err
		}
	}
	return nil
}

// lookAll is getAll on the map.
func lookAll(m map[int]int) error {
	for i := range len(m) {
		if err := expect(m[i], i); err != nil {
			return err
		}
	}
	return nil
}

func putSmall(ctx context.Context, p Plan) (measured, error) {
	m, err := onNode(ctx, p, compareRates, func(driver context.Context) (value, limit side) {
		refs, bare := make([]raysys.Ref[int], batch), table1k(batch)
		value = side{batch, func() error {
			for i := range refs {
				refs[i] = raysys.Put(driver, i)
			}
			v, err := refs[batch-1].Get(driver)
			return errors.Join(err, expect(v, batch-1))
		}}
		limit = side{batch, func() error {
			for i := range batch {
				bare[i] = i
			}
			return nil
		}}
		return value, limit
	})
	m.limit, m.latencyOf = "store into a map[int]int", "1000 puts"
	m.note("note", "a thousand objects are alive at a time; the garbage collector frees the others while the row runs. The map allocates nothing")
	return m, err
}

const listLength = 10_000

func getList(ctx context.Context, p Plan) (m measured, err error) {
	err = withNode(ctx, p, func(driver context.Context, _ *system.Node) error {
		list, bare := makeList.Go(driver, listLength), table1k(listLength)
		if _, err := list.Get(driver); err != nil {
			return err
		}
		m, err = compareRates(ctx, p, one(func() error {
			refs, err := list.Get(driver)
			if err != nil {
				return err
			}
			return getAll(driver, refs, 0)
		}), one(func() error { return lookAll(bare) }))
		if err != nil {
			return err
		}
		m.limit, m.latencyOf = "10,000 accesses to a map[int]int", "a get of the list and of its 10,000 values"
		// Ray's row of this name gets the list alone. Inside one process that is a get of one value.
		var h hist
		alone, err := one(func() error { _, err := list.Get(driver); return err }).loop(p.Slice/4, &h)
		m.note("list_alone_per_s", figures(alone))
		return err
	})
	return m, err
}

// submitAndWait submits a task for each of refs and waits for one of those left as often.
func submitAndWait(ctx context.Context, refs []raysys.Ref[int]) error {
	for i := range refs {
		refs[i] = increment.Go(ctx, i)
	}
	for left := refs; len(left) > 0; {
		ready, rest, err := raysys.Wait(ctx, left, 1)
		if err != nil {
			return err
		}
		if err := expect(len(ready), 1); err != nil {
			return err
		}
		left = rest
	}
	return nil
}

func manyArgs(ctx context.Context, p Plan) (measured, error) {
	m, err := onNode(ctx, p, compareLatency, func(driver context.Context) (value, limit side) {
		bare := make(map[int]int, listLength)
		value = one(func() error {
			refs := make([]raysys.Ref[int], listLength)
			for i := range refs {
				refs[i] = raysys.Put(driver, i)
			}
			v, err := sum.Go(driver, addends{refs}).Get(driver)
			return errors.Join(err, expect(v, listLength*(listLength-1)/2))
		})
		limit = one(func() error {
			clear(bare)
			for i := range listLength {
				bare[i] = i
			}
			total := 0
			for i := range listLength {
				total += bare[i]
			}
			return expect(total, listLength*(listLength-1)/2)
		})
		return value, limit
	})
	m.limit, m.latencyOf = "10,000 stores into a map[int]int and 10,000 accesses", "10,000 puts, one task, its result"
	return m, err
}
