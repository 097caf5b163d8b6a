// Package ownfiles opens, locks and clears files in folders that other programs and other users may share, so that nothing of theirs is read,
// emptied or removed.
//
//   - [Open] opens a regular file by its name, never one that a link leads to.
//   - [Folder] refuses a link, and a folder of another user, before anything in it is touched.
//   - [Lock] tells the living from the dead: the system lets go of it when the process ends, however it ends.
//   - [Temp] makes a folder for temporary files, and removes those of its kind whose processes were killed.
package ownfiles
