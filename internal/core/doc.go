// Package core has the futures that everything is made of.
package core
