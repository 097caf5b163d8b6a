//go:build unix

package embedded_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/internal/long"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store/embedded"
)

// countForEver leads a shard, says how far its record counts, and counts on, saying each number once it is
// acknowledged, until it is killed.
func countForEver(dir string) error {
	kv, err := embedded.Open(embedded.Config{Dir: dir})
	if err != nil {
		return err
	}
	ctx := context.Background()
	ses, err := kv.NewSession(ctx, "child", time.Hour)
	if err != nil {
		return err
	}
	s, err := shardlog.Lead(ctx, shardlog.LeadConfig{KV: kv, Session: ses, Node: "child", CompactSegments: 64})
	if err != nil {
		return err
	}
	n := 0
	if r, ok := s.Get("n"); ok {
		if n, err = strconv.Atoi(string(r.Value)); err != nil {
			return err
		}
	}
	fmt.Println("epoch", s.Epoch())
	fmt.Println("found", n)
	for {
		n++
		if _, err := s.Commit(ctx, shardlog.Batch{Puts: []shardlog.Put{{Key: "n", Value: []byte(strconv.Itoa(n))}}}); err != nil {
			return err
		}
		fmt.Println("ack", n)
	}
}

// A process killed at any moment after an acknowledgement has lost nothing when it comes back.
func TestKilledRightAfterAnAcknowledgement(t *testing.T) {
	kills := long.Form(40, 1000)
	dir := t.TempDir()
	acked, epoch := 0, 0
	rng := rand.New(rand.NewPCG(long.Seed(), 0))
	for i := range kills {
		cmd := child(t, "count", dir)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stopAt := acked + 1 + rng.IntN(12)
		killed := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			what, digits, _ := strings.Cut(lines.Text(), " ")
			n, err := strconv.Atoi(digits)
			switch {
			case err != nil:
				t.Fatal(lines.Text())
			case what == "epoch":
				if n <= epoch {
					t.Fatalf("run %d: epoch %d after %d", i, n, epoch)
				}
				epoch = n
			case what == "found":
				// Acknowledged numbers may still have been in the pipe when the process was killed.
				if n < acked {
					t.Fatalf("run %d found %d, acknowledged was %d", i, n, acked)
				}
				acked = n
			default:
				acked = n
			}
			if acked >= stopAt && !killed {
				killed = true
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait()
		if !killed {
			t.Fatalf("run %d ended by itself: %s", i, stderr.String())
		}
	}
	t.Logf("%d kills, %d acknowledged commits, none lost", kills, acked)
	info, err := os.Stat(dir + "/store.db")
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > 16<<20 {
		t.Errorf("the file has %d bytes after %d commits of one small record", info.Size(), acked)
	}
}
