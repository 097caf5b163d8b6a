package jetbus

// Escape and Unescape are for the tests.
var (
	Escape   = escape
	Unescape = unescape
)
