// Package keyview shows host keys to people and programs: those that hosts have, those that were
// accepted or refused, and an inventory that pins them.
//
// It must not know how hosts are scanned, nor flags.
package keyview

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/turnus/turnus/cmd/turnus/console"
	"github.com/turnus/turnus/cmd/turnus/runview"
	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/api"
	"github.com/turnus/turnus/core/hostkeys"
	"github.com/turnus/turnus/core/transport"
)

// keyView is a key in JSON.
type keyView struct {
	Type        string             `json:"type"`
	Fingerprint string             `json:"fingerprint"`
	State       transport.KeyState `json:"state"`
	CA          string             `json:"ca,omitempty"` // fingerprint
	Was         []string           `json:"was,omitempty"`
	Reason      string             `json:"reason,omitempty"`
	SSHFP       string             `json:"sshfp,omitempty"` // "match", or why DNS does not vouch for the key
}

// hostView is a scanned host in JSON.
type hostView struct {
	Host  string    `json:"host"`
	Name  string    `json:"known_hosts_name,omitempty"`
	Keys  []keyView `json:"keys"`
	Error string    `json:"error,omitempty"`
	SSHFP string    `json:"sshfp_error,omitempty"` // why DNS vouches for no key
}

// vouched adds the result of DNS for each key.
func (v *hostView) vouched(r hostkeys.Result, says hostkeys.Vouch) {
	if says.Err != nil {
		v.SSHFP = says.Err.Error()
		return
	}
	for i, k := range r.Keys {
		v.Keys[i].SSHFP = "match"
		if err := says.Key(k.Key); err != nil {
			v.Keys[i].SSHFP = err.Error()
		}
	}
}

func viewOf(r hostkeys.Result) hostView {
	v := hostView{Host: r.Host.Name, Name: r.Name, Keys: []keyView{}}
	if r.Err != nil {
		v.Error = r.Err.Error()
	}
	for _, k := range r.Keys {
		key := keyView{Type: k.Key.Type(), Fingerprint: ssh.FingerprintSHA256(k.Key), State: k.State}
		if k.CA != nil {
			key.CA = ssh.FingerprintSHA256(k.CA)
		}
		for _, old := range k.Was {
			key.Was = append(key.Was, ssh.FingerprintSHA256(old))
		}
		if k.Err != nil {
			key.Reason = reasonOf(k.Err)
		}
		v.Keys = append(v.Keys, key)
	}
	return v
}

// reasonOf returns the cause of a transport error: the host's name stands beside it.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*transport.Error](err); ok {
		return e.Err.Error()
	}
	return err.Error()
}

// text is the state of a key for people.
func (k keyView) text(con *console.Console) string {
	var said []string
	switch k.State {
	case transport.KeyChanged:
		said = append(said, con.Paint(console.Red, "CHANGED")+", known is "+strings.Join(k.Was, ", "))
	case transport.KeyRefused:
		said = append(said, con.Paint(console.Red, "REFUSED")+", "+k.Reason)
	default:
		said = append(said, string(k.State))
	}
	if k.CA != "" {
		said = append(said, "signed by CA "+k.CA)
	}
	switch k.SSHFP {
	case "":
	case "match":
		said = append(said, "SSHFP matches")
	default:
		said = append(said, con.Paint(console.Red, "SSHFP")+": "+k.SSHFP)
	}
	return strings.Join(said, ", ")
}

// duplicateView is a key that several machines showed.
type duplicateView struct {
	Fingerprint string   `json:"fingerprint"`
	Hosts       []string `json:"hosts"`
}

