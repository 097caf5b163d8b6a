package member_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/raysys/raysys"
	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/member"
	"github.com/raysys/raysys/store"
)

// TestSuspendedThenResumed: a lease that ran out loses nothing: the member is suspended, and a renewal makes the same
// incarnation active again (C15).
func TestSuspendedThenResumed(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.lenience = 3 // as a server does that was away itself: its sessions begin anew
		c.join("a", "b")
		a := c.member("a")
		incarnation, session := a.Incarnation(), a.Session()
		c.tell([]string{"down"})
		c.pass(25 * time.Second)
		if s := a.State(); s != member.Suspended {
			t.Fatalf("after 25 s without the store it is %v", s)
		}
		if err := a.Err(); !errors.Is(err, raysys.ErrSuspended) {
			t.Errorf("its error is %v", err)
		}
		if got := c.names("a"); len(got) != 2 {
			t.Errorf("suspended, it sees %v", got)
		}
		c.tell([]string{"up"})
		c.pass(2 * time.Second)
		if s := a.State(); s != member.Active || a.Err() != nil {
			t.Errorf("with the store back it is %v, %v", s, a.Err())
		}
		if a.Incarnation() != incarnation || a.Session() != session {
			t.Error("it became another incarnation")
		}
		select {
		case <-a.Done():
			t.Error("it ended")
		default:
		}
	})
}

// TestFencedWhenTheSessionIsGone: only the store's word that the session is gone ends an incarnation (C15).
func TestFencedWhenTheSessionIsGone(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a", "b")
		a := c.member("a")
		c.node("a").kv.Down(true)
		c.pass(3 * ttl)
		if s := a.State(); s != member.Suspended {
			t.Fatalf("without the store it is %v", s)
		}
		if got := c.names("b"); len(got) != 1 {
			t.Errorf("b sees %v though the session of a is over", got)
		}
		c.node("a").kv.Down(false)
		c.pass(2 * time.Second)
		if s := a.State(); s != member.Fenced {
			t.Fatalf("with its session gone it is %v", s)
		}
		if err := a.Err(); !errors.Is(err, raysys.ErrFenced) || errors.Is(err, raysys.ErrStoreReplaced) {
			t.Errorf("its error is %v", err)
		}
		<-a.Done()
		<-a.View().Changed() // or whoever waits for news waits for ever
		old := a.Incarnation()
		c.join("a")
		if now := c.member("a").Incarnation(); now <= old {
			t.Errorf("incarnation %d follows %d", now, old)
		}
	})
}

// forgetful says of a session that it is gone, and is wrong.
type forgetful struct {
	store.KV
	times atomic.Int32
}

func (k *forgetful) Renew(ctx context.Context, session string) error {
	if k.times.Add(-1) >= 0 {
		return store.ErrSessionGone
	}
	return k.KV.Renew(ctx, session)
}

// TestGoneIsLookedUp: a server that was just elected says that sessions are gone which live; the key that a session holds says
// whether it does.
func TestGoneIsLookedUp(t *testing.T) {
	virtual(t, func(c *cluster) {
		k := &forgetful{}
		c.joinAs("a", func(cfg *member.Config) {
			k.KV = cfg.KV
			cfg.KV = k
		})
		k.times.Store(5)
		c.pass(2 * ttl)
		if left := k.times.Load(); left >= 0 {
			t.Fatal("nothing was forgotten")
		}
		if got := c.took(); len(got) > 0 || c.member("a").State() != member.Active {
			t.Errorf("it is %v, after %v", c.member("a").State(), got)
		}
	})
}

// TestGoneAndUnread: while nobody can tell whether the session lives, nothing rests on the lease.
func TestGoneAndUnread(t *testing.T) {
	virtual(t, func(c *cluster) {
		k := &forgetful{}
		n := c.joinAs("a", func(cfg *member.Config) {
			k.KV = cfg.KV
			cfg.KV = k
		})
		n.kv.Hook(func(call flaky.Call) flaky.Fault {
			if call.Verb == "Txn" {
				return flaky.Refuse
			}
			return flaky.None
		})
		k.times.Store(1 << 30)
		c.pass(ttl/3 + time.Second/10)
		if s := n.m.State(); s != member.Suspended {
			t.Errorf("it is %v", s)
		}
		n.kv.Hook(nil)
		k.times.Store(0)
		c.pass(2 * time.Second)
		if s := n.m.State(); s != member.Active {
			t.Errorf("its session lived, and it is %v", s)
		}
	})
}

