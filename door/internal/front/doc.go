// Package front is what package door tells those below it that serve a door by another protocol.
package front
