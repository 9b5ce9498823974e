// Package fleet owns simulated hosts: a real SSH server on loopback that is
// thousands of hosts at once, each with its own address, key, name and faults.
// It serves the demo, benchmarks and tests; nothing that manages real hosts imports it.
package fleet
