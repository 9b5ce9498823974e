// Package api owns the resources of the HTTP API as plain types: what a server answers, a
// client reads, and `-o json` of the client verbs prints. It is API: fields are added, never
// renamed or given another meaning.
//
// Times are RFC 3339 in UTC, durations are texts as in a playbook ("1h30m"). Lists come in
// pages; the cursor of the next one is opaque. It must not know HTTP, the ledger or the queue.
package api
