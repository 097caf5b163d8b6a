// Package arch holds the tests that keep the module in its layout: which package may import which, and the house rules
// that a tool can check (a doc.go in every package, no file without limit, no sleeping).
//
// It has no code of its own. layout_test.go is the table to change, with a reason, when the layout changes; ratchet_test.go is that of the
// packages and types that are large, whose numbers only fall.
package arch
