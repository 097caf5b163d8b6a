package chaos

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/long"
)

// module is the folder of go.mod, from that of this package.
const module = "../../../.."

// patched is the text of each file that a patch changes, as the patch leaves it. Hunks are found by their lines, which must
// be in the file once, not by the numbers of the lines, so that a patch lasts until what it breaks is written anew.
func patched(patch string, read func(file string) (string, error)) (map[string]string, error) {
	files := map[string]string{}
	file := ""
	var before, after strings.Builder
	flush := func() error {
		if before.Len() == 0 {
			return nil
		}
		if n := strings.Count(files[file], before.String()); n != 1 {
			return fmt.Errorf("%s has these lines %d times:\n%s", file, n, before.String())
		}
		files[file] = strings.Replace(files[file], before.String(), after.String(), 1)
		before.Reset()
		after.Reset()
		return nil
	}
	for line := range strings.Lines(patch) {
		name, begins := strings.CutPrefix(line, "+++ b/")
		switch {
		case begins:
			file = strings.TrimSpace(name)
			text, err := read(file)
			if err != nil {
				return nil, err
			}
			files[file] = text
		case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "@@"):
			if err := flush(); err != nil {
				return nil, err
			}
		case file == "": // what the defect is, in words
		case line[0] == '-':
			before.WriteString(line[1:])
		case line[0] == '+':
			after.WriteString(line[1:])
		default:
			before.WriteString(line[1:])
			after.WriteString(line[1:])
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no file is named by a line +++ b/FILE")
	}
	return files, flush()
}

func readModule(file string) (string, error) {
	b, err := os.ReadFile(filepath.Join(module, file))
	return string(b), err
}

func defects(t *testing.T) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "defects", "*.patch"))
	if err != nil || len(paths) < 7 {
		t.Fatalf("%d patches (%v), want 7 or more", len(paths), err)
	}
	all := map[string]string{}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".patch")] = string(b)
	}
	return all
}

// TestDefectsApply: each patch fits the code of today, else TestDefectsAreFound plants nothing.
func TestDefectsApply(t *testing.T) {
	for name, patch := range defects(t) {
		files, err := patched(patch, readModule)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for file, text := range files {
			if was, _ := readModule(file); was == text {
				t.Errorf("%s changes nothing in %s", name, file)
			}
		}
	}
}

// defectRounds bounds the rounds within which a defect shows.
const defectRounds = 20

// TestDefectsAreFound: raysys-lab chaos fails with each planted defect, and passes as many rounds without.
func TestDefectsAreFound(t *testing.T) {
	long.Only(t) // nine builds and some dozen rounds
	root, err := filepath.Abs(module)
	if err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, patch string) (failed bool, out string) {
		dir := t.TempDir()
		overlay := struct{ Replace map[string]string }{map[string]string{}}
		if patch != "" {
			files, err := patched(patch, readModule)
			if err != nil {
				t.Fatal(err)
			}
			for file, text := range files {
				with := filepath.Join(dir, fmt.Sprint(len(overlay.Replace), ".go"))
				if err := os.WriteFile(with, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				overlay.Replace[filepath.Join(root, file)] = with
			}
		}
		b, err := json.Marshal(overlay)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "overlay.json"), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		program := filepath.Join(dir, "raysys-lab")
		build := exec.CommandContext(t.Context(), "go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "./cmd/raysys-lab")
		build.Dir = root
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		text, err := exec.CommandContext(t.Context(), program, "chaos", "--seed", "1", "--rounds", fmt.Sprint(defectRounds)).CombinedOutput()
		return err != nil, string(text)
	}
	if failed, out := run(t, ""); failed {
		t.Fatalf("without a defect:\n%s", out)
	}
	for name, patch := range defects(t) {
		t.Run(name, func(t *testing.T) {
			failed, out := run(t, patch)
			if !failed {
				t.Errorf("no law was broken in %d rounds:\n%s", defectRounds, out)
			}
			if _, found, ok := strings.Cut(out, "\nlaw: "); ok {
				law, _, _ := strings.Cut(found, "\n")
				t.Logf("found in round %d: %s", strings.Count(out, "\nround "), law)
			}
		})
	}
}
