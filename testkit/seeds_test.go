package testkit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/testkit"
)

// try runs a test of that name with its i-th seed, which passes or fails.
func try(t *testing.T, name string, i int, pass bool) (seed uint64, f *fake) {
	t.Helper()
	f = &fake{name: name}
	f.run(func() {
		seed = testkit.Announce(f, i, true)
		if !pass {
			f.Errorf("it failed")
		}
	})
	return seed, f
}

func TestFailingSeedIsTriedFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("RAYSYS_TESTKIT_SEEDS", filepath.Join("testdata", "seeds"))
	good, _ := try(t, "TestA", 0, true)
	if entries, _ := os.ReadDir("testdata"); len(entries) > 0 {
		t.Error("a seed that passed was saved")
	}
	bad, f := try(t, "TestA", 0, false)
	if bad == good {
		t.Error("two runs drew one seed")
	}
	if last := f.logs[len(f.logs)-1]; !strings.Contains(last, filepath.Join("testdata", "seeds", "TestA")) {
		t.Errorf("the log does not say where the seed is: %q", last)
	}
	worse, _ := try(t, "TestA", 1, false) // 0 would repeat bad
	got := testkit.Seeds(&fake{name: "TestA"}, 0)
	if want := []uint64{worse, bad}; len(got) != 3 || !cmp.Equal(got[:2], want) || got[2] == worse || got[2] == bad {
		t.Errorf("seeds %d, want %d and a new one", got, want)
	}
	again, f := try(t, "TestA", 0, false)
	if again != worse {
		t.Errorf("repeated %d, want %d", again, worse)
	}
	if !strings.Contains(f.logs[0], "failed before") {
		t.Errorf("the log does not say that the seed failed before: %q", f.logs[0])
	}
	if got := testkit.Seeds(&fake{name: "TestA"}, 0); len(got) != 3 {
		t.Errorf("a seed that failed twice is kept twice: %d", got)
	}
	if got := testkit.Seeds(&fake{name: "TestA/sub"}, 0); len(got) != 1 {
		t.Errorf("another test has its seeds: %d", got)
	}
	if got := testkit.Seeds(&fake{name: "TestA"}, 7); !cmp.Equal(got, []uint64{7}) {
		t.Errorf("a fixed seed gave %d", got)
	}
	t.Setenv("RAYSYS_TESTKIT_SEED", "9")
	if got := testkit.Seeds(&fake{name: "TestA"}, 7); !cmp.Equal(got, []uint64{9}) {
		t.Errorf("RAYSYS_TESTKIT_SEED=9 gave %d", got)
	}
}

func TestSavedSeedsAreBounded(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("RAYSYS_TESTKIT_SEEDS", filepath.Join("testdata", "seeds"))
	for range 30 {
		n := len(testkit.Seeds(&fake{name: "TestB/one"}, 0))
		try(t, "TestB/one", n-1, false) // the new one
	}
	if got := testkit.Seeds(&fake{name: "TestB/one"}, 0); len(got) != 11 {
		t.Errorf("%d seeds, want 10 and a new one", len(got))
	}
}

func TestSeedFileIsReadAsPeopleEditIt(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("RAYSYS_TESTKIT_SEEDS", filepath.Join("testdata", "seeds"))
	os.MkdirAll("testdata/seeds", 0o777)
	os.WriteFile("testdata/seeds/TestC", []byte("# why\n\n 12 \nx\n0\n34"), 0o666)
	if got := testkit.Seeds(&fake{name: "TestC"}, 0); len(got) != 3 || !cmp.Equal(got[:2], []uint64{12, 34}) {
		t.Errorf("seeds %d, want 12, 34 and a new one", got)
	}
}

// TestSeedsAreWrittenWhenAsked: nothing is written into a source tree that nobody named, nor a seed that no draw was made from.
func TestSeedsAreWrittenWhenAsked(t *testing.T) {
	for name, c := range map[string]struct {
		folder  string
		matters bool
		files   int
	}{"not asked": {"", true, 0}, "no draw": {"kept", false, 0}, "asked": {"kept", true, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv("RAYSYS_TESTKIT_SEEDS", c.folder)
			f := &fake{name: "TestD"}
			f.run(func() {
				testkit.Announce(f, 0, c.matters)
				f.Errorf("it failed")
			})
			files, err := filepath.Glob(filepath.Join("*", "*"))
			here, _ := os.ReadDir(".")
			if err != nil || len(files) != c.files || len(here) != c.files {
				t.Errorf("%d files were written (%v, %v), want %d", len(files), files, here, c.files)
			}
		})
	}
}
