package progress_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/progress"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

// TestAsCompleted yields what raysys.AsCompleted does, to its end, to a break and to the end of ctx.
func TestAsCompleted(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	stderr := os.Stderr
	defer func() { os.Stderr = stderr }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a terminal, as far as one can tell
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	table := raysys.NewTable()
	half := tasks.DefineIn(table, "half", func(_ context.Context, n int) (int, error) {
		if n%2 == 1 {
			return 0, errors.New("odd")
		}
		return n / 2, nil
	})
	for _, os.Stderr = range []*os.File{file, null} {
		err = system.Run(t.Context(), system.Config{Table: table}, func(ctx context.Context) error {
			refs := half.Map(ctx, []int{0, 1, 2, 3})
			seen := make([]int, len(refs))
			for i, r := range progress.AsCompleted(ctx, "halves", refs) {
				if r != refs[i] {
					t.Errorf("under %d comes %v", i, r)
				}
				seen[i]++
			}
			if !slices.Equal(seen, []int{1, 1, 1, 1}) {
				t.Errorf("each ref comes so often: %v", seen)
			}
			n := 0
			for range progress.AsCompleted(ctx, "halves", refs) {
				n++
				break
			}
			over, cancel := context.WithCancel(ctx)
			cancel()
			for range progress.AsCompleted(over, "halves", []raysys.Ref[int]{half.Go(ctx, 2), raysys.Ready(1)}) {
				if n++; n > 3 {
					t.Error("more refs than there are")
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestBadValue: a node refuses a value of RAYSYS_PROGRESS that it does not know.
func TestBadValue(t *testing.T) {
	t.Setenv(progress.Variable, "maybe")
	if _, err := system.FromEnv(); err == nil || !strings.Contains(err.Error(), `RAYSYS_PROGRESS="maybe": give on or off`) {
		t.Errorf("a bad value: %v", err)
	}
}
