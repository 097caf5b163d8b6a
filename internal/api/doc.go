// Package api holds the public API of the module as golden files: testdata holds one file per public package with every
// exported declaration, so that a change of the API is a change that a reader of the diff sees.
//
//	go test ./internal/api            compares, and refuses types of internal packages in the public API
//	go test ./internal/api -update    writes the files anew
//
// Public is every package that is neither a command nor an example and has no path element "internal". The rendering
// is that of linux/amd64: constants and types whole, functions and methods by their signature, without comments and
// unexported fields.
package api