// TestFencedBeforeTheSessionGoes: others take over when the session is destroyed, so OnState has to have returned before.
func TestFencedBeforeTheSessionGoes(t *testing.T) {
	for _, end := range []string{"leave", "vote"} {
		t.Run(end, func(t *testing.T) {
			virtual(t, func(c *cluster) {
				var mu sync.Mutex
				var order []string
				say := func(what string) {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, what)
				}
				n, cfg := c.prepare("a")
				cfg.OnState = func(s member.State, _ error) {
					<-time.After(time.Second) // it takes a while to stop serving
					say(s.String())
				}
				n.kv.Hook(func(call flaky.Call) flaky.Fault {
					if call.Verb == "Destroy" {
						say("destroyed")
					}
					return flaky.None
				})
				m, err := member.Join(context.Background(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				c.add(n, m)
				want := "left destroyed"
				if end == "leave" {
					err = m.Leave(context.Background())
				} else {
					want = "fenced destroyed"
					c.set(fmt.Sprint("evict/", m.Incarnation()), `{"v":1,"node":"a","by":"b","why":"a test"}`)
					c.pass(ttl)
				}
				mu.Lock()
				defer mu.Unlock()
				if got := strings.Join(order, " "); got != want || err != nil {
					t.Errorf("it happened %q (%v), want %q", got, err, want)
				}
				if keys := c.keys("nodes/"); len(keys) > 0 {
					t.Errorf("left behind: %v", keys)
				}
			})
		})
	}
}

// TestVotedOut: a renewal reads the node's own evict key, and the member ends itself within a third of a lease (C17).
func TestVotedOut(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.lenience = 9
		c.join("a")
		a := c.member("a")
		c.set(fmt.Sprint("evict/", a.Incarnation()), `{"v":1,"node":"a","by":"b","byIncarnation":7,"why":"a test"}`)
		c.pass(ttl/3 + time.Second/10)
		if s, err := a.State(), a.Err(); s != member.Fenced || !errors.Is(err, raysys.ErrFenced) || !strings.Contains(err.Error(), "by b (incarnation 7)") {
			t.Errorf("voted out, it is %v: %v", s, err)
		}
		if keys := c.keys("nodes/"); len(keys) > 0 {
			t.Errorf("it did not acknowledge by ending its session: %v", keys)
		}
	})
}

// TestKeyRemoved: a node that others do not see is none.
func TestKeyRemoved(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a")
		if _, err := c.kv.Txn(context.Background(), []store.Op{store.Delete("nodes/a")}); err != nil {
			t.Fatal(err)
		}
		c.pass(time.Second) // at once: the watch brings a list without it
		if s := c.member("a").State(); s != member.Fenced {
			t.Errorf("without its key it is %v", s)
		}
		if got := c.names("a"); len(got) != 1 {
			t.Errorf("it believed a list of nodes without itself: %v", got)
		}
	})
}

// TestStoreReplaced: a store that comes back empty, or as another cluster's, is not a reason to start over on it (C15).
func TestStoreReplaced(t *testing.T) {
	for name, config := range map[string]string{"empty": "", "another cluster": `{"id":"other"}`} {
		for _, sessions := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", sessions kept: ", sessions), func(t *testing.T) {
				virtual(t, func(c *cluster) {
					c.join("a", "b")
					op := store.Delete("config")
					if config != "" {
						op = store.Set("config", []byte(config))
					}
					if _, err := c.kv.Txn(context.Background(), []store.Op{op}); err != nil {
						t.Fatal(err)
					}
					if !sessions {
						c.tell([]string{"expire", "a"})
						c.tell([]string{"expire", "b"})
					}
					c.pass(ttl / 2)
					for _, name := range []string{"a", "b"} {
						m := c.member(name)
						if s, err := m.State(), m.Err(); s != member.Fenced || !errors.Is(err, raysys.ErrStoreReplaced) || errors.Is(err, raysys.ErrFenced) {
							t.Errorf("%s is %v: %v", name, s, err)
						}
						if got := c.names(name); sessions && len(got) != 2 {
							t.Errorf("%s holds the others to be gone: %v", name, got)
						}
					}
					if keys := c.keys("nodes/"); sessions && len(keys) != 2 {
						t.Errorf("sessions of the other store were destroyed, left: %v", keys)
					}
				})
			})
		}
	}
}

// TestUnreadableConfig: a config that cannot be read suspends, it does not end.
func TestUnreadableConfig(t *testing.T) {
	virtual(t, func(c *cluster) {
		c.join("a")
		c.set("config", "{")
		c.pass(2 * ttl)
		if s := c.member("a").State(); s != member.Suspended {
			t.Errorf("it is %v", s)
		}
		c.set("config", fmt.Sprintf(`{"id":%q}`, clusterID))
		c.pass(2 * time.Second)
		if s := c.member("a").State(); s != member.Active {
			t.Errorf("with the config readable again it is %v", s)
		}
	})
}
