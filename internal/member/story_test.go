package member_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
)

var update = flag.Bool("update", false, "write what happens into testdata")

// TestStories runs the stories in testdata. A story is a number of commands, each with what it prints below it, indented:
//
//	lenient 9             sessions live nine times their TTL; 2 unless said
//	silence 10s           Config.Silence of those that join; 4 s unless said
//	join a b c            they join one after the other
//	driver d              d joins as a driver
//	cut a c | b           no frame passes between the groups; cut a > b one way only
//	heal                  every frame passes
//	relay                 what is cut is relayed
//	down a                a cannot reach the store; "down" alone: nobody can
//	up                    everybody can
//	kill a                its process dies: links are reset, its address refuses
//	freeze a, thaw a      its process stops, and goes on
//	leave a, drain a      in good order
//	expire a              its session ends
//	jump a 30s            its wall clock
//	wait 10s              prints what happens meanwhile
//	pass 10s              the same, but prints nothing: what happens in one moment may happen in either order
//	see a b               prints the state of each and whom it sees, suspects with a question mark
//	votes                 prints who was voted out
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			virtual(t, func(c *cluster) {
				for line := range strings.Lines(string(data)) {
					line = strings.TrimSuffix(line, "\n")
					if strings.HasPrefix(line, "    ") {
						continue // what was printed, to be printed again
					}
					fmt.Fprintln(&got, line)
					command, _, _ := strings.Cut(line, "#")
					for _, out := range c.tell(strings.Fields(command)) {
						fmt.Fprintln(&got, "    "+out)
					}
				}
			})
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(data), got.String()); diff != "" {
				t.Errorf("%s (-told +happened; -update writes it):\n%s", file, diff)
			}
		})
	}
}

// tell runs one command and returns what it prints.
func (c *cluster) tell(words []string) []string {
	c.t.Helper()
	if len(words) == 0 {
		return nil
	}
	verb, args := words[0], words[1:]
	switch verb {
	case "lenient":
		if _, err := fmt.Sscan(args[0], &c.lenience); err != nil {
			c.t.Fatal(err)
		}
	case "silence":
		c.patience = c.duration(args[0])
	case "join":
		c.join(args...)
	case "driver":
		for _, name := range args {
			c.joinAs(name, func(cfg *member.Config) { cfg.Self.Role = member.Driver })
		}
	case "cut":
		for i, w := range args {
			switch w {
			case "|":
				c.part(args[:i], args[i+1:])
			case ">":
				c.cut(args[i-1], args[i+1])
			}
		}
	case "heal":
		c.heal()
	case "relay":
		c.mu.Lock()
		c.relays = true
		c.mu.Unlock()
	case "down", "up":
		for name, n := range c.nodes {
			if len(args) == 0 || args[0] == name {
				n.kv.Down(verb == "down")
			}
		}
	case "kill":
		c.kill(args[0])
	case "freeze":
		c.freeze(args[0])
	case "thaw":
		c.thaw(args[0])
		c.took() // what it finds when it goes on, it finds in any order
		return nil
	case "leave":
		if err := c.member(args[0]).Leave(context.Background()); err != nil {
			c.t.Error(err)
		}
	case "drain":
		if err := c.member(args[0]).Update(context.Background(), func(i *member.Info) { i.Draining = true }); err != nil {
			c.t.Error(err)
		}
	case "expire":
		if err := c.kv.Destroy(context.Background(), c.member(args[0]).Session()); err != nil {
			c.t.Error(err)
		}
	case "jump":
		c.node(args[0]).clock.jump(c.duration(args[1]))
	case "wait":
		c.pass(c.duration(args[0]))
		return c.took()
	case "pass":
		c.pass(c.duration(args[0]))
		c.took()
	case "see":
		return c.see(args)
	case "votes":
		return c.votes()
	default:
		c.t.Fatalf("no such command: %q", verb)
	}
	c.settle()
	return c.took()
}

func (c *cluster) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		c.t.Fatal(err)
	}
	return d
}

func (c *cluster) see(names []string) (out []string) {
	for _, name := range names {
		m := c.member(name)
		line := fmt.Sprintf("%s %v:", name, m.State())
		for _, n := range m.View().Nodes() {
			line += " " + string(n.ID)
			if n.Suspect {
				line += "?"
			}
		}
		out = append(out, fmt.Sprintf("%s (leads %d)", line, len(m.View().Mine())))
	}
	return out
}

func (c *cluster) votes() (out []string) {
	pairs, _, err := c.kv.List(context.Background(), "evict/", store.Consistent)
	if err != nil {
		c.t.Fatal(err)
	}
	for _, p := range pairs {
		out = append(out, member.VoteText(p.Value))
	}
	return out
}
