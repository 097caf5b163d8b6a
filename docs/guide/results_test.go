package guide_test

import (
	"context"
	"slices"
	"testing"

	"github.com/raysys/raysys/grains/queue"
	"github.com/raysys/raysys/testkit"
)

type Picture struct {
	Name   string
	Pixels []byte
}

var thumbnails = queue.Define[Picture]("guide.thumbnails", queue.Size(100))

func shrink(ctx context.Context, pictures []Picture) error {
	q := thumbnails.Get("album-7")
	for _, p := range pictures {
		if err := q.Put(ctx, p); err != nil { // waits while 100 are in the queue
			return err
		}
	}
	return q.Close(ctx)
}

func save(ctx context.Context) (names []string, err error) {
	for p, err := range thumbnails.Get("album-7").All(ctx) { // ends when the queue is closed and empty
		if err != nil {
			return nil, err
		}
		names = append(names, p.Name)
	}
	return names, nil
}

func TestQueue(t *testing.T) {
	ctx := testkit.New(t).Context()
	done := make(chan error, 1)
	go func() { done <- shrink(ctx, []Picture{{Name: "a"}, {Name: "b", Pixels: make([]byte, 300)}}) }()
	if names, err := save(ctx); err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Error(names, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
