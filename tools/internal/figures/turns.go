package figures

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Document is the file that Publish writes to besides, empty for none.
var Document = flag.String("doc", "", "write the table between its marks in this file too")

// Main is main of a tool. A process that Child has made runs host with its arguments, and the tool itself measure.
func Main(measure func(context.Context) error, host func(ctx context.Context, args []string) error) {
	flag.Parse()
	run := measure
	if host != nil && flag.Arg(0) == "host" {
		run = func(ctx context.Context) error { return host(ctx, flag.Args()[1:]) }
	}
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// InTurn measures each side once a round, another one first each time, and returns the load before each round.
func InTurn(rounds, sides int, once func(round, side int) error) (loads []string, err error) {
	for r := range rounds {
		loads = append(loads, load())
		fmt.Fprintf(os.Stderr, "round %d of %d, load %s\n", r+1, rounds, loads[r])
		for k := range sides {
			if err := once(r, (r+k)%sides); err != nil {
				return nil, err
			}
		}
	}
	return loads, nil
}

// Here is when and where a table is made: what its first line begins with.
func Here() string {
	return fmt.Sprintf("%s, %d CPUs, %s", time.Now().Format(time.DateOnly), runtime.NumCPU(), runtime.Version())
}

// Publish prints a table, and writes it between the marks of the document that -doc names.
func Publish(mark, made string) error {
	fmt.Print(made)
	if *Document == "" {
		return nil
	}
	return Write(*Document, mark, made)
}

// Child is the tool's program again, as a process for Launch.
func Child(args ...string) *exec.Cmd {
	self, _ := os.Executable() // without a name Launch says so
	return exec.Command(self, append([]string{"host"}, args...)...)
}

// Launch starts a process and returns the line that it prints once it is ready. end ends its input, and so
// the process: see Wait.
func Launch(cmd *exec.Cmd) (line string, end func(), err error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	end = func() {
		_ = in.Close()
		_ = cmd.Wait()
	}
	if line, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		end()
		return "", nil, fmt.Errorf("%s does not become ready: %w: %s", cmd, err, Last(said.Bytes()))
	}
	return strings.TrimSpace(line), end, nil
}

// Wait is the rest of a launched process: it says that it is ready, and returns when its input ends.
func Wait(ready any) error {
	fmt.Println(ready)
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// Output is what a process prints. Its error has what the process said last.
func Output(cmd *exec.Cmd) ([]byte, error) {
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, Last(said.Bytes()))
	}
	return out, err
}

// Last is the end of what a process said.
func Last(said []byte) []byte { return bytes.TrimSpace(said[max(0, len(said)-2000):]) }
