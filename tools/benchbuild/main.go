// Command benchbuild measures what a program's definitions cost its compiler: it generates programs of 50 and of 200 tasks, and of
// as many grain methods with their kinds, each with types of its own and used in each way, and builds them. What one more costs is the
// difference by 150.
//
//	make bench-build
package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// The sizes of the programs.
var (
	few  = flag.Int("few", 50, "definitions of the smaller program")
	many = flag.Int("many", 200, "definitions of the larger program")
)

// built is what a build took.
type built struct {
	cpu    time.Duration
	memory int64 // bytes, at the peak of one process
	binary int64 // bytes, not stripped
}

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp(".", ".benchbuild")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DEFINITIONS\tCPU\tPEAK MEMORY\tBINARY\tONE MORE: CPU\tMEMORY\tBINARY")
	for _, kind := range []string{"tasks", "methods"} {
		if _, err := build(dir, kind, 1); err != nil { // so that what the programs import is compiled
			return err
		}
		a, err := build(dir, kind, *few)
		if err != nil {
			return err
		}
		b, err := build(dir, kind, *many)
		if err != nil {
			return err
		}
		n := int64(*many - *few)
		fmt.Fprintf(t, "%d %s\t%.1f s\t%d MB\t%.1f MB\t%d ms\t%.1f MB\t%d KB\n", *many, kind, b.cpu.Seconds(), b.memory>>20, float64(b.binary)/(1<<20),
			(b.cpu-a.cpu).Milliseconds()/n, float64(b.memory-a.memory)/float64(n)/(1<<20), (b.binary-a.binary)/n/1024)
	}
	return t.Flush()
}

// build builds a program of n definitions, which the build cache does not know.
func build(dir, kind string, n int) (b built, err error) {
	src := filepath.Join(dir, fmt.Sprint(kind, n))
	if err := os.MkdirAll(src, 0o777); err != nil {
		return b, err
	}
	text := fmt.Sprintf("// %d\n", rand.Uint64()) + program(kind, n)
	if err := os.WriteFile(filepath.Join(src, "main.go"), []byte(text), 0o666); err != nil {
		return b, err
	}
	out := filepath.Join(src, "program")
	cmd := exec.Command("go", "build", "-o", out, "./"+src)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return b, fmt.Errorf("build %d %s: %w", n, kind, err)
	}
	usage := cmd.ProcessState.SysUsage().(*syscall.Rusage) // of the go command and all that it waited for
	info, err := os.Stat(out)
	if err != nil {
		return b, err
	}
	return built{cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), usage.Maxrss << 10, info.Size()}, nil
}

// program is a program of n definitions.
func program(kind string, n int) string {
	var b strings.Builder
	b.WriteString(`package main

import (
	"context"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/grains"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
)

var (
	_ = tasks.Define("z", func(ctx context.Context, x int) (int, error) { return x, nil })
	_ = grains.Define[struct{}]("z")
)

func main() {
	system.Main(func(ctx context.Context) error {
`)
	for i := range n {
		fmt.Fprintf(&b, "\t\tuse%d(ctx)\n", i)
	}
	b.WriteString("\t\treturn nil\n\t})\n}\n")
	for i := range n {
		fmt.Fprintf(&b, "\ntype A%d struct{ X%d int; S string }\ntype R%d struct{ Y%d float64; L []int }\n", i, i, i, i)
		one, on, several := fmt.Sprintf("t%d.Go(ctx, A%d{})", i, i), fmt.Sprintf("t%d.On(ctx, raysys.Put(ctx, A%d{}))", i, i), fmt.Sprintf("t%d.Map(ctx, []A%d{{}})", i, i)
		if kind == "tasks" {
			fmt.Fprintf(&b, "var t%d = tasks.Define(\"t%d\", func(ctx context.Context, a A%d) (R%d, error) { return R%d{}, nil })\n", i, i, i, i, i)
		} else {
			fmt.Fprintf(&b, "type G%d struct{}\nfunc (*G%d) M(ctx context.Context, a A%d) (R%d, error) { return R%d{}, nil }\nvar k%d = grains.Define[G%d](\"g%d\")\nvar m%d = grains.Method(k%d, \"m\", (*G%d).M)\n", i, i, i, i, i, i, i, i, i, i, i)
			one, on, several = fmt.Sprintf("m%d.Call(ctx, k%d.Get(\"x\"), A%d{})", i, i, i), fmt.Sprintf("m%d.On(ctx, k%d.Get(\"x\"), raysys.Put(ctx, A%d{}))", i, i, i), fmt.Sprintf("[]raysys.Ref[R%d]{m%d.Call(ctx, k%d.Get(\"y\"), A%d{})}", i, i, i, i)
		}
		fmt.Fprintf(&b, "func use%d(ctx context.Context) {\n\tr, o, s := %s, %s, %s\n\tr.Get(ctx)\n\to.Get(ctx)\n\traysys.GetAll(ctx, s).Values()\n\traysys.Wait(ctx, s, 1)\n}\n", i, one, on, several)
	}
	return b.String()
}