// Scanned prints scanned hosts, and returns the exit code; strict is that of check. vouches are
// the answers of DNS for list; nil without them. inventory is the argument that names the hosts.
func Scanned(con *console.Console, list []hostkeys.Result, vouches []hostkeys.Vouch, inventory string, strict bool) error {
	var hosts []hostView
	duplicates := []duplicateView{}
	bad, unknown, unverified, unreachable, unproved := 0, 0, 0, 0, 0
	for i, r := range list {
		hosts = append(hosts, viewOf(r))
		if vouches != nil && r.Err == nil {
			hosts[i].vouched(r, vouches[i])
			if !vouches[i].Proved(r) {
				unproved++
			}
		}
		switch {
		case r.Err != nil:
			unreachable++
		case r.Has(transport.KeyChanged), r.Has(transport.KeyRefused):
			bad++
		case !r.Proved():
			unknown++
			if r.Has(transport.KeyUnverified) {
				unverified++
			}
		}
	}
	for _, d := range hostkeys.Duplicates(list) {
		duplicates = append(duplicates, duplicateView{ssh.FingerprintSHA256(d.Key), d.Hosts})
	}
	code := console.ExitOK
	switch {
	case bad > 0, unproved > 0, strict && unknown > 0:
		code = console.ExitFailed
	case unreachable > 0:
		code = console.ExitUnreachable
	}
	if con.Output == "json" {
		if hosts == nil {
			hosts = []hostView{}
		}
		if err := console.PrintJSON(con.Out, map[string]any{"hosts": hosts, "duplicates": duplicates, "exit_code": code}); err != nil {
			return err
		}
		return exitWith(code)
	}
	printKeys(con, hosts, duplicates)
	fmt.Fprintf(con.Out, "%s: %d known, %d new, %d changed or refused, %d unreachable\n",
		core.Plural(len(list), "host"), len(list)-bad-unknown-unreachable, unknown-unverified, bad, unreachable)
	if unverified > 0 {
		fmt.Fprintf(con.Out, "%s with an unverified key, pinned at the first contact\n", core.Plural(unverified, "host"))
	}
	if unproved > 0 {
		fmt.Fprintf(con.Out, "%s without proof by SSHFP records\n", core.Plural(unproved, "host"))
	}
	switch {
	case bad > 0:
		con.Message("hint: a changed key may be an attack. First compare it with the host's console: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub")
	case unknown > 0:
		con.Message("hint: compare with the host's console (ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then:\n" +
			"  turnus hostkeys accept " + inventory + " HOST SHA256:…")
	}
	return exitWith(code)
}

// Reported judges the keys that the jobs of a run of a server collected of hosts.
func Reported(pool *transport.Pool, hosts []core.Host, jobs []api.Job) []hostkeys.Result {
	reports := map[string]hostkeys.Report{}
	for _, j := range jobs {
		switch {
		case j.Outcome.Good() && len(j.Steps) > 0:
			reports[j.Host] = hostkeys.Report{Outputs: j.Steps[0].Outputs}
		case j.Reason != "":
			reports[j.Host] = hostkeys.Report{Err: errors.New(j.Reason)}
		default:
			reports[j.Host] = hostkeys.Report{Err: fmt.Errorf("run %s has no keys of it: turnus runs show %[1]s --jobs", j.Run)}
		}
	}
	return hostkeys.Reported(pool, hosts, reports)
}

// exitWith returns an exit code as an error without a text.
func exitWith(code int) error {
	if code == console.ExitOK {
		return nil
	}
	return &console.Exit{Code: code}
}

// keyNames is the longest text for the hosts of a key, in bytes.
const keyNames = 60

// printKeys prints the keys of hosts, hosts with the same key in one line; then the hosts that
// showed none, equal reasons together as after a run.
func printKeys(con *console.Console, hosts []hostView, duplicates []duplicateView) {
	var order [][3]string
	of := map[[3]string][]string{}
	for _, h := range hosts {
		for _, k := range h.Keys {
			id := [3]string{k.Type, k.Fingerprint, k.text(con)}
			if of[id] == nil {
				order = append(order, id)
			}
			of[id] = append(of[id], h.Host)
		}
	}
	rows := [][]string{{"HOST", "KEY", "FINGERPRINT", "STATE"}}
	for _, id := range order {
		names := of[id][0]
		if len(of[id]) > 1 {
			names = runview.FoldHosts(of[id], keyNames)
		}
		rows = append(rows, []string{names, id[0], id[1], id[2]})
	}
	if len(rows) > 1 {
		console.Table(con.Out, rows)
	}
	var failures []api.Result // 300 equal failures are one line
	for _, h := range hosts {
		switch {
		case h.Error != "":
			failures = append(failures, api.Result{Host: h.Host, Outcome: core.Unreachable, Reason: h.Error})
		case h.SSHFP != "":
			failures = append(failures, api.Result{Host: h.Host, Outcome: core.Failed, Reason: h.SSHFP})
		}
	}
	runview.WriteReasons(con, con.Out, failures)
	for _, d := range duplicates {
		fmt.Fprintf(con.Out, "%s: %s is the key of %s, %s: each of them can pass for the others\n",
			con.Paint(console.Yellow, "DUPLICATE"), d.Fingerprint, core.Plural(len(d.Hosts), "host"), runview.FoldHosts(d.Hosts, 160))
	}
}

