// Package browser tests the page of a node in a real browser: Chromium, by chromedp. It is a module of its own, so that nobody who uses raysys
// gets that. `make test-browser` runs it, where there is a Chromium, and writes the pictures of docs/guide/dashboard.md.
package browser
