//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	goredis "github.com/redis/go-redis/v9"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/client"
	"github.com/turnus/turnus/core/secrets"
	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// tenSecrets are the values of S0 to S9. Marker is in no secret: it takes all the ways that they
// take, and the search has to find it at each place where it looks.
var tenSecrets = []string{
	"hunter2-Zq9/geheim", `p&ss "wort" <7>=+`, "48151623427", "-----BEGIN KEY-----\nMC4CAQAwBQYDK2VwBCIEIPzxq981\nhdhsuD2kdj3nVJKtE8wqY6Lm\n-----END KEY-----",
	"corréct-hørse-ßattery", "sealed by age, 5", "of-the-vault.6", "it's-the\\seventh", "aaaaaaaaaaaaaaaa", "https://hooks.example.org/T0/B1/xYz9",
}

const marker = "marker-nO/secret+0815"

// guardedSite is turnus up over Redis, with a host of real OpenSSH and secrets of every kind.
type guardedSite struct {
	*upSite
	seen *seen
	own  string // the file of a node that needs no definitions
	echo string // URL of a server that answers with what it is asked
}

func newGuardedSite(t *testing.T) *guardedSite {
	t.Helper()
	private, public := servers.NewSSHKey(t)
	sshd := servers.StartSSHD(t, servers.Authorize(public))
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis("--rdbcompression", "no")
	g := &guardedSite{upSite: &upSite{lab: l, data: filepath.Join(l.dir, "data")}, seen: newSeen(t)}
	for _, dir := range []string{"ops/playbooks", "scripts/leaky/1.0.0"} {
		if err := os.MkdirAll(filepath.Join(l.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	box := fmt.Sprintf("hosts:\n  box: {address: %s, port: %d, user: %s, host_key: %q}\n", sshd.Addresses[0], sshd.Port, sshd.User, servers.AuthorizedKey(sshd.HostKey))
	l.hosts = l.file("hosts.yaml", box)
	l.file("ops/inventory.yaml", box)
	g.sources(private)
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %v %s", r.URL, r.Header, body)
	}))
	t.Cleanup(echo.Close)
	g.echo = echo.URL
	g.scripts()
	g.playbooks()
	return g
}

// sources puts the secrets where they are: environment, files, commands, an age file of the tree, a
// Vault.
func (g *guardedSite) sources(key string) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		g.t.Fatal(err)
	}
	g.file("worker.age", identity.String()+"\n")
	encrypted, err := secrets.Encrypt([]byte(tenSecrets[5]), []string{identity.Recipient().String()})
	if err != nil {
		g.t.Fatal(err)
	}
	vault := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/v1/sys/internal/ui/mounts/"):
			_, _ = io.WriteString(w, `{"data":{"path":"kv/","type":"kv","options":{"version":"1"}}}`)
		case r.URL.Path == "/v1/kv/app":
			_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]string{"token": tenSecrets[6]}})
		default:
			_, _ = io.WriteString(w, "{}")
		}
	}))
	g.t.Cleanup(vault.Close)
	g.file("vault.token", "root\n")
	for i := range tenSecrets {
		g.file(fmt.Sprintf("s%d.txt", i), tenSecrets[i]+"\n")
	}
	g.env = append(g.env, "E2E_S0="+tenSecrets[0], "E2E_S8="+tenSecrets[8])
	tail := fmt.Sprintf("vault: {address: %q, token_file: vault.token, allow: [kv]}\n", vault.URL) + login(key)
	head := "secrets:\n  S0: {env: E2E_S0}\n  S1: {file: s1.txt}\n  S2: {command: cat s2.txt}\n  S3: {file: s3.txt}\n" +
		fmt.Sprintf("  S4: {command: [cat, %s/s4.txt]}\n  S7: {file: s7.txt}\n  S8: {env: E2E_S8}\n  S9: {command: [cat, %s/s9.txt]}\n", g.dir, g.dir)
	head = strings.Replace(head, "cat s2.txt", "cat "+g.dir+"/s2.txt", 1)
	tree := "  S5:\n    age: |\n      " + strings.ReplaceAll(strings.TrimSpace(encrypted), "\n", "\n      ") + "\n  S6: {vault: kv/app#token}\n"
	g.file("node.yaml", head+tail)
	g.own = g.file("own.yaml", head+tree+tail)
	g.file("ops/secrets.yaml", "recipients: ["+identity.Recipient().String()+"]\nsecrets:\n"+tree)
}

