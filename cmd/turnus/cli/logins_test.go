package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/core/testparts/servers"
)

// With a queue that others write to, a person's own keys and passwords serve nobody.
func TestFaultS1SharedQueuesGetNoOwnLogin(t *testing.T) {
	own := writeText(t, "hosts.yaml", "hosts:\n  h: {password_env: HOME}\n", 0o600)
	plain := writeText(t, "plain.yaml", "hosts: {h: {}}\n", 0o600)
	playbook := writeText(t, "p.yaml", "playbook: p\ntargets: \"true\"\nsteps: [{uses: command, with: {run: 'true'}}]\n", 0o600)
	redis := []string{"--redis", "redis://127.0.0.1:1/0"}
	for says, args := range map[string][]string{
		own + ":2:7: password_env:":     append([]string{"run", playbook, "-i", own}, redis...),
		"--password-env: with --redis":  append([]string{"run", playbook, "-i", plain, "--password-env", "HOME"}, redis...),
		"--private-key: with --redis":   append([]string{"run", playbook, "-i", plain, "--private-key", playbook}, redis...),
		"--first-contact: with":         append([]string{"run", playbook, "-i", plain, "--first-contact", "192.0.2.0/24"}, redis...),
		"unknown flag: --first-contact": {"up", "--first-contact", "192.0.2.0/24"},
		"--agent: with --redis":         append([]string{"run", playbook, "-i", plain, "--agent", "/s"}, redis...),
		"unknown flag: --password-env":  append([]string{"worker", "--password-env", "HOME"}, redis...),
		"unknown flag: --private-key":   {"up", "--private-key", playbook},
		"unknown flag: --ssh-config":    {"up", "--ssh-config", playbook},
		"unknown flag: --ssh-ca-key":    {"up", "--ssh-ca-key", playbook},
	} {
		if _, stderr := turnus(t, console.ExitInvalid, args...); !strings.Contains(stderr, says) {
			t.Errorf("%v: got %q, expected %q", args, stderr, says)
		}
	}
}

// A credential whose file, variable or key cannot be read is named at the start, with its place.
func TestCredentialsAreReadAtTheStart(t *testing.T) {
	key, _ := servers.NewSSHKey(t)
	hosts := writeText(t, "plain.yaml", "hosts: {h: {}}\n", 0o600)
	playbook := writeText(t, "p.yaml", "playbook: p\ntargets: \"true\"\nsteps: [{uses: command, with: {run: 'true'}}]\n", 0o600)
	for name, tt := range map[string][2]string{
		"no key file":    {"identity_file: none", "none"},
		"open key file":  {"identity_file: open", "chmod 600"},
		"no certificate": {"identity_file: " + key + ", certificate_file: none", "certificate:"},
		"no authority":   {"ca_key: none", "none"},
		"no variable":    {"password: {env: TEST_S1_NONE}", "TEST_S1_NONE is not set"},
		"no file":        {"password: {file: none}", "none"},
		"no agent":       {"agent: TEST_S1_NONE", "TEST_S1_NONE is not set\nhint: start an agent"},
		"long lifetime":  {"ca_key: " + key + ", ca_lifetime: 48h", "expected 1m"},
	} {
		t.Run(name, func(t *testing.T) {
			own := writeText(t, "own.yaml", "credentials:\n  fleet: {"+tt[0]+", addresses: [192.0.2.1]}\n", 0o600)
			if err := os.WriteFile(filepath.Join(filepath.Dir(own), "open"), []byte("x"), 0o644); err != nil { // it must be refused
				t.Fatal(err)
			}
			_, stderr := turnus(t, console.ExitInvalid, "run", playbook, "-i", hosts, "--redis", "redis://127.0.0.1:1/0", "--secrets", own)
			if !strings.Contains(stderr, `credential "fleet"`) || !strings.Contains(stderr, own+":2:") || !strings.Contains(stderr, tt[1]) {
				t.Errorf("got %q", stderr)
			}
		})
	}
}
