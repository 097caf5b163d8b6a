// Package listed is where packages above system put what a node answers when an operator asks for a list of theirs.
package listed