// decisionView is a decision in JSON.
type decisionView struct {
	Host        string `json:"host"`
	Name        string `json:"known_hosts_name,omitempty"`
	Type        string `json:"type,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Accepted    bool   `json:"accepted"`
	Reason      string `json:"reason,omitempty"`
}

// Decisions prints what was accepted and refused, and returns the exit code.
func Decisions(con *console.Console, list []hostkeys.Decision) error {
	code := console.ExitOK
	views := []decisionView{}
	for _, d := range list {
		v := decisionView{Host: d.Host.Name, Name: d.Name, Fingerprint: d.Fingerprint, Accepted: d.Accepted, Reason: d.Why}
		if d.Key != nil {
			v.Type = d.Key.Type()
		}
		if !d.Accepted {
			code = console.ExitFailed
		}
		views = append(views, v)
	}
	if con.Output == "json" {
		if err := console.PrintJSON(con.Out, map[string]any{"keys": views, "exit_code": code}); err != nil {
			return err
		}
		return exitWith(code)
	}
	accepted := 0
	for _, v := range views {
		if v.Accepted {
			accepted++
			fmt.Fprintf(con.Out, "accepted  %s %s %s\n", v.Host, v.Type, v.Fingerprint)
		}
	}
	var without []api.Result // hosts of which no key could be judged, equal reasons together
	for _, v := range views {
		switch {
		case v.Accepted:
		case v.Fingerprint == "":
			without = append(without, api.Result{Host: v.Host, Outcome: core.Failed, Reason: v.Reason})
		default:
			fmt.Fprintf(con.Out, "%s   %s %s: %s\n", con.Paint(console.Red, "refused"), v.Host, v.Fingerprint, v.Reason)
		}
	}
	runview.WriteReasons(con, con.Out, without)
	fmt.Fprintf(con.Out, "%s accepted, %d refused\n", core.Plural(accepted, "key"), len(views)-accepted)
	return exitWith(code)
}

// Pins prints an inventory of the accepted keys; what was refused goes to stderr.
func Pins(con *console.Console, list []hostkeys.Decision) error {
	code := console.ExitOK
	hosts := map[string]any{}
	for host, keys := range hostkeys.Pins(list) {
		hosts[host] = map[string]any{"host_key": keys}
	}
	for _, d := range list {
		if !d.Accepted {
			code = console.ExitFailed
			con.Message(fmt.Sprintf("%s %s %s: %s", con.Paint(console.Red, "refused"), d.Host.Name, d.Fingerprint, d.Why))
		}
	}
	if con.Output == "json" {
		if err := console.PrintJSON(con.Out, map[string]any{"hosts": hosts}); err != nil {
			return err
		}
		return exitWith(code)
	}
	text, err := console.YAMLText(map[string]any{"hosts": hosts})
	if err != nil {
		return err
	}
	fmt.Fprint(con.Out, text)
	return exitWith(code)
}

// Progress shows on a terminal how many hosts a scan has asked, until stop.
func Progress(con *console.Console, total int, asked func() int) (stop func()) {
	if !con.Live {
		return func() {}
	}
	moving := con.NewMoving()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer moving.Close()
		tick := time.NewTicker(scanRedraw)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
				moving.Draw([]string{fmt.Sprintf("scan: %d of %s", asked(), core.Plural(total, "host"))})
			}
		}
	})
	return sync.OnceFunc(func() {
		close(done)
		wg.Wait()
	})
}

// scanRedraw is the time between two states of a scan on the terminal.
const scanRedraw = 200 * time.Millisecond
