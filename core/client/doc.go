// Package client owns how a program asks a Turnus server: one method for each operation of the HTTP
// API, in the types of package api, with errors that name the server, what was asked and what to do
// next.
//
// What may be asked twice without harm is asked again when a server does not answer, for a short
// while. It must not know flags, where a token is kept, or how anything is shown.
package client
