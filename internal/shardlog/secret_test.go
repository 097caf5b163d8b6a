package shardlog_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/raysys/raysys/internal/flaky"
	"github.com/raysys/raysys/internal/shardlog"
	"github.com/raysys/raysys/store"
)

// TestSecretIsAdded: a layout of a program from before gets one secret, however many nodes find it without. What else is in it stays,
// also what this program does not know.
func TestSecretIsAdded(t *testing.T) {
	old, err := shardlog.NewLayout(8)
	if err != nil {
		t.Fatal(err)
	}
	old.Name, old.Secret = "prod", nil
	value, err := json.Marshal(old)
	if err != nil {
		t.Fatal(err)
	}
	value = append(value[:len(value)-1], `,"of_a_later_program":12345678901234567890}`...)
	kv := memory(t)
	if _, err := kv.Txn(within(t), []store.Op{store.Set(shardlog.LayoutKey, value)}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var got [4]shardlog.Layout
	for i := range got {
		wg.Go(func() {
			node := flaky.Wrap(kv)
			node.FailNext(i, flaky.LoseAnswer)
			var err error
			if got[i], err = shardlog.OpenLayout(within(t), node, "prod", 0); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	secret := got[0].Secret
	if len(secret) != 32 {
		t.Fatalf("the secret has %d bytes", len(secret))
	}
	for _, c := range got {
		want := old
		want.Secret = secret
		if d := cmp.Diff(want, c); d != "" {
			t.Error(d)
		}
	}
	p, err := kv.Get(within(t), shardlog.LayoutKey)
	if err != nil || !strings.Contains(string(p.Value), "12345678901234567890") || !strings.Contains(string(p.Value), old.ID) {
		t.Errorf("%s %v", p.Value, err)
	}
	if again, err := shardlog.OpenLayout(within(t), kv, "prod", 0); err != nil || string(again.Secret) != string(secret) {
		t.Errorf("opened again: %v", err)
	}
	other, err := shardlog.OpenLayout(within(t), memory(t), "prod", 0)
	if err != nil || len(other.Secret) != 32 || string(other.Secret) == string(secret) {
		t.Errorf("a new cluster has a secret of %d bytes: %v", len(other.Secret), err)
	}
}

// TestSecretIsNotPrinted in errors and logs, which show layouts.
func TestSecretIsNotPrinted(t *testing.T) {
	c, err := shardlog.NewLayout(2)
	if err != nil {
		t.Fatal(err)
	}
	secret := c.Secret
	hidden := func(text string) {
		t.Helper()
		for _, s := range []string{base64.StdEncoding.EncodeToString(secret), fmt.Sprintf("%x", []byte(secret)), fmt.Sprint([]byte(secret)), fmt.Sprintf("%q", []byte(secret))} {
			if strings.Contains(text, s) {
				t.Errorf("the secret is in %q", text)
			}
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		hidden(fmt.Sprintf(verb, c))
		hidden(fmt.Sprintf(verb, &c))
	}
	open := func(c shardlog.Layout) error {
		value, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		kv := memory(t)
		if _, err := kv.Txn(within(t), []store.Op{store.Set(shardlog.LayoutKey, value)}); err != nil {
			t.Fatal(err)
		}
		_, err = shardlog.OpenLayout(within(t), kv, "", 0)
		return err
	}
	bad := c
	bad.Shards = 0
	err = open(bad)
	if !errors.Is(err, shardlog.ErrBadLayout) {
		t.Error(err)
	}
	hidden(err.Error())
	bad = c
	secret = shardlog.Secret("too short")
	bad.Secret = secret
	if err = open(bad); !errors.Is(err, shardlog.ErrBadLayout) || !strings.Contains(err.Error(), "9 bytes") {
		t.Error(err)
	}
	hidden(err.Error())
}
