package demo

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

func tell(p *progress) {
	p.learning(Stats{MeanReturn: 95, Episodes: 40, TotalSteps: 12345}, 475)
	p.serving(0, 2*time.Second)
	p.serving(time.Second, 2*time.Second)
	p.end()
}

func TestProgressLines(t *testing.T) {
	var b bytes.Buffer
	tell(newProgress(&b))
	want := "learning: mean return 95.0 over 40 episodes, 12345 steps\nserving for 2s\n"
	if b.String() != want {
		t.Errorf("lines are %q, want %q", b.String(), want)
	}
}

func TestProgressBar(t *testing.T) {
	var b bytes.Buffer
	tell(&progress{w: &b, bar: true})
	states := strings.Split(b.String(), "\r\x1b[K")
	want := []string{
		"",
		"learning [######........................] return 95 of 475, 12,345 steps",
		"serving  [..............................] 0.0 of 2.0 s",
		"serving  [###############...............] 1.0 of 2.0 s",
		"", // taken away
	}
	if strings.Join(states, "\n") != strings.Join(want, "\n") {
		t.Errorf("the bar was\n%s\nwant\n%s", strings.Join(states, "\n"), strings.Join(want, "\n"))
	}
}

func TestIsTerminal(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/talk")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if isTerminal(&bytes.Buffer{}) || isTerminal(file) {
		t.Error("a buffer or a file is taken for a terminal")
	}
	// The one character device that every machine has.
	if !isTerminal(null) {
		t.Error("a character device is not taken for a terminal")
	}
}
