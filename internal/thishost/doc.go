// Package thishost says whether a request over HTTP is of this host: the page of a node answers such ones without a
// token, and so does a door.
package thishost
