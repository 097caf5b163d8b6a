package arch_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// definitions is a package of n tasks, or of n methods with their kinds, each with types of its own and used in each way.
func definitions(kind string, n int) string {
	var b strings.Builder
	b.WriteString("package thin\n\nimport (\n\t\"context\"\n\n\t\"github.com/raysys/raysys\"\n\t\"github.com/raysys/raysys/grains\"\n\t\"github.com/raysys/raysys/grains/feed\"\n\t\"github.com/raysys/raysys/grains/queue\"\n\t\"github.com/raysys/raysys/tasks\"\n\t\"github.com/raysys/raysys/tasks/generator\"\n)\n\n" +
		"var _ = grains.Define[struct{}](\"z\")\nvar _ = tasks.Define0[int]\nvar _ = queue.Define[int]\n\ntype room struct{}\n\nvar rooms = grains.Define[room](\"room\")\nvar _ = feed.Method[room, int]\nvar _ = generator.Define[int, int]\nvar _ raysys.JobID\n")
	for i := range n {
		fmt.Fprintf(&b, "\ntype A%[1]d struct{ X%[1]d int; S string }\ntype R%[1]d struct{ Y%[1]d float64; L []int }\n", i)
		if of, ok := carriers[kind]; ok {
			fmt.Fprintf(&b, of, i)
			continue
		}
		uses := "[]raysys.Ref[R%[1]d]{t%[1]d.Go(ctx, A%[1]d{}), t%[1]d.On(ctx, raysys.Put(ctx, A%[1]d{})), t%[1]d.Map(ctx, []A%[1]d{{}})[0]}"
		if kind == "task" {
			fmt.Fprintf(&b, "var t%[1]d = tasks.Define(\"t%[1]d\", func(ctx context.Context, a A%[1]d) (R%[1]d, error) { return R%[1]d{}, nil })\n", i)
		} else {
			verb, last, body := "Method", ") (R%[1]d, error)", "return R%[1]d{}, nil"
			if kind == "later method" {
				verb, last, body = "LaterMethod", ", l *grains.Later[R%[1]d]) error", "return l.Settle(R%[1]d{})"
			}
			if kind == "batched method" {
				body = "return []grains.Answer[R%[1]d]{}, nil"
				fmt.Fprintf(&b, "type G%[1]d struct{}\nfunc (*G%[1]d) M(ctx context.Context, a []A%[1]d) ([]grains.Answer[R%[1]d], error) { "+body+" }\nvar k%[1]d = grains.Define[G%[1]d](\"g%[1]d\")\nvar m%[1]d = grains.Batch(grains.Method(k%[1]d, \"m\", (*G%[1]d).M), 64, 1)\nfunc use%[1]d(ctx context.Context) { var r raysys.Ref[R%[1]d] = m%[1]d.Call(ctx, k%[1]d.Get(\"x\"), A%[1]d{}); r.Get(ctx) }\n", i)
				continue
			}
			fmt.Fprintf(&b, "type G%[1]d struct{}\nfunc (*G%[1]d) M(ctx context.Context, a A%[1]d"+last+" { "+body+" }\nvar k%[1]d = grains.Define[G%[1]d](\"g%[1]d\")\nvar m%[1]d = grains."+verb+"(k%[1]d, \"m\", (*G%[1]d).M)\n", i)
			uses = "[]raysys.Ref[R%[1]d]{m%[1]d.Call(ctx, k%[1]d.Get(\"x\"), A%[1]d{}), m%[1]d.On(ctx, k%[1]d.Get(\"x\"), raysys.Put(ctx, A%[1]d{}))}"
		}
		fmt.Fprintf(&b, "func use%[1]d(ctx context.Context) {\n\ts := "+uses+"\n\ts[0].Get(ctx)\n\traysys.GetAll(ctx, s).Values()\n\traysys.Wait(ctx, s, 1)\n}\n", i)
	}
	return b.String()
}

// carriers are what carries items as bytes: a kind of it with an item type of its own, and each way to use that.
var carriers = map[string]string{
	"feed": `
var f%[1]d = feed.Method(rooms, "f%[1]d", func(*room) *feed.Feed[A%[1]d] { return nil })
func use%[1]d(ctx context.Context) {
	var own feed.Feed[A%[1]d]
	own.Emit(A%[1]d{})
	for range f%[1]d.All(ctx, rooms.Get("x"), feed.Last(1)) {
	}
}
`,
	"generator": `
var s%[1]d = generator.Define("s%[1]d", func(ctx context.Context, a A%[1]d, yield func(R%[1]d) bool) error { return nil })
func use%[1]d(ctx context.Context) {
	s := s%[1]d.With(raysys.CPU(2)).Go(ctx, A%[1]d{})
	for range s.All(ctx) {
	}
	s.Stop()
}
`,
	"queue": `
var q%[1]d = queue.Define[A%[1]d]("q%[1]d")
func use%[1]d(ctx context.Context) {
	q := q%[1]d.Get("x")
	q.Put(ctx, A%[1]d{})
	q.Take(ctx)
	q.TakeUpTo(ctx, 2)
	for range q.All(ctx) {
	}
	q.Len(ctx)
	q.Close(ctx)
}
`,
}

// compiled is how many functions the compiler makes of the package.
func compiled(t *testing.T, kind string, n int) int {
	t.Helper()
	dir := t.TempDir()
	src, overlay, object := filepath.Join(dir, "thin.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "thin.a")
	if err := os.WriteFile(src, []byte(definitions(kind, n)), 0o600); err != nil {
		t.Fatal(err)
	}
	place, err := filepath.Abs("thin/thin.go") // which is not there: a package of the module in the build alone
	if err != nil {
		t.Fatal(err)
	}
	list, err := json.Marshal(map[string]map[string]string{"Replace": {place: src}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", object, "./thin").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command("go", "tool", "nm", object).Output()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) >= 3 && (f[1] == "T" || f[1] == "t") {
			count++
		}
	}
	return count
}

// TestDefinitionsAreThin: one task more, or one method with its kind, costs the compiler so many functions, which is about its time and its
// memory: 0.7 ms and 45 KB each. A batched method is a method of slices, and a handle of what is in them.
func TestDefinitionsAreThin(t *testing.T) {
	for kind, most := range map[string]int{"task": 130, "method": 170, "later method": 170, "batched method": 260, "queue": 170, "feed": 170, "generator": 170} {
		if n := compiled(t, kind, 2) - compiled(t, kind, 1); n > most {
			t.Errorf("one more %s costs %d functions, %d are allowed", kind, n, most)
		} else {
			t.Logf("one more %s costs %d functions", kind, n)
		}
	}
}
