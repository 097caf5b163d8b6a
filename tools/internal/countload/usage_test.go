package countload

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
)

const burned = 0.2 // seconds

// TestMain is, where the environment asks for it, a process that uses so much, says so, and waits for the end of its input.
func TestMain(m *testing.M) {
	if os.Getenv("COUNTLOAD_BURN") == "" {
		os.Exit(m.Run())
	}
	for {
		if _, seconds, err := readProcess(os.Getpid()); err != nil || seconds >= burned {
			fmt.Println("burned", err)
			_, _ = io.Copy(io.Discard, os.Stdin)
			return
		}
	}
}

// TestSumUsage: a process that a child has started counts, while it runs and when it has ended.
func TestSumUsage(t *testing.T) {
	if runtime.GOOS != "linux" {
		if CheckUsage() == nil {
			t.Error("usage can be read without /proc")
		}
		t.Skip("there is no /proc")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"runs": `"$0"; true`, "has ended": `"$0" </dev/null >/dev/null; echo; cat`} {
		t.Run(name, func(t *testing.T) {
			before, err := sumUsage()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", "-c", script, self)
			cmd.Env = append(os.Environ(), "COUNTLOAD_BURN=1")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Wait() }()
			defer in.Close()
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			after, err := sumUsage()
			if err != nil {
				t.Fatal(err)
			}
			if got := after.cpu - before.cpu; got < burned-0.001 { // sums of floats
				t.Errorf("what the child started used %v s, and %v s are counted", burned, got)
			}
		})
	}
}

func TestParse(t *testing.T) {
	const line = "71 (a) b (c)) S 12 1 1 0 -1 4194304 9 9 9 9 150 50 7 3 20 0 1 0 100 1 1\n"
	if parent, seconds, err := parseStat(line); err != nil || parent != 12 || seconds < 2.0999 || seconds > 2.1001 {
		t.Error(parent, seconds, err)
	}
	for _, bad := range []string{"", "71 (a) S 12", strings.Replace(line, "S 12", "S x", 1), strings.Replace(line, "150", "x", 1)} {
		if _, _, err := parseStat(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
	if n, err := parseDisk(" 1 2 3 4 5 6 8 9 10\n"); err != nil || n != 4096 {
		t.Error(n, err)
	}
	for _, bad := range []string{"", "1 2 3 4 5 6", "1 2 3 4 5 6 x"} {
		if _, err := parseDisk(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("71 (a) S 12 1 1 0 -1 4194304 9 9 9 9 150 50 7 3 20\n")
	f.Add(" 1 2 3 4 5 6 8 9 10\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, seconds, err := parseStat(text); err == nil && strings.Count(text, " ") == 0 && !strings.ContainsAny(text, "\t\n\v\f\r\u0085") {
			t.Errorf("%q is one field and was read as %v s", text, seconds)
		}
		if n, err := parseDisk(text); err == nil && n%sector != 0 {
			t.Errorf("%q was read as %d bytes", text, n)
		}
	})
}
