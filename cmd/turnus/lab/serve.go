package lab

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/turnus/turnus/core"
	"github.com/turnus/turnus/core/securefile"
	"github.com/turnus/turnus/core/transport/fleet"
)

// groups are those of each ten hosts.
var groups = [...]string{"web", "web", "db", "web", "web", "dns", "web", "fw", "web", "db"}

// nameOf returns the name and the group of host n, from 0: web1, web2, db1, web3 and so on.
func nameOf(n int) (name, group string) {
	group = groups[n%len(groups)]
	before, each := 0, 0
	for i, g := range groups {
		if g == group {
			each++
			if i <= n%len(groups) {
				before++
			}
		}
	}
	return fmt.Sprintf("%s%d", group, n/len(groups)*each+before), group
}

// faultOf returns a way to break a host.
func faultOf(how string) (fleet.Profile, bool) {
	p := fleet.Profile{Kind: how}
	switch how {
	case "ok":
	case "slow":
		p.Latency = time.Second
	case "dead":
		p.Silent = true
	case "newkey":
		p.ChangedKey = true
	case "full-disk":
		p.FullDisk = true
	default:
		return p, false
	}
	return p, true
}

// ways are the words that break takes.
func ways() []string { return []string{"slow", "dead", "newkey", "full-disk"} }

// serve runs the lab in this process until a signal or turnus lab down.
func (v *verbs) serve(ctx context.Context, f *folder, hosts int) (err error) {
	ctx, release := v.Interruptible(ctx)
	defer release()
	lock, err := f.hold()
	if err != nil {
		return err
	}
	var asked net.Conn // by turnus lab down
	defer func() {
		err = errors.Join(err, f.clean(), lock.Close())
		if asked != nil {
			_ = json.NewEncoder(asked).Encode(reply{}) // the client may have left
			_ = asked.Close()
		}
	}()
	if err := f.clean(); err != nil {
		return err
	}
	fl, err := f.startHosts(ctx, hosts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fl.Close()) }()
	socket, err := f.listen(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = socket.Close() }() // it may be closed by the end of ctx
	r := &room{f: f, fleet: fl, started: time.Now()}
	if err := v.show(r.lab()); err != nil {
		return err
	}
	asked = control(ctx, socket, r.answer)
	return nil
}

// startHosts starts the fleet and writes the files by which clients reach it. Keys of hosts are new
// each time.
func (f *folder) startHosts(ctx context.Context, hosts int) (*fleet.Fleet, error) {
	var seed [8]byte
	_, _ = rand.Read(seed[:]) // never fails
	fl, err := fleet.Start(ctx, fleet.Config{
		Hosts: hosts, Seed: binary.BigEndian.Uint64(seed[:]), KeyDir: f.path,
		Name: func(n int) string { name, _ := nameOf(n); return name },
	})
	if err != nil {
		return nil, err
	}
	for file, text := range map[string]string{
		inventoryFile: inventoryText(fl.Hosts(), fl.IdentityFile()), knownHostsFile: knownHostsText(fl.Hosts()),
	} {
		if err := securefile.Replace(filepath.Join(f.path, file), []byte(text), 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("write the lab's files: %w", err), fl.Close())
		}
	}
	return fl, nil
}

// inventoryText is an inventory of the hosts that pins their keys.
func inventoryText(hosts []core.Host, key string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# The hosts of turnus lab, until turnus lab down.\ndefaults: {user: %s, port: %d%s}\ngroups:\n", hosts[0].SSH.User, hosts[0].SSH.Port, identity(key))
	members := map[string][]string{}
	for n, h := range hosts {
		_, group := nameOf(n)
		members[group] = append(members[group], h.Name)
	}
	for _, group := range []string{"web", "db", "dns", "fw"} {
		if len(members[group]) > 0 {
			fmt.Fprintf(&b, "  %s: {hosts: [%s]}\n", group, strings.Join(members[group], ", "))
		}
	}
	b.WriteString("hosts:\n")
	for _, h := range hosts {
		fmt.Fprintf(&b, "  %s: {address: %s, port: %d, host_key: %q}\n", h.Name, h.Address, h.SSH.Port, h.SSH.HostKeys[0])
	}
	return b.String()
}

// knownHostsText is the same keys for other clients.
func knownHostsText(hosts []core.Host) string {
	var b strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&b, "%s %s\n", knownhosts.Normalize(fmt.Sprintf("%s:%d", h.Address, h.SSH.Port)), h.SSH.HostKeys[0])
	}
	return b.String()
}

// room is the lab of this process, as requests see it.
type room struct {
	f       *folder
	fleet   *fleet.Fleet
	started time.Time
}

func (r *room) lab() Lab {
	l := Lab{
		PID: os.Getpid(), Started: r.started,
		Inventory: filepath.Join(r.f.path, inventoryFile), KnownHosts: filepath.Join(r.f.path, knownHostsFile),
	}
	for n, h := range r.fleet.Hosts() {
		p, _ := r.fleet.Profile(h.Name)
		_, group := nameOf(n)
		l.Hosts = append(l.Hosts, Host{Name: h.Name, Group: group, Address: h.Address, Port: h.SSH.Port, State: p.Kind})
	}
	return l
}

// answer does what a request asks, on all hosts if it names none.
func (r *room) answer(q request) reply {
	l := r.lab()
	if q.Do != "break" {
		return reply{Lab: l}
	}
	p, ok := faultOf(q.How)
	if !ok {
		return reply{Problem: fmt.Sprintf("break hosts: %q: expected one of: %s", q.How, strings.Join(ways(), ", "))}
	}
	for _, name := range q.Hosts {
		if !slices.ContainsFunc(l.Hosts, func(h Host) bool { return h.Name == name }) {
			return reply{Problem: unknownHost(name, l.Hosts)}
		}
	}
	for _, h := range l.Hosts {
		if len(q.Hosts) == 0 || slices.Contains(q.Hosts, h.Name) {
			if err := r.fleet.SetProfile(h.Name, p); err != nil {
				return reply{Problem: err.Error()}
			}
		}
	}
	return reply{Lab: r.lab()}
}
