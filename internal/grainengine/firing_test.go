package grainengine

import (
	"testing"
	"time"
)

// TestFiringOf: the key of a firing has the schedule and the due time; others, and one of a time that is still to come, are keys as a program gives.
func TestFiringOf(t *testing.T) {
	at := time.Now().Add(-time.Minute).UTC()
	stamp := at.Format(time.RFC3339Nano)
	for key, want := range map[string]string{
		"schedule bob/bill " + stamp:              "schedule bob/bill",
		"schedule with a space and 2026 " + stamp: "schedule with a space and 2026",
		"schedule \xff\x00 " + stamp:              "schedule \xff\x00",
		"schedule bob " + stamp + " ":             "",
		"schedule bob 2026":                       "",
		"schedule bob 1969-12-31T00:00:00Z":       "",
		"schedule":                                "",
		"":                                        "",
		"order 7 " + stamp:                        "",
		"schedule bob " + at.Add(48*time.Hour).Format(time.RFC3339Nano): "",
	} {
		switch name, due := firingOf(key); {
		case name != want:
			t.Errorf("%q is a firing of %q, want %q", key, name, want)
		case want != "" && due != at.UnixNano():
			t.Errorf("%q was due at %d, want %d", key, due, at.UnixNano())
		}
	}
}
