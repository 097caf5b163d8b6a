package guide_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"github.com/raysys/raysys/testkit"
)

var errEmpty = errors.New("the text is empty")

var countWords = tasks.Define("guide.tasks.words", func(ctx context.Context, text string) (int, error) {
	if text == "" {
		return 0, errEmpty
	}
	return len(strings.Fields(text)), nil
})

func Example_taskGo() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		r := countWords.Go(ctx, "to be or not to be") // returns at once
		n, err := r.Get(ctx)                          // waits for the result
		fmt.Println(n, err)                           // 6 <nil>
		return err
	})
	// Output: 6 <nil>
}

var (
	version = tasks.Define0("guide.tasks.version", func(ctx context.Context) (string, error) { return "v1", nil })
	percent = tasks.Define2("guide.tasks.percent", func(ctx context.Context, part, whole int) (int, error) {
		return 100 * part / whole, nil
	})
	clamp = tasks.Define3("guide.tasks.clamp", func(ctx context.Context, x, lo, hi int) (int, error) {
		return min(max(x, lo), hi), nil
	})
)

func Example_taskArity() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		fmt.Println(version.Go(ctx).Get(ctx))
		fmt.Println(percent.Go(ctx, 3, 12).Get(ctx))
		fmt.Println(clamp.Go(ctx, 99, 0, 42).Get(ctx))
		return nil
	})
	// Output:
	// v1 <nil>
	// 25 <nil>
	// 42 <nil>
}

func Example_taskOn() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		words := countWords.Go(ctx, "to be or not to be")
		p := percent.On(ctx, words, raysys.Ready(12)) // runs when words is there
		fmt.Println(p.Get(ctx))                       // 50 <nil>
		return nil
	})
	// Output: 50 <nil>
}

type chapter struct {
	Title string
	Words []raysys.Ref[int]  // the task starts when all of them are there
	Whole raysys.Handle[int] // passed on, and not waited for
}

var summary = tasks.Define("guide.tasks.summary", func(ctx context.Context, c chapter) (string, error) {
	words, err := raysys.GetAll(ctx, c.Words).Values() // waits for nothing: they are there
	if err != nil {
		return "", err
	}
	return fmt.Sprint(c.Title, words), nil
})

func Example_taskArguments() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		book := waitForEnd.Go(ctx)
		defer book.Cancel()
		lines := countWords.Map(ctx, []string{"to be", "or not to be"})
		fmt.Println(summary.Go(ctx, chapter{"Hamlet ", lines, book.Handle()}).Get(ctx))
		return nil
	})
	// Output: Hamlet [2 4] <nil>
}

func Example_taskMap() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		refs := countWords.Map(ctx, []string{"one", "", "and two"})
		for i, o := range raysys.GetAll(ctx, refs) { // waits for all; one failure hides no other result
			fmt.Println(i, o.Value, o.Err)
		}
		return nil
	})
	// Output:
	// 0 1 <nil>
	// 1 0 guide.tasks.words: the text is empty
	// 2 2 <nil>
}

func Example_taskWait() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		refs := countWords.Map(ctx, []string{"one", "and two", "and three more"})
		ready, rest, err := raysys.Wait(ctx, refs, 1) // until one has settled
		if err != nil {
			return err
		}
		fmt.Println(len(ready)+len(rest), "tasks")
		sum := 0
		for _, r := range raysys.AsCompleted(ctx, refs) { // first come, first served
			n, err := r.Get(ctx)
			if err != nil {
				return err
			}
			sum += n
		}
		fmt.Println(sum, "words")
		return ctx.Err() // the loop ends early when ctx does
	})
	// Output:
	// 3 tasks
	// 6 words
}

var treeSize tasks.Task[int, int]

func init() {
	treeSize = tasks.Define("guide.tasks.tree-size", func(ctx context.Context, depth int) (int, error) {
		if depth == 0 {
			return 1, nil
		}
		below := treeSize.Map(ctx, []int{depth - 1, depth - 1})
		sizes, err := raysys.GetAll(ctx, below).Values() // gives the CPU back while it waits
		if err != nil {
			return 0, err
		}
		return 1 + sizes[0] + sizes[1], nil
	})
}

