// Command testenvs steps environments of many packages through a process.Vector in a grain, beside Python alone with the same seeds and
// actions, and compares each step bit for bit.
//
//	make test-envs                  all of them, and the table of docs/guide/rl/environments.md
//	make test-envs ONLY='pgx|ale'   those whose package or name matches; the table stays as it is
//
//	alone.py: the environments in Python alone ──► actions and digests of each step
//	player: a grain with a process.Vector      ──► takes the same actions, and compares
//
// rows.go has the environments, wrappers the scripts of those that need one, and requirements the pinned versions, a virtual environment
// for each file. It fails where an environment does not do what its row says.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tools/internal/figures"
)

var (
	venvs = flag.String("venvs", ".cache/envs", "the folder of the virtual environments, each with the name of its file in requirements")
	only  = flag.String("only", "", "a regular expression: the packages and environments that are tried")
)

func main() {
	figures.Main(func(ctx context.Context) error { return errors.Join(elsewhere(), start(ctx)) }, nil)
}

// elsewhere goes to the folder for temporary files: packages write where they run, as ViZDoom does its settings.
func elsewhere() (err error) {
	for _, path := range []*string{venvs, figures.Document} {
		if *path != "" && err == nil {
			*path, err = filepath.Abs(*path)
		}
	}
	return errors.Join(err, os.Chdir(os.TempDir()))
}

// start runs on a node alone, without a logger: packages print much.
func start(ctx context.Context) error {
	n, err := system.New(system.Config{})
	if err != nil {
		return err
	}
	if err := n.Start(ctx); err != nil {
		return err
	}
	return errors.Join(run(n.Context(ctx)), n.Close(ctx))
}

// run tries all environments, and fails after the last one where some did otherwise than they say.
func run(ctx context.Context) error {
	chosen, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	tried, bad := 0, 0
	for i := range rows {
		r := &rows[i]
		for _, name := range r.names {
			if r.venv == "" || !chosen.MatchString(r.pkg+" "+name) {
				continue
			}
			tried++
			begun := time.Now()
			said, err := try(ctx, job{Row: i, Name: name, Python: filepath.Join(*venvs, r.venv, "bin", "python")})
			if err != nil {
				bad++
				said = "FAILED: " + err.Error()
			}
			fmt.Fprintf(os.Stderr, "%s: %s: %s (%.1fs)\n", r.pkg, name, said, time.Since(begun).Seconds())
		}
	}
	switch {
	case bad > 0:
		return fmt.Errorf("%d of %d environments did otherwise than rows.go says", bad, tried)
	case *only != "":
		return nil
	}
	return figures.Publish("test-envs", table())
}

// try plays a job, and says what came of it. An error says what is otherwise than the row says.
func try(ctx context.Context, j job) (string, error) {
	r := &rows[j.Row]
	if r.refused == "" {
		record, err := alone(ctx, j)
		defer os.Remove(record)
		if err != nil {
			return "", fmt.Errorf("in Python alone: %w", err)
		}
		j.Record = record
	}
	got, err := play.Call(ctx, players.Get(fmt.Sprint(j.Row, j.Name)), j).Get(ctx)
	switch {
	case r.refused != "" && err == nil:
		return "", fmt.Errorf("it was taken, and should be refused: %s", r.refused)
	case r.refused != "" && !strings.Contains(err.Error(), r.refused):
		return "", fmt.Errorf("it should be refused: %s: but %w", r.refused, err)
	case r.refused != "":
		return "refused", nil
	case err != nil:
		return "", err
	case got.Differs != "":
		return "", fmt.Errorf("%s; two runs in Python alone are equal: %v", got.Differs, repeats(ctx, j))
	case got.Ends < 2 && got.Steps < steps:
		return "", fmt.Errorf("%d steps with %d ends are too few", got.Steps, got.Ends)
	}
	return fmt.Sprintf("equal in %d steps with %d ends", got.Steps, got.Ends), nil
}

// alone makes the steps in Python alone, and returns the file that records them.
func alone(ctx context.Context, j job) (string, error) {
	spec, err := rows[j.Row].spec(j.Name)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "testenvs")
	if err != nil {
		return "", err
	}
	defer f.Close()
	var said strings.Builder
	cmd := exec.CommandContext(ctx, j.Python, "-c", alonePy, string(spec))
	cmd.Stdout, cmd.Stderr = f, &said
	if err := cmd.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(said.String()), "\n")
		return f.Name(), fmt.Errorf("%w: %s", err, strings.Join(lines[max(0, len(lines)-3):], ": "))
	}
	return f.Name(), nil
}

// repeats reports whether Python alone makes the steps of the record once more.
func repeats(ctx context.Context, j job) bool {
	again, err := alone(ctx, j)
	defer os.Remove(again)
	a, bad := os.ReadFile(j.Record)
	b, worse := os.ReadFile(again)
	return errors.Join(err, bad, worse) == nil && string(a) == string(b)
}
