package guide_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/grains/feed"
	"github.com/raysys/raysys/grains/queue"
	"github.com/raysys/raysys/progress"
	"github.com/raysys/raysys/tasks"
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
		if err := q.Put(ctx, p); err != nil { // waits while 100 are in the queue, or 64 MiB of them
			return err
		}
	}
	return q.Close(ctx)
}

func save(ctx context.Context) (names []string, err error) {
	seen := map[string]bool{}
	for p, err := range thumbnails.Get("album-7").All(ctx) { // ends when the queue is closed and empty
		switch {
		case err != nil:
			return nil, err
		case !seen[p.Name]: // a producer that runs again puts its pictures again
			seen[p.Name], names = true, append(names, p.Name)
		}
	}
	return names, nil
}

func TestQueue(t *testing.T) {
	ctx := testkit.New(t).Context()
	if err := thumbnails.Get("album-7").Put(ctx, Picture{Name: "a"}); err != nil { // of an attempt of shrink whose node was lost
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- shrink(ctx, []Picture{{Name: "a"}, {Name: "b", Pixels: make([]byte, 300)}}) }()
	if names, err := save(ctx); err != nil || !slices.Equal(names, []string{"a", "b"}) {
		t.Error(names, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

type Match struct{ Moves feed.Feed[string] }

func (m *Match) Play(ctx context.Context, move string) error { return m.Moves.Emit(move) } // never waits

var (
	matches = grains.Define[Match]("guide.match")
	play    = grains.Action(matches, "play", (*Match).Play)
	watch   = feed.Method(matches, "watch", func(m *Match) *feed.Feed[string] { return &m.Moves })
)

func moves(ctx context.Context, n int) (seen []string, err error) {
	for move, err := range watch.All(ctx, matches.Get("final"), feed.Last(10)) { // without Last: from now on
		var missed *feed.MissedError
		switch {
		case errors.As(err, &missed): // the loop was too slow, or the grain began anew; it goes on
		case err != nil:
			return nil, err
		default:
			seen = append(seen, move)
		}
		if len(seen) == n {
			break
		}
	}
	return seen, nil
}

func TestFeed(t *testing.T) {
	ctx := testkit.New(t).Context()
	for _, move := range []string{"e4", "e5"} {
		if _, err := play.Call(ctx, matches.Get("final"), move).Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if seen, err := moves(ctx, 2); err != nil || !slices.Equal(seen, []string{"e4", "e5"}) {
		t.Error(seen, err)
	}
}

var cut = tasks.Define2("guide.results.cut", func(ctx context.Context, text string, parts int) ([]raysys.Handle[[]string], error) {
	words, all := strings.Fields(text), make([]raysys.Handle[[]string], parts)
	for i := range all {
		all[i] = raysys.Put(ctx, words[i*len(words)/parts:(i+1)*len(words)/parts]).Handle()
	}
	return all, nil
})

var countPart = tasks.Define2("guide.results.count", func(ctx context.Context, parts []raysys.Handle[[]string], i int) (int, error) {
	words, err := parts[i].Ref().Get(ctx) // the others are not fetched
	return len(words), err
})

var sum = tasks.Define2("guide.results.sum", func(ctx context.Context, a, b int) (int, error) { return a + b, nil })

func TestProgress(t *testing.T) {
	ctx := testkit.New(t).Context()
	refs := []raysys.Ref[int]{sum.Go(ctx, 1, 2), sum.Go(ctx, 3, 4)}
	total := 0
	for _, r := range progress.AsCompleted(ctx, "rollouts", refs) { // rollouts: 371 of 1000 (37%), 2 failed, 12.4/s, 51s left
		n, err := r.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != 10 {
		t.Fatal(total)
	}
}

func TestSeveralResults(t *testing.T) {
	ctx := testkit.New(t, testkit.Nodes(2)).Context()
	parts := cut.Go(ctx, "to be or not to be", 3)
	var counts []raysys.Ref[int]
	for i := range 3 {
		counts = append(counts, countPart.On(ctx, parts, raysys.Ready(i)))
	}
	total := tasks.Reduce(ctx, sum, counts)
	if n, err := total.Get(ctx); n != 6 || err != nil {
		t.Fatal(n, err)
	}
}
