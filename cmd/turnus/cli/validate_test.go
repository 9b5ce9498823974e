package cli

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnus/turnus/cmd/turnus/console"
)

// validate, project diff, plan and run report what a job type refuses beyond its schema, with its
// place, and run contacts no host; params with expressions are left to the run. Red before:
// validate and project diff took the file, and run contacted the host.
func TestFaultP8ValidateAsksTheJobType(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const bad = `playbook: bad
targets: "true"
steps:
  - name: probe
    uses: http
    with: {url: "http://", body_match: "("}
  - {name: typo, uses: http, with: {rul: "http://a"}}
  - name: later
    uses: http
    with: {url: "http://${{ host.name }}", body_match: "("}
`
	playbook := write("tree/playbooks/bad.yaml", bad)
	write("empty/playbooks/good.yaml", "playbook: good\ntargets: \"true\"\nsteps: [{uses: http, with: {url: 'http://a'}}]\n")
	for _, tree := range []string{"tree", "empty"} {
		write(tree+"/turnus.yaml", "inventory: []\n")
	}
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	contacted := make(chan bool)
	go func() {
		conn, err := host.Accept()
		if err == nil {
			_ = conn.Close()
		}
		contacted <- err == nil
	}()
	hosts := write("hosts.yaml", "hosts: {a: {address: '"+host.Addr().String()+"'}}\n")
	t.Setenv("TURNUS_STATE", filepath.Join(dir, "state"))
	for _, args := range [][]string{
		{"validate", playbook}, {"project", "diff", filepath.Join(dir, "empty"), filepath.Join(dir, "tree")}, {"plan", playbook, "-i", hosts}, {"run", playbook, "-i", hosts},
	} {
		var out, errs bytes.Buffer
		code := Main(args, strings.NewReader(""), &out, &errs)
		if code != console.ExitInvalid {
			t.Errorf("%s: exit %d: %s", args[0], code, out.String())
		}
		for _, want := range []string{
			`bad.yaml:6:17: step "probe": param "url": expected http://HOST`, `bad.yaml:6:40: step "probe": param "body_match": `, `bad.yaml:7:37: step "typo": `,
		} {
			if !strings.Contains(errs.String(), want) {
				t.Errorf("%s lacks %q:\n%s", args[0], want, errs.String())
			}
		}
	}
	if err := host.Close(); err != nil {
		t.Error(err)
	}
	if <-contacted {
		t.Error("a host was contacted")
	}
	var out, errs bytes.Buffer
	if code := Main([]string{"validate", filepath.Join(dir, "empty/playbooks/good.yaml")}, strings.NewReader(""), &out, &errs); code != console.ExitOK {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}
