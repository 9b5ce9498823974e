// Package firewall owns the job type firewall.push: one nftables table of a host is replaced,
// proven over a fresh connection, and put back by the host itself unless that proof arrives in
// time. It imports only the sdk.
package firewall

import (
	"context"
	"fmt"
	"net/netip"
	"path"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/outward"
)

// Params is the with: of a push.
type Params struct {
	Ruleset        string       `json:"ruleset,omitempty" turnus:"min=1" jsonschema:"the table, in nft's own syntax: define lines and blocks of the one table; either this or artifact"`
	Artifact       string       `json:"artifact,omitempty" turnus:"min=1,file" jsonschema:"the same as a file relative to the playbook, or its digest"`
	SHA256         string       `json:"sha256,omitempty" turnus:"pattern=^[0-9a-f]{64}$" jsonschema:"of the artifact; another content is refused"`
	Mode           string       `json:"mode,omitempty" turnus:"default=replace,enum=replace|widen|narrow" jsonschema:"replace: the ruleset is what is live afterwards; widen: what the live table or the ruleset lets through is let through; narrow: the ruleset alone, on a host that was widened to it"`
	Table          string       `json:"table,omitempty" turnus:"default=inet turnus,pattern=^(ip|ip6|inet|arp|bridge|netdev) [A-Za-z_][A-Za-z0-9_.-]{0,60}$" jsonschema:"family and name of the table that is replaced; no other table is touched"`
	ConfirmTimeout sdk.Duration `json:"confirm_timeout,omitempty" turnus:"default=60s" jsonschema:"unless the push is proven within this time, the host restores its old table; at least three times connect_timeout"`
	ConnectTimeout sdk.Duration `json:"connect_timeout,omitempty" turnus:"default=10s" jsonschema:"longest that one new connection, or one probe, may take"`
	Probes         []Probe      `json:"probes,omitempty" turnus:"max=32" jsonschema:"connections that must, or must not, work before the push is confirmed"`
	MgmtSources    []string     `json:"mgmt_sources,omitempty" turnus:"max=64" jsonschema:"addresses and networks that must reach SSH: a ruleset that surely drops one is refused before anything is done"`
	MgmtPort       int          `json:"mgmt_port,omitempty" turnus:"default=22,min=1,max=65535" jsonschema:"port of SSH for mgmt_sources"`
	OnDrift        string       `json:"on_drift,omitempty" turnus:"default=fail,enum=fail|overwrite|report" jsonschema:"when the live table is neither the wanted one nor the one pushed last: fail, overwrite it, or report and leave it alone"`
	Persist        string       `json:"persist,omitempty" turnus:"pattern=^(/.+)?$" jsonschema:"file that the host loads at boot; written after the push is confirmed. Empty: a reboot brings the old rules back"`
	StateDir       string       `json:"state_dir,omitempty" turnus:"default=/var/lib/turnus/firewall,pattern=^/" jsonschema:"folder of the host for the staged ruleset, the snapshot and the timer"`
}

// Probe is a TCP connection that proves a rule.
type Probe struct {
	From   string `json:"from,omitempty" turnus:"default=worker,enum=worker|host" jsonschema:"who connects"`
	To     string `json:"to" turnus:"required,min=1" jsonschema:"address or name"`
	Port   int    `json:"port" turnus:"required,min=1,max=65535" jsonschema:"TCP port"`
	Expect string `json:"expect,omitempty" turnus:"default=open,enum=open|closed" jsonschema:"closed: refused, or no answer"`
}

// Outputs of a push.
type Outputs struct {
	OldHash   string  `json:"old_hash" jsonschema:"canonical hash of the table before; empty when there was none"`
	NewHash   string  `json:"new_hash" jsonschema:"canonical hash of the wanted table"`
	Drift     bool    `json:"drift" jsonschema:"the live table was not the one pushed last"`
	Chains    int     `json:"chains" jsonschema:"of the wanted table"`
	Rules     int     `json:"rules" jsonschema:"of the wanted table"`
	Elements  int     `json:"elements" jsonschema:"of its named sets and maps"`
	Push      string  `json:"push,omitempty" jsonschema:"the push's folder under state_dir"`
	Persisted string  `json:"persisted,omitempty" jsonschema:"file that was written"`
	Proven    float64 `json:"proven_seconds,omitempty" jsonschema:"time of the new connection that confirmed"`
	Seconds   float64 `json:"seconds,omitempty" jsonschema:"from arming the timer to its end, by confirmation or by the host's own way back"`
}

// maxRuleset bounds what is sent to a host: a set of 100,000 elements fits.
const maxRuleset = 4 << 20

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad sdk.Problems
	if (p.Ruleset == "") == (p.Artifact == "") {
		bad.Add("", "expected one of ruleset and artifact")
	}
	if p.SHA256 != "" && p.Artifact == "" {
		bad.Add("/sha256", "sha256 goes with artifact")
	}
	if p.Ruleset != "" {
		if err := lint(p.Ruleset, p.Table); err != nil {
			bad.Add("/ruleset", "%w", err)
		}
	}
	connect, confirm := time.Duration(p.ConnectTimeout), time.Duration(p.ConfirmTimeout)
	if connect < 100*time.Millisecond || connect > 5*time.Minute {
		bad.Add("/connect_timeout", "expected between 100ms and 5m; found %s", p.ConnectTimeout)
	}
	if confirm < 3*connect || confirm < 3*time.Second || confirm > time.Hour {
		bad.Add("/confirm_timeout", "expected between three times connect_timeout, 3s at least, and 1h; found %s with a connect_timeout of %s", p.ConfirmTimeout, p.ConnectTimeout)
	}
	for i, s := range p.MgmtSources {
		if _, err := source(s); err != nil {
			bad.Add(fmt.Sprintf("/mgmt_sources/%d", i), "%w", err)
		}
	}
	for pointer, file := range map[string]string{"/persist": p.Persist, "/state_dir": p.StateDir} {
		if file != "" && (path.Clean(file) != file || file == "/" || strings.ContainsAny(file, "\n\x00")) {
			bad.Add(pointer, "expected a clean absolute path; found %q", file)
		}
	}
	return bad.Err()
}

