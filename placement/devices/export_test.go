package devices

import "os"

// What the tests of the outside need of the inside.
var (
	ParseLine = parseLine
	Matrix    = matrix
)

// FeedOf is OpenFeed for a pipe of this process.
func FeedOf(f *os.File) (*Feed, error) { return newFeed(f) }
