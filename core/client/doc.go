// Package client owns how a program asks a Turnus server: one method for each operation of the HTTP
// API, in the types of package api, with errors that name the server, the request and what to do
// next.
//
// If a server does not answer, requests that can be repeated without harm are repeated for a short
// while. The package must not know flags, where a token is kept, or how anything is shown.
package client
