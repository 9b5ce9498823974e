package cli

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/turnus/turnus/cmd/turnus/node"
	"github.com/turnus/turnus/core/testparts"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
	"github.com/turnus/turnus/plugins/exec"
)

func TestMain(m *testing.M) {
	if len(os.Args) >= 3 && os.Args[1] == node.ServeVerb { // started by a test as the process of a built-in plugin
		os.Exit(node.ServePlugin(os.Args[2], os.Args[3:], os.Stderr))
	}
	if len(os.Args) == 3 && os.Args[1] == node.ScriptVerb || filepath.Base(os.Args[0]) == exec.HelperName { // of a plugin that is a script
		os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	testscript.Main(programTests{testparts.Patient{M: m}}, map[string]func(){
		"turnus":   func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) },
		"xdg-open": browse, "open": browse,
	})
}

// TestScripts runs testdata/script/*.txtar: what people type, what they see, and the exit code.
// TestLabScripts runs the long ones.
//
// Beside the commands of testscript there is
//
//	fleet N [HOST=FAULT ...]   starts N simulated hosts and writes hosts.yaml, and unpinned.yaml without host keys; HOST counts from 0; set:NAME is no fault, but the window set
//	code N COMMAND...          runs a command that must exit with N
//	when REGEXP FILE NEW N COMMAND...  the same; when its stderr matches, FILE gets the content of NEW
//	until COMMAND...           runs a command again and again until it exits with 0
//	envfile NAME=FILE          sets a variable to what a file says
//	perm MODE FILE             checks who may read a file
//	authority KIND      starts an ACME CA that looks at a challenge of this kind: ACME, PORT and HTTP are where; "authority" alone says how often it was asked
//	handshake NAME             waits until the server at PORT has a certificate of that name; with ! it must not get one
//	certificates               writes ca.pem, server.pem and .key, client.pem and .key, foreign.pem and .key, and chooses a PORT
//	provider EMAIL GROUP       starts an OpenID provider, ISSUER, the first time, and says who logs in next; of the group refuse nobody does
//	records                    starts a resolver at RESOLVER that has the keys of hosts.yaml as validated SSHFP records; with ! it validates nothing
//	endlab                     ends the lab after the script, also if it fails
//	dated FILE                 writes dates for YESTERDAY and SOON
func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

func runScripts(t *testing.T, dir string) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(10 * time.Minute), // of them all; a script that hangs is ended, and reports where
		Setup: func(env *testscript.Env) error {
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("TURNUS_STATE", filepath.Join(env.WorkDir, "state"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"fleet": startFleet, "endlab": endLab, "code": wantCode, "when": whenSaid, "dated": dated, "until": untilOK, "shows": untilShown, "envfile": envFile, "perm": perm, "provider": provider(t), "authority": startCA, "handshake": handshake, "certificates": certificates, "records": sshfpRecords},
	})
}

// browse is the browser of a person who has a session at the provider.
func browse() {
	resp, err := http.Get(os.Args[1])
	if err != nil || resp.StatusCode != http.StatusOK {
		os.Exit(1)
	}
	_ = resp.Body.Close()
}

// provider is one for all scripts of the test; one script logs in.
func provider(t *testing.T) func(*testscript.TestScript, bool, []string) {
	t.Helper()
	p := servers.StartOIDC(t)
	return func(ts *testscript.TestScript, _ bool, args []string) {
		ts.Setenv("ISSUER", p.Issuer)
		refuse := ""
		if args[1] == "refuse" {
			refuse = "access_denied"
		}
		p.Next(map[string]any{"sub": args[0], "email": args[0], "email_verified": true, "groups": []string{args[1]}}, 0, refuse)
	}
}

func startFleet(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	faults, sets := map[int]fleet.Profile{}, map[int]string{}
	kinds := map[string]fleet.Profile{
		"fail": fleet.Fail(3, "no such rule\n"), "hang": fleet.Hang(), "refuse": fleet.RefuseAuth(), "changed": fleet.ChangedKey(),
		"reset": fleet.Reset(), "silent": fleet.Silent(), "binary": fleet.Binary(), "flood": fleet.Flood(8 << 20),
	}
	for _, arg := range args[1:] {
		host, kind, _ := strings.Cut(arg, "=")
		i, err := strconv.Atoi(host)
		ts.Check(err)
		if set, ok := strings.CutPrefix(kind, "set:"); ok {
			sets[i] = ", window_set: " + set
			continue
		}
		p, ok := kinds[kind]
		if !ok {
			ts.Fatalf("fleet: no fault %q", kind)
		}
		faults[i] = p
	}
	f, err := fleet.Start(context.Background(), fleet.Config{Hosts: n, Seed: 7, Profile: fleet.Only(faults)})
	ts.Check(err)
	ts.Defer(func() { _ = f.Close() })
	var b, unpinned strings.Builder
	b.WriteString("hosts:\n")
	unpinned.WriteString("hosts:\n")
	for i, h := range f.Hosts() {
		fmt.Fprintf(&b, "  %s: {address: %s, port: %d, user: %s, host_key: [%q]%s}\n",
			h.Name, h.Address, h.SSH.Port, h.SSH.User, h.SSH.HostKeys[0], sets[i])
		fmt.Fprintf(&unpinned, "  %s: {address: %s, port: %d, user: %s}\n", h.Name, h.Address, h.SSH.Port, h.SSH.User)
	}
	own := "defaults: {identity_file: " + f.IdentityFile() + "}\n"
	logins := "credentials: {default: {identity_file: " + f.IdentityFile() + ", addresses: [127.0.0.0/8]}}\n"
	for name, text := range map[string]string{"tree.yaml": b.String(), "hosts.yaml": own + b.String(), "unpinned.yaml": own + unpinned.String(), "logins.yaml": logins} {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// endLab ends the lab of a script: a process in the background outlives a script that fails.
func endLab(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Defer(func() {
		if err := ts.Exec("turnus", "lab", "down"); err != nil {
			ts.Logf("turnus lab down: %v", err)
		}
	})
}

func wantCode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		text := err.Error()
		if _, err := fmt.Sscanf(text, "exit status %d", &got); err != nil {
			ts.Fatalf("%v: %s", args[1:], text)
		}
	}
	if got != want {
		ts.Fatalf("%v: exit code %d, want %d", args[1:], got, want)
	}
}

func untilOK(ts *testscript.TestScript, _ bool, args []string) {
	var err error
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		if err = ts.Exec(args[0], args[1:]...); err == nil {
			return
		}
		<-time.After(200 * time.Millisecond) // the command takes a core meanwhile
	}
	ts.Fatalf("%v does not succeed: %v", args, err)
}

// untilShown runs a command until its output matches: what it shows is reported by another part,
// which may lag.
func untilShown(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile(args[0])
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		if ts.Exec(args[1], args[2:]...) == nil && want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		<-time.After(200 * time.Millisecond) // the command takes a core meanwhile
	}
	ts.Fatalf("%v does not show %s:\n%s", args[1:], want, ts.ReadFile("stdout"))
}

func envFile(ts *testscript.TestScript, _ bool, args []string) {
	name, file, _ := strings.Cut(args[0], "=")
	ts.Setenv(name, strings.TrimSpace(ts.ReadFile(file)))
}

func perm(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s: mode %s, expected %s", args[1], got, args[0])
	}
}
