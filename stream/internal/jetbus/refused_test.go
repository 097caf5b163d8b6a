package jetbus_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/raysys/raysys/internal/natsserver"
	"github.com/raysys/raysys/stream/internal/bus"
	"github.com/raysys/raysys/stream/internal/jetbus"
)

type object = map[string]any

// TestRefusedForGood: what a server would refuse again is an error at once: no call has a time limit. Each case is an account, and says which calls of
// its user come to what; the others work.
func TestRefusedForGood(t *testing.T) {
	type results map[string]error
	cases := map[string]struct {
		jetstream any
		deny      object // what the user may not publish, subscribe
		want      results
		says      string
	}{
		"all":           {"enabled", nil, nil, ""},
		"no-jetstream":  {"disabled", nil, results{"ensure": bus.ErrRefused, "publish": bus.ErrRefused, "publish many": bus.ErrRefused, "info": bus.ErrRefused, "read": bus.ErrRefused}, "not enabled"},
		"one-stream":    {object{"max_streams": 1}, nil, results{"ensure": bus.ErrFull}, "maximum number of streams"},
		"1000-bytes":    {object{"max_file": 1000}, nil, results{"publish many": bus.ErrFull}, "resource"},
		"no-events":     {"enabled", object{"publish": "raysys.>"}, results{"publish": bus.ErrRefused, "publish many": bus.ErrRefused}, "raysys."},
		"no-such-key":   {"enabled", object{"publish": "raysys.*.*.x"}, results{"publish": bus.ErrRefused, "publish many": bus.ErrRefused}, "raysys."},
		"no-new":        {"enabled", object{"publish": "$JS.API.STREAM.CREATE.>"}, results{"ensure": bus.ErrRefused}, "STREAM.CREATE"},
		"no-questions":  {"enabled", object{"publish": "$JS.API.>"}, results{"ensure": bus.ErrRefused, "info": bus.ErrRefused, "read": bus.ErrRefused}, "$JS.API"},
		"no-consumers":  {"enabled", object{"publish": "$JS.API.CONSUMER.>"}, results{"read": bus.ErrRefused}, "CONSUMER"},
		"no-deliveries": {"enabled", object{"publish": "$JS.API.CONSUMER.MSG.>"}, results{"read": bus.ErrRefused}, "CONSUMER.MSG"},
		"no-answers": {"enabled", object{"subscribe": "_INBOX.>"}, results{
			"ensure": bus.ErrRefused, "publish": bus.ErrRefused, "publish many": bus.ErrRefused, "info": bus.ErrRefused, "read": bus.ErrRefused,
		}, "_INBOX"},
	}
	accounts := object{}
	for name, c := range cases {
		rights := object{}
		for verb, subject := range c.deny {
			rights[verb] = object{"deny": subject}
		}
		accounts[name] = object{"jetstream": c.jetstream, "users": []object{{"user": name + "-all", "password": "sesame"}, {"user": name, "password": "sesame", "permissions": rights}}}
	}
	s, err := natsserver.Run(t.Context(), natsserver.Options{More: object{"accounts": accounts}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := func(user string) *jetbus.Bus {
				b, err := jetbus.Open(jetbus.Config{URL: "nats://" + user + ":sesame@" + s.Address(1)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(b.Close)
				return b
			}
			all, b := open(name+"-all"), open(name)
			if err := all.Ensure(t.Context(), bus.Config{Name: "s", Partitions: 1}); err != nil && name != "no-jetstream" {
				t.Fatal(err)
			}
			if name != "1000-bytes" && name != "no-jetstream" {
				if err := publish(t.Context(), all, "1"); err != nil {
					t.Fatal(err)
				}
			}
			large := bus.Message{Key: "x", Data: make([]byte, 2000)}
			calls := map[string]func() error{
				"ensure":  func() error { return b.Ensure(t.Context(), bus.Config{Name: "t", Partitions: 1, Replicas: 3}) },
				"publish": func() error { _, err := b.Publish(t.Context(), "s", []bus.Message{large}); return err },
				"publish many": func() error {
					_, err := b.Publish(t.Context(), "s", slices.Repeat([]bus.Message{large}, 10))
					return err
				},
				"info": func() error { _, err := b.Info(t.Context(), "s"); return err },
				"read": func() error {
					return b.Read(t.Context(), "s", bus.Filter{}, 0, 1, func(bus.Message) bool { return true })
				},
			}
			for _, call := range slices.Sorted(maps.Keys(calls)) {
				err := calls[call]()
				if want := c.want[call]; !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: %v, want %v", call, err, want)
				}
			}
		})
	}
}

// TestSmallServer: of a server that takes less than others an event that is too large is an error at once.
func TestSmallServer(t *testing.T) {
	s, err := natsserver.Run(t.Context(), natsserver.Options{More: object{"max_payload": 2000}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b, err := jetbus.Open(jetbus.Config{URL: s.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Ensure(t.Context(), bus.Config{Name: "s", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	if err := publish(t.Context(), b, strings.Repeat("x", 1500)); err != nil {
		t.Fatal(err)
	}
	if err := publish(t.Context(), b, strings.Repeat("x", 2000)); !errors.Is(err, bus.ErrTooLarge) || !strings.Contains(err.Error(), "2000") {
		t.Fatal(err)
	}
}
