package core

import "testing"

func TestThisMachine(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.9.0.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "[::1]": false, "127.0.0.1.example.net": false, "localhost.example.net": false,
	} {
		if ThisMachine(host) != want {
			t.Errorf("%q: %v", host, !want)
		}
	}
}
