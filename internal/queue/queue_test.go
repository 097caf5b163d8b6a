package queue_test

import (
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/raysys/raysys/internal/queue"
)

// The queue is a slice to one goroutine.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := queue.New[int]()
		var model []int
		next := 0
		for _, push := range rapid.SliceOfN(rapid.IntRange(-700, 700), 1, 20).Draw(t, "runs") {
			for ; push > 0; push-- {
				v := next
				next++
				q.Push(&v)
				model = append(model, v)
			}
			for ; push < 0; push++ {
				got := q.Pop()
				if len(model) == 0 {
					if got != nil || !q.Empty() {
						t.Fatalf("Pop of an empty queue = %d", *got)
					}
					continue
				}
				if got == nil || *got != model[0] {
					t.Fatalf("Pop = %v, want %d", got, model[0])
				}
				model = model[1:]
			}
			var listed []int
			q.Each(func(before uint64, x *int) bool {
				if before != uint64(*x) {
					t.Fatalf("Each has %d pushed before %d", before, *x)
				}
				listed = append(listed, *x)
				return true
			})
			if !slices.Equal(listed, model) {
				t.Fatalf("Each has %d elements from %v, want %d", len(listed), listed[:min(len(listed), 1)], len(model))
			}
			if n := q.Pushed() - q.Popped(); n != uint64(len(model)) {
				t.Fatalf("length %d, want %d", n, len(model))
			}
		}
	})
}

// Everything pushed comes out once, and each producer's elements come out in its order at each consumer.
func TestManyProducersManyConsumers(t *testing.T) {
	type item struct{ producer, n int }
	const producers, consumers, each = 3, 3, 20000
	q := queue.New[item]()
	var made, taken sync.WaitGroup
	got := make([][]item, consumers)
	stop := make(chan struct{}) // closed when all producers are done
	for p := range producers {
		made.Go(func() {
			for n := range each {
				q.Push(&item{p, n})
			}
		})
	}
	for c := range consumers {
		taken.Go(func() {
			for {
				if x := q.Pop(); x != nil {
					got[c] = append(got[c], *x)
					continue
				}
				select {
				case <-stop:
					if q.Empty() {
						return
					}
				default:
				}
			}
		})
	}
	made.Wait()
	close(stop)
	taken.Wait()
	seen := map[item]bool{}
	for c, items := range got {
		last := [producers]int{-1, -1, -1}
		for _, x := range items {
			if seen[x] {
				t.Fatalf("%v came out twice", x)
			}
			seen[x] = true
			if x.n <= last[x.producer] {
				t.Fatalf("consumer %d saw %v after %d", c, x, last[x.producer])
			}
			last[x.producer] = x.n
		}
	}
	if len(seen) != producers*each {
		t.Fatalf("%d of %d came out", len(seen), producers*each)
	}
}

func BenchmarkPushPop(b *testing.B) {
	q := queue.New[int]()
	x := new(int)
	for b.Loop() {
		q.Push(x)
		q.Pop()
	}
}
