//go:build unix

package testkit_test

import (
	"bufio"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/raysys/raysys/testkit"
)

// greeting reads the first line of the server at a URL.
func greeting(t *testing.T, at string, limit time.Duration) (string, error) {
	t.Helper()
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", u.Host)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		t.Fatal(err)
	}
	return bufio.NewReader(c).ReadString('\n')
}

const natsLimit = time.Minute // of a busy machine

func TestNATS(t *testing.T) {
	dir := t.TempDir()
	n := testkit.NATS(t, testkit.NATSDir(dir), testkit.NATSToken("secret"), testkit.NATSSyncAlways(), testkit.NATSMaxStore(1<<20))
	if !strings.HasPrefix(n.URL(), "nats://secret@127.0.0.1:") {
		t.Error(n.URL())
	}
	if s, err := greeting(t, n.URL(), natsLimit); err != nil || !strings.HasPrefix(s, "INFO {") || !strings.Contains(s, `"jetstream":true`) || !strings.Contains(s, `"auth_required":true`) {
		t.Errorf("%q, %v", s, err)
	}
	if data, err := filepath.Glob(filepath.Join(dir, "nats-1", "jetstream")); err != nil || len(data) != 1 {
		t.Errorf("the data is not in the folder: %q, %v", data, err)
	}
}

// TestNATSOfThree: each of three servers is killed, paused and stopped by itself.
func TestNATSOfThree(t *testing.T) {
	n := testkit.NATS(t, testkit.NATSServers(3))
	urls := strings.Split(n.URL(), ",")
	if len(urls) != 3 {
		t.Fatal(n.URL())
	}
	serve := func(want ...bool) {
		t.Helper()
		for i, u := range urls {
			limit := natsLimit
			if !want[i] {
				limit = 50 * time.Millisecond // it is paused, or refuses at once
			}
			if s, err := greeting(t, u, limit); (err == nil && strings.Contains(s, `"cluster":"raysys"`)) != want[i] {
				t.Errorf("server %d: %q, %v", i+1, s, err)
			}
		}
	}
	serve(true, true, true)
	n.Kill(1)
	serve(false, true, true)
	n.Start(1)
	n.Ready() // else two that have not caught up may be left
	n.Pause(2)
	serve(true, false, true)
	n.Resume(2)
	n.Ready()
	n.Stop(3)
	n.Ready()
	serve(true, true, false)
	n.Start(3)
	n.Ready()
	serve(true, true, true)
}
