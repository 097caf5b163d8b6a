package bench

import (
	"context"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/queue"
	"github.com/raysys/raysys/internal/items"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/tasks/generator"
)

// line is an item of the rows of generators and queues.
type line struct {
	N    int
	Text string
}

const (
	itemChunks = 64
	itemsOfOne = itemChunks * items.MaxItems // of one operation
	itemsCalls = "lists of 1,024 of the items as results of calls to a grain in another process, two ahead"
	itemsCodec = "the same items encoded and decoded one by one, by the codec alone"
)

func lineOf(i int) line { return line{N: i, Text: "GET /index.html 200"} }

var lines = generator.DefineIn(functions, "lines", func(_ context.Context, n int, yield func(line) bool) error {
	for i := range n {
		if !yield(lineOf(i)) {
			return fmt.Errorf("yield is false at %d of %d", i, n)
		}
	}
	return nil
})

var lineQueues = queue.DefineIn[line](functions, "queue", queue.Size(4*items.MaxItems))

// fill puts n lines into the queue, a chunk at a time.
var fill = tasks.DefineIn(functions, "fill", func(ctx context.Context, n int) (int, error) {
	q := lineQueues.Get("q")
	for i := 0; i < n; {
		list := make([]line, 0, items.MaxItems)
		for ; i < n && len(list) < items.MaxItems; i++ {
			list = append(list, lineOf(i))
		}
		if err := q.Put(ctx, list...); err != nil {
			return i, err
		}
	}
	return n, nil
})

// shelf is a grain that has the lines of one chunk.
type shelf struct{ list []line }

func (s *shelf) OnActivate(context.Context) error {
	for i := range items.MaxItems {
		s.list = append(s.list, lineOf(i))
	}
	return nil
}

func (s *shelf) get(context.Context, int) ([]line, error) { return s.list, nil }

var (
	shelves = grains.DefineIn[shelf](functions, "shelf")
	getOne  = grains.Method(shelves, "get", (*shelf).get)
)

// generated reads the lines of one generator, and taken those of a task that puts them into a queue.
func generated(driver context.Context) error {
	next := 0
	for l, err := range lines.Go(driver, itemsOfOne).All(driver) {
		if err != nil {
			return err
		}
		if l.N != next {
			return fmt.Errorf("line %d comes in the place of %d", l.N, next)
		}
		next++
	}
	if next != itemsOfOne {
		return fmt.Errorf("%d lines of %d came", next, itemsOfOne)
	}
	return nil
}

func taken(driver context.Context) error {
	filled, next := fill.Go(driver, itemsOfOne), 0
	for l, err := range lineQueues.Get("q").All(driver) {
		if err != nil {
			return err
		}
		if l.N != next {
			return fmt.Errorf("line %d comes in the place of %d", l.N, next)
		}
		if next++; next == itemsOfOne {
			break
		}
	}
	_, err := filled.Get(driver)
	return err
}

// itemsHere compares items of this process with the codec.
func itemsHere(do func(context.Context) error) func(context.Context, Plan) (measured, error) {
	return func(ctx context.Context, p Plan) (measured, error) {
		codec, err := items.CodecOf(reflect.TypeFor[line]())
		if err != nil {
			return measured{}, err
		}
		m, err := onNode(ctx, p, compareRates, func(driver context.Context) (value, limit side) {
			return side{itemsOfOne, func() error { return do(driver) }}, side{itemsOfOne, func() error { return codecAlone(codec) }}
		})
		m.latencyOf, m.limit = fmt.Sprint(itemsOfOne, " items"), itemsCodec
		return m, err
	}
}

func codecAlone(codec items.Codec) error {
	in, out := new(line), new(line)
	for range itemChunks {
		var c items.Chunk
		for i := range items.MaxItems {
			*in = lineOf(i)
			if err := codec.Append(&c, unsafe.Pointer(in)); err != nil {
				return err
			}
		}
		for i := range items.MaxItems {
			*out = line{}
			if err := codec.Decode(c, i, unsafe.Pointer(out)); err != nil {
				return err
			}
			if out.N != i {
				return fmt.Errorf("line %d is %d", i, out.N)
			}
		}
	}
	return nil
}

// itemsAcross compares items that another process makes with calls that bring chunks of them.
func itemsAcross(do func(context.Context) error) func(context.Context, Plan) (measured, error) {
	return func(ctx context.Context, p Plan) (m measured, err error) {
		err = withCluster(ctx, p, 1, func(driver context.Context, c *cluster) error {
			if err := c.tasksElsewhere(driver); err != nil {
				return err
			}
			m, err = compareRates(ctx, p, side{itemsOfOne, func() error { return do(driver) }}, side{itemsOfOne, func() error { return plainChunks(driver) }})
			return err
		})
		m.latencyOf, m.limit = fmt.Sprint(itemsOfOne, " items"), itemsCalls
		return m, err
	}
}

func plainChunks(driver context.Context) error {
	var ahead [2]raysys.Ref[[]line]
	for i := range itemChunks + len(ahead) {
		if at := &ahead[i%len(ahead)]; !at.IsZero() {
			list, err := at.Get(driver)
			if err != nil {
				return err
			}
			for n, l := range list {
				if l.N != n {
					return fmt.Errorf("line %d is %d", n, l.N)
				}
			}
		}
		if i < itemChunks {
			ahead[i%len(ahead)] = getOne.Call(driver, shelves.Get("s"), i)
		}
	}
	return nil
}