// scripts is a plugin of sh that gives its secrets away, and ends badly with them as its last
// words.
func (g *guardedSite) scripts() {
	g.file("scripts/leaky/1.0.0/plugin.yaml", "plugin: leaky\nversion: 1.0.0\ntypes:\n  - {type: leaky.tell, run: tell, summary: Tell, params: {value: {type: string, secret: true}}}\n")
	path := g.file("scripts/leaky/1.0.0/tell", `#!/bin/sh
for name in $TURNUS_STEP_SECRETS; do
  value=$(turnus-host secret "$name"; printf .); value=${value%.}
  printf '%s\n' "$value"
  printf '%s' "$value" | base64 >&2
  turnus-host exec --secret "$name" "printf '%s\n' \"\$$name\""
done
printf '%s' "$value" | sed 's/[\\"]/\\&/g; s/.*/{"event":"output","name":"last","value":"&"}/'; echo
cat
turnus-host secret S0 >&2
exit 3
`)
	if err := os.Chmod(path, 0o700); err != nil {
		g.t.Fatal(err)
	}
}

func (g *guardedSite) playbooks() {
	all := "{S0: S0, S1: S1, S2: S2, S3: S3, S4: S4, S5: S5, S6: S6, S7: S7, S8: S8, S9: S9}"
	inform := `for v in "$S0" "$S1" "$S2" "$S3" "$S4" "$S5" "$S6" "$S7" "$S8" "$S9" "$M"; do printf '%s\n' "$v"; printf 'x%s' "$v" | base64; printf 'xx%s' "$v" | base64 >&2; printf %s "$v" | od -An -tx1; printf '%.3s' "$v"; [ "$v" = "$S0" ] && sleep 0.2; printf '%s\n' "${v#???}"; printf '%s\n' "$v" >&2; done`
	step := func(name, uses, rest string) string {
		return fmt.Sprintf("  - name: %s\n    uses: %s\n    continue_on_failure: true\n    secrets: %s\n%s", name, uses, all, rest)
	}
	with := func(pairs ...string) string {
		text := "    with:\n"
		for i := 0; i < len(pairs); i += 2 {
			value, _ := json.Marshal(pairs[i+1])
			text += fmt.Sprintf("      %s: %s\n", pairs[i], value)
		}
		return text
	}
	refs := ""
	for i := range tenSecrets {
		refs += fmt.Sprintf("s%d=${{ secrets.S%d }}\n", i, i)
	}
	mark := "    # the marker\n"
	env := fmt.Sprintf("      env: {M: %q}\n", marker)
	g.file("ops/playbooks/all.yaml", "playbook: all\ntargets: true\nvars: {m: \""+marker+"\"}\nsteps:\n"+
		step("told", "command", "    foreach: [1, 2]\n    retry: {attempts: 2, interval: 100ms}\n"+with("run", inform+"; exit 3")+env+mark)+
		step("script", "script", with("content", "#!/bin/sh\n"+inform+"\n")+env)+
		step("stdin", "command", with("run", "cat; cat /proc/self/cmdline /proc/$PPID/cmdline | tr '\\0' ' '; printf '%s' '"+marker+"'", "stdin", refs))+
		step("file", "file", with("path", g.dir+"/written", "content", refs+"m=${{ vars.m }}\n"))+
		"  - {name: later, uses: command, with: {run: \"cat "+g.dir+"/written\"}}\n"+
		step("http", "http", "    with:\n      url: \""+g.echo+"/?token=${{ secrets.S0 }}\"\n      from: host\n      method: POST\n      headers: {Authorization: \"Bearer ${{ secrets.S6 }}\", X: \"${{ vars.m }}\"}\n      body: \"${{ secrets.S1 }} ${{ secrets.S7 }}\"\n")+
		step("flood", "command", with("run", `i=0; while [ $i -lt 1500 ]; do printf '%s %s %s %s %s %s %s %s %s %s %s\n' "$S0" "$S1" "$S2" "$S3" "$S4" "$S5" "$S6" "$S7" "$S8" "$S9" "$M"; i=$((i+1)); done`)+env)+
		step("plugin", "lab.leak", with("how", "tell", "value", marker))+
		step("fails", "lab.leak", with("how", "fail", "value", "${{ secrets.S0 }}"))+
		step("state", "lab.keep", with("how", "tell"))+
		"  - {name: kept, uses: lab.keep, with: {how: tell, value: \""+marker+"\"}}\n"+
		step("exec", "leaky.tell", with("value", "${{ secrets.S4 }}")))
	for _, how := range []string{"panic", "abort"} {
		g.file("ops/playbooks/"+how+".yaml", "playbook: "+how+"\ntargets: true\nsteps:\n"+step(how, "lab.crash", with("how", how, "value", marker)))
	}
}