func Example_taskNested() {
	one := system.Config{Resources: raysys.Resources{CPU: 1}}
	_ = system.Run(context.Background(), one, func(ctx context.Context) error {
		fmt.Println(treeSize.Go(ctx, 9).Get(ctx))
		return nil
	})
	// Output: 1023 <nil>
}

var errBusy = errors.New("the server is busy")

var _ = raysys.RegisterError("guide.tasks.busy", errBusy) // errors.Is finds it also when the task ran on another node

var download = tasks.Define("guide.tasks.download", func(ctx context.Context, page string) (string, error) {
	if raysys.Attempt(ctx) < 3 {
		return "", errBusy
	}
	return "text of " + page, nil
})

var patient = download.With(
	raysys.CPU(0),     // it only waits, so that it takes no CPU from others
	raysys.Retries(5), // up to 5 attempts after the first
	raysys.RetryIf(func(err error) bool { return errors.Is(err, errBusy) }),
	raysys.Deadline(time.Minute), // from the submission, all attempts together
	raysys.Priority(raysys.High), // begins before other work of this program
)

func TestTaskOptions(t *testing.T) {
	ctx := testkit.New(t, testkit.Nodes(2)).Context()
	if text, err := patient.Go(ctx, "index").Get(ctx); text != "text of index" || err != nil {
		t.Error(text, err)
	}
	if _, err := download.Go(ctx, "index").Get(ctx); !errors.Is(err, errBusy) {
		t.Error("an error of the function was retried, or is another:", err)
	}
}

var waitForEnd = tasks.Define0("guide.tasks.wait-for-end", func(ctx context.Context) (int, error) {
	<-ctx.Done() // or look at ctx.Err() now and then in a loop that computes
	return 0, ctx.Err()
})

func Example_taskCancel() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		request, cancel := context.WithCancel(ctx)
		bound := waitForEnd.Go(request)
		free := waitForEnd.With(raysys.Detached()).Go(request)
		cancel() // ends bound, and all that bound has submitted
		_, err := bound.Get(ctx)
		fmt.Println(errors.Is(err, raysys.ErrCancelled), raysys.PhaseOf(free)) // true pending
		free.Cancel()                                                          // ends it
		fmt.Println(raysys.PhaseOf(free))                                      // cancelled
		return nil
	})
	// Output:
	// true pending
	// cancelled
}

func Example_taskErrors() {
	_ = system.Run(context.Background(), system.Config{}, func(ctx context.Context) error {
		_, err := countWords.Go(ctx, "").Get(ctx)
		var failed *raysys.TaskError
		fmt.Println(errors.Is(err, errEmpty), errors.As(err, &failed) && failed.Function == "guide.tasks.words")
		return nil
	})
	// Output: true true
}

var ranOn = tasks.Define0("guide.tasks.ran-on", func(ctx context.Context) (int, error) {
	attempt := raysys.Attempt(ctx)
	if err := attempts.Put(ctx, fmt.Sprint(attempt, " on ", system.NodeOf(ctx).Name())); err != nil {
		return 0, err
	}
	if attempt == 1 {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return attempt, nil
})

var attempts *testkit.Probe[string]

// killFirst submits the task to a cluster and kills the node that runs it. other is the node that is left.
func killFirst(t *testing.T, task tasks.Task0[int]) (ctx context.Context, r raysys.Ref[int], other string) {
	k := testkit.New(t, testkit.Nodes(2))
	attempts = testkit.NewProbe[string](k, "guide.attempts")
	ctx = k.Context()
	r = task.Go(ctx)
	dead, other := 1, "n2"
	if attempts.Next() == "1 on n2" {
		dead, other = 2, "n1"
	}
	k.Cluster().Kill(dead)
	return ctx, r, other
}

// A task whose node dies runs again on another one.
func TestTaskOfADeadNode(t *testing.T) {
	ctx, r, other := killFirst(t, ranOn)
	if n, err := r.Get(ctx); n != 2 || err != nil {
		t.Error(n, err)
	}
	attempts.Expect("2 on " + other)
}

// Without retries it fails.
func TestTaskOfADeadNodeWithoutRetries(t *testing.T) {
	ctx, r, _ := killFirst(t, ranOn.With(raysys.Retries(0)))
	if _, err := r.Get(ctx); !errors.Is(err, raysys.ErrNodeDead) {
		t.Error(err)
	}
}
