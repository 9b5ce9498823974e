// Package servers owns the private servers, networks and machines of tests: OpenSSH, Redis and
// PostgreSQL, the parties that others trust, and what runs in namespaces. Servers are on loopback
// or on a Unix socket, and no other machine reaches the namespaces. All end with their test.
//
// A test has Redis as a standalone server, as a Cluster of three with and without replicas, or as a
// Sentinel with a replica. Redis and PostgreSQL have a user with the least rights. With
// TURNUS_TEST_TLS=1, or where a test asks for it, they speak TLS only, with client certificates.
//
// Trusted parties are one CA for a test binary with the certificates that it signs, CAs that speak
// ACME, Vaults, and an OpenID Connect provider, with ID tokens as wrong as a test wants them. ACME
// and Vault are there simulated and real. The real Vault is HashiCorp's own core, in memory: make
// check-vault builds it, and tests that need it have the build tag vault. The simulated one also
// fails, refuses or is late. NetBox is simulated.
//
// In namespaces, which only Linux has, are hosts with one link to this machine, devices that really
// reboot, a DNS with signed zones, and machines with a real systemd as PID 1 or without any.
//
// It must not know what is stored in the servers, who believes them, nor what tests are about.
package servers

import "testing"

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
