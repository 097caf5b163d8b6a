// Command benchold measures rows of the benchmark with the binary of an earlier commit and with that of this tree, in turn, so that
// both meet the same machine. It prints medians, and the ratio of this tree to the commit: above 1 is faster.
//
//	make bench-old REF=f7bac52
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/raysys/raysys/tools/internal/figures"
)

var (
	ref    = flag.String("ref", "HEAD", "the commit to compare with")
	rounds = flag.Int("rounds", 7, "how often each binary measures")
	inner  = flag.Int("inner", 5, "measurements of a row in each run of a binary, of which the median counts")
	tier   = flag.String("tier", "cross-process", "in-process or cross-process")
	rows   = flag.String("rows", "tasks_async,actor_async,tasks_sync,actor_sync,wait_1k,put_small", "the rows, separated by commas")
)

func main() { figures.Main(run, nil) }

func run(context.Context) error {
	dir, err := filepath.Abs(filepath.Join(".cache", "benchold"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	old, now := filepath.Join(dir, "old"), filepath.Join(dir, "now")
	if err := buildRef(dir, old); err != nil {
		return err
	}
	if err := build(".", now); err != nil {
		return err
	}
	var sides [2][]map[string]row
	_, err = figures.InTurn(*rounds, len(sides), func(_, i int) error {
		got, err := measure([]string{old, now}[i])
		sides[i] = append(sides[i], got)
		return err
	})
	if err != nil {
		return err
	}
	was, is := sides[0], sides[1]
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "ROW\t%s\tNOW\tUNIT\tRATIO\tOF EACH ROUND\n", strings.ToUpper(*ref))
	for _, name := range strings.Split(*rows, ",") {
		var before, after, ratios []float64
		var unit string
		for i := range was {
			a, b := was[i][name], is[i][name]
			unit = b.Unit
			ratio := b.Value / a.Value
			if !strings.HasSuffix(unit, "/s") { // a time, or a size: less is better
				ratio = a.Value / b.Value
			}
			before, after, ratios = append(before, a.Value), append(after, b.Value), append(ratios, ratio)
		}
		var each []string
		for _, r := range ratios {
			each = append(each, fmt.Sprintf("%.2f", r))
		}
		fmt.Fprintf(t, "%s\t%.4g\t%.4g\t%s\t%.2f\t%s\n", name, figures.Median(before), figures.Median(after), unit, figures.Median(ratios), strings.Join(each, " "))
	}
	return t.Flush()
}

// buildRef builds the binary of the commit, in a worktree of its own.
func buildRef(dir, out string) error {
	tree := filepath.Join(dir, "tree")
	_ = exec.Command("git", "worktree", "remove", "--force", tree).Run() // of a run that was ended
	if err := command("git", "worktree", "add", "--force", "--detach", tree, *ref); err != nil {
		return err
	}
	err := build(tree, out)
	return cmp.Or(err, command("git", "worktree", "remove", "--force", tree))
}

// build builds the binary that has the benchmark.
func build(tree, out string) error {
	pkg := "./cmd/raysys-lab"
	if _, err := os.Stat(filepath.Join(tree, pkg)); err != nil {
		pkg = "./cmd/raysys" // of commits before raysys-lab
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, pkg)
	cmd.Dir, cmd.Stderr = tree, os.Stderr
	return cmd.Run()
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// row is what the benchmark says of one.
type row struct {
	Row   string
	Value float64
	Unit  string
}

// measure has the binary measure the rows once.
func measure(binary string) (map[string]row, error) {
	cmd := exec.Command(binary, "bench", "--tier", *tier, "--rounds", strconv.Itoa(*inner), "-o", "json", "--row", *rows)
	out, err := figures.Output(cmd)
	if err != nil {
		return nil, err
	}
	var list []row
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, err
	}
	got := map[string]row{}
	for _, r := range list {
		got[r.Row] = r
	}
	return got, nil
}