// source reads an address or a network.
func source(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Masked() != p {
		return netip.Prefix{}, fmt.Errorf("expected an address or a network such as 192.0.2.0/24; found %q", text)
	}
	return p, nil
}

// folder has a table's pushes on the host. A table name has no slash.
func (p *Params) folder() string { return path.Join(p.StateDir, strings.ReplaceAll(p.Table, " ", "-")) }

// State is the state that must survive a crash of the worker. The truth is on the host; State has
// what to check there.
type State struct {
	Push string `json:"push"` // its folder on the host
	Old  string `json:"old"`  // canonical hash before
	New  string `json:"new"`  // canonical hash wanted
}

type runOf = sdk.Run[Params, State]

// Def is the job type. Its probes from the worker reach inner networks only where they are among
// reach.
func Def(reach ...netip.Prefix) sdk.Def {
	guard := &outward.Guard{Allow: reach, Refused: errInner}
	return sdk.Job("firewall.push", func(ctx context.Context, r *runOf) error { return run(ctx, r, guard) },
		sdk.Summary("Replace an nftables table; the host rolls it back unless it is proven in time"),
		sdk.Description(description),
		sdk.Idempotent(true), // a repeated push finds its own timer, or the wanted table, and continues from there
		sdk.OnLost("retry"),
		sdk.Check(),
		sdk.Disruptive(),
		sdk.Reverts(),
		sdk.StateVersion(1, nil),
		sdk.Outputs[Outputs](),
		sdk.Example("A table, kept over reboots", sdk.With{
			"ruleset": "table inet turnus {\n  chain input {\n    type filter hook input priority 0; policy drop;\n    ct state established,related accept\n" +
				"    iifname \"lo\" accept\n    ip saddr 192.0.2.0/24 tcp dport 22 accept\n  }\n}\n",
			"mgmt_sources": []string{"192.0.2.10"}, "persist": "/etc/nftables.d/turnus.nft",
		}),
		sdk.Example("A file of the repository, with probes", sdk.With{
			"artifact": "rules/branch.nft", "confirm_timeout": "2m",
			"probes": []sdk.With{
				{"from": "worker", "to": "192.0.2.80", "port": 443},
				{"from": "host", "to": "192.0.2.25", "port": 25, "expect": "closed"},
			},
		}),
	)
}

const description = `
Replaces one nftables table of the host as a whole, in one transaction. Other tables stay as they
are. The host must have root and nft with JSON. It also needs an empty network namespace (unshare
or ip netns; the guide explains hosts without one).

First it checks, in one round trip. It loads the ruleset in an empty network namespace on the host,
which finds mistakes that ` + "`nft -c`" + ` accepts, such as a jump loop. It checks it against the live
kernel. Then it compares it with the live table in canonical form: without handles, counters, and
elements that packets added to sets. Equal tables are ` + "`unchanged`" + `. A live table that differs from
the last push is drift: see ` + "`on_drift`" + `. Check mode ends here, with the difference.

Then it pushes:

1. The old table is kept as a file that is proven to load.
2. A timer is armed **on the host**, detached from the connection.
3. The new table is applied.
4. A new, authenticated connection must work, every probe must be as expected, and the live table
   must be the wanted one. Then the timer is disarmed, and the file for the next boot is written.

A probe from the worker reaches no address of the worker's own network: loopback, private and
link-local networks, and metadata addresses of clouds. The operator can open a network:
` + "`--plugin-allow http=10.1.2.0/24`" + ` of the worker.

Otherwise the host restores its old table within ` + "`confirm_timeout`" + `, without worker and plugin. The
step waits for that, proves the old table over a new connection, and ends as ` + "`rolled_back`" + `. Without
that proof it ends as ` + "`lost`" + `. A reboot in between also restores the old rules.

For a fleet, use two steps with a barrier between. ` + "`mode: widen`" + ` makes a table that accepts the
traffic of the live one and of the ruleset. ` + "`mode: narrow`" + ` applies the ruleset alone, and only
where it was widened. Some rules cannot be joined soundly: rules that change packets, sets with
timeouts, two chains at one hook, another nat. They are refused before any change.

The ruleset may contain define lines and blocks of the table, and no other statement.
` + "`flush ruleset`" + ` is refused because it deletes the tables of Docker and fail2ban; so are include and
commands. Use iifname instead of iif. A second push is refused while the timer of the first runs.
If the worker dies, the next one finds that timer. It confirms a proven table; otherwise it
restores the old one and starts again. A cancelled push is rolled back at its time.
`
