package progress_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"testing"

	"github.com/raysys/raysys/progress"
	"github.com/raysys/raysys/system"
	"github.com/raysys/raysys/tasks"
	"golang.org/x/sys/unix"
)

var evenOnly = tasks.Define("even-only", func(_ context.Context, n int) (int, error) {
	if n%2 == 1 {
		return 0, errors.New("odd")
	}
	return n, nil
})

// TestPseudoTerminal: on a terminal of the kernel a loop shows its line, with the futures that failed, and the node's log stands on rows of its own.
func TestPseudoTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("this machine has no pseudo-terminals: ", err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	got := make(chan []byte)
	go func() { // one read gets what is there so far, and the terminal has room for some KiB
		b, _ := io.ReadAll(master) // its end is an error: nobody has the other side open any more
		got <- b
	}()
	stderr := os.Stderr
	defer func() { os.Stderr = stderr }()
	os.Stderr = slave
	t.Setenv("RAYSYS_LOG", "info")
	cfg, err := system.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	err = system.Run(t.Context(), cfg, func(ctx context.Context) error {
		line := progress.NewLine(nil)
		line.Draw("a line")
		cfg.Logger.Warn("a warning")
		line.End()
		for range progress.AsCompleted(ctx, "halves", evenOnly.Map(ctx, []int{0, 1, 2, 3})) {
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := slave.Close(); err != nil {
		t.Fatal(err)
	}
	b := <-got
	for _, want := range []string{`a line\x1b\[\?7h\r\x1b\[K\S+ [^\r]*a warning[^\r]*\r\n\r\x1b\[K\x1b\[\?7la line\x1b\[\?7h`, `halves: 4 of 4 \(100%\), 2 failed, `} {
		if !regexp.MustCompile(want).Match(b) {
			t.Errorf("the terminal got %q, want %s", b, want)
		}
	}
}