func (g *guardedSite) folders() []string {
	return append(g.pluginFlags(), "--plugins", filepath.Join(g.dir, "scripts"), "-v")
}

// drive runs a playbook to its end over the API, and records all that the API returns about it.
func (g *guardedSite) drive(c *client.Client, playbook string) {
	g.t.Helper()
	ctx := context.Background()
	var run api.Run
	var last error
	until(g.t, "run "+playbook+" to be accepted", func() bool {
		run, last = c.CreateRun(ctx, "k-"+playbook, api.NewRun{Playbook: playbook, LaunchOptions: api.LaunchOptions{Diff: true}})
		return last == nil
	})
	_ = c.Events(run.ID).Read(ctx, func(e api.Event) { g.seen.json("events", e) })
	finished(g.t, c, run.ID)
	id := core.JobID{Run: run.ID}
	run, err := c.Run(ctx, run.ID)
	if err != nil {
		g.t.Fatal(err)
	}
	job, err := c.Job(ctx, id)
	if err != nil {
		g.t.Fatal(err)
	}
	attempts, _ := c.Attempts(ctx, id)
	explained, _ := c.Explain(ctx, id)
	outputs, err := c.Outputs(ctx, id)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, answer := range []any{run, job, attempts, explained, outputs} {
		g.seen.json("api", answer)
	}
	for _, o := range outputs.Items {
		body, err := c.Output(ctx, id, o.Name)
		if err != nil {
			g.t.Fatal(err)
		}
		text, _ := io.ReadAll(body)
		_ = body.Close()
		g.seen.text("api", string(text))
	}
	text, _ := json.Marshal(job)
	switch playbook {
	case "all":
		if run.Outcomes[core.Changed] != 1 || len(outputs.Items) == 0 {
			g.t.Fatalf("outcomes %v, %d outputs; %s", run.Outcomes, len(outputs.Items), tail(string(text)))
		}
		for _, want := range []string{"job type lab.keep holds the value of secret S", "[secret S9]", "it failed with [secret S0]"} {
			if !strings.Contains(string(text), want) {
				g.t.Errorf("the job does not have %q: %s", want, tail(string(text)))
			}
		}
	default:
		if run.Outcomes[core.Lost] != 1 || strings.Contains(string(text), "core dumped") {
			g.t.Errorf("%s: %v; %s", playbook, run.Outcomes, text)
		}
	}
}

// poll takes in what a Redis has: live, and in its files.
func (s *redisServer) poll(seen *seen) {
	s.t.Helper()
	ctx := context.Background()
	c := s.admin()
	if err := c.Save(ctx).Err(); err != nil {
		s.t.Fatal(err)
	}
	keys := c.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		dump, err := c.Dump(ctx, keys.Val()).Result()
		if err != nil && !errors.Is(err, goredis.Nil) {
			s.t.Fatal(err)
		}
		seen.text("redis live", keys.Val()+dump)
	}
	dir, err := c.ConfigGet(ctx, "dir").Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, name := range []string{"dump.rdb", "appendonlydir"} {
		if found, _ := filepath.Glob(filepath.Join(dir["dir"], name)); len(found) == 0 {
			s.t.Fatalf("Redis has no %s in %s", name, dir["dir"])
		}
	}
	seen.files("redis files", dir["dir"])
}
