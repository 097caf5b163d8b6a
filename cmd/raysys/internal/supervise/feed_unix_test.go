//go:build unix

package supervise_test

import (
	"bufio"
	"bytes"
	"testing"

	"github.com/raysys/raysys/cmd/raysys/internal/supervise"
)

// A program hears the latest line when it starts, and each later one while it lives; so does the next.
func TestFeed(t *testing.T) {
	s := newStage(t)
	c := program("hear", s.addr())
	c.Feed = supervise.NewFeed("FEED")
	c.Feed.Set([]byte("old\n"))
	c.Feed.Set([]byte("first\n"))
	for _, lines := range [][2]string{{"first\n", "second\n"}, {"second\n", "third\n"}} {
		p := launch(t, c)
		conn := s.expect("hear")["hear"]
		if _, err := conn.Write([]byte("g")); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		for i, want := range lines {
			if i > 0 {
				c.Feed.Set([]byte(want))
			}
			if got, err := in.ReadString('\n'); got != want || err != nil {
				t.Errorf("the program heard %q, %v, want %q", got, err, want)
			}
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		exitOf(t, p)
		p.Close()
	}
}

// A program that does not read holds up neither Set nor its own end; goleak sees what would be left behind.
func TestFeedUnheard(t *testing.T) {
	s := newStage(t)
	c := program("polite", s.addr())
	c.Feed = supervise.NewFeed("FEED")
	line := append(bytes.Repeat([]byte("x"), 1<<20), '\n') // more than a pipe holds
	c.Feed.Set(line)
	p := launch(t, c)
	s.expect("polite")
	for range 100 {
		c.Feed.Set(line)
	}
	if err := p.Terminate(); err != nil {
		t.Error(err)
	}
	if e := exitOf(t, p); e.Code != 0 {
		t.Errorf("it ended with %v", e)
	}
	p.Close()
}
