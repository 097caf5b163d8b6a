package registry

import (
	"fmt"
	"sync"
	"testing"
)

// TestRequestsHaveRoom: however many changes come at the same time, a leader takes each request that they make.
func TestRequestsHaveRoom(t *testing.T) {
	_, d := newElsewhere(t, func(q *asked[[]Entry]) { q.answer(make([]Entry, len(changesOf(q))), nil) })
	const many, each = 16, 2000
	var made, begun sync.WaitGroup
	made.Add(many * each)
	for i := range many {
		begun.Go(func() {
			for j := range each {
				d.Change(Change{kind: changeForget, key: fmt.Sprint("n/", i, " ", j)}, func(_ Entry, err error) {
					if err != nil {
						t.Error(err)
					}
					made.Done()
				})
			}
		})
	}
	begun.Wait()
	made.Wait()
}

// changesOf are those that the request asks for.
func changesOf(q *asked[[]Entry]) []Change { return q.operation.(*changes).list }
