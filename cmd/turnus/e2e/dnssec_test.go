//go:build linux && labs

package e2e

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/turnus/turnus/core/testparts/servers"
	"github.com/turnus/turnus/core/transport/fleet"
)

// A KSK roll of a real signer survives its workers: one is killed as the new key appears, another
// as the old DS goes, and the next one continues. One key is made, and the validator never fails.
func TestLabDNSSECRollSurvivesItsWorkers(t *testing.T) {
	t.Parallel()
	d := servers.NewDNS(t)
	private, public := servers.NewSSHKey(t)
	sshd := servers.StartSSHD(t, servers.SSHDAddress(d.Net.Address), servers.Authorize(public), servers.Inside(22, d.Net.Prefix()...))
	l := newLab(t, fleet.Config{Hosts: 1}).withRedis()
	l.hosts = l.file("hosts.yaml", fmt.Sprintf("hosts:\n  signer: {address: %s, user: %s, host_key: %q}\n", d.Net.Address, sshd.User, servers.AuthorizedKey(sshd.HostKey)))
	l.file("logins.yaml", login(private))
	playbook := l.playbook("ksk", fmt.Sprintf("{uses: dnssec.rollover, with: {zone: %s, key: ksk, validators: [%s], safety_factor: 1, grace: 2m, poll: 1s, state_dir: %s, "+
		"parent: {method: nsupdate, server: %s, tsig: %s, within: 2m}, signer: {config: %s, rndc_conf: %s, address: %s}}}",
		servers.Zone, servers.Resolver, d.Path("state"), servers.Parent, d.Path("registry.key"), d.Path("child/named.conf"), d.Path("rndc.conf"), servers.Child))
	old := d.KSK()
	probes := d.Probe()
	worker := l.worker()
	run := l.run("-o", "json", playbook)
	for _, at := range []struct {
		what string
		seen func() bool
	}{
		{"the new key", func() bool { return d.Made("ksk") == 2 }},
		{"the old DS to go", func() bool { return !slices.Contains(d.Delegation(), old) }},
	} {
		until(t, at.what, func() bool { return at.seen() || !run.running() })
		worker.kill()
		worker = l.worker()
	}
	run.wants(0)
	if n := probes.Stop(); n.ServFail > 0 || n.Answered < 20 {
		t.Errorf("the validator's answers: %+v", n)
	}
	if keys := d.Keys("ksk"); len(keys) != 1 || keys[0] == old || d.Made("ksk") != 2 || !slices.Equal(d.Delegation(), keys) {
		t.Errorf("KSK %v of %d that were made, DS %v; the old one was %s", keys, d.Made("ksk"), d.Delegation(), old)
	}
	if _, err := os.Stat(d.Path("state") + "/" + servers.Zone + "/evidence.json"); err != nil {
		t.Error(err)
	}
}
