// Package printable makes text of others fit for a terminal. Names, keys, errors and lines of logs come from programs and their clients; written as
// they are they could move the cursor, set colours, or look like lines of the command.
//
//	Escape   names, cells of a table, one line    a newline is \n, an escape character \x1b
//	Behind   texts that may have several lines    each further line begins with "| ", which no line of ours does
//	JSON     what is JSON already                 the same value, with \u escapes
package printable
