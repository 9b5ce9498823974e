// Package dnssec owns the job type dnssec.rollover: a zone's ZSK or KSK is rolled by its signer,
// phase by phase over days, each phase observing DNS before it continues. It imports only the sdk.
package dnssec

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// Params is the with: of a rollover. The job's host is the signer.
type Params struct {
	Zone         string       `json:"zone" turnus:"required,pattern=^([A-Za-z0-9_-]{1,63}\\.)*[A-Za-z0-9_-]{1,63}\\.?$" jsonschema:"the zone whose key is rolled"`
	Key          string       `json:"key" turnus:"required,enum=zsk|ksk" jsonschema:"which key: the one that signs the zone, or the one that the parent's DS names"`
	Action       string       `json:"action,omitempty" turnus:"default=roll,enum=roll|abort" jsonschema:"abort: take the parent back to the old key, where that is still safe, and stop"`
	Driver       string       `json:"driver,omitempty" turnus:"default=bind,enum=bind" jsonschema:"the signer's software: BIND 9.18 or later with dnssec-policy"`
	OldTag       int          `json:"old_tag,omitempty" turnus:"min=1,max=65535" jsonschema:"tag of the key that goes; needed only to continue with a roll that an earlier run began"`
	Validators   []string     `json:"validators" turnus:"required,min=1,max=16" jsonschema:"addresses of validating resolvers, as the signer reaches them (192.0.2.53, or 192.0.2.53#5353): they must call the zone secure"`
	Servers      []string     `json:"servers,omitempty" turnus:"max=64" jsonschema:"addresses of all servers of the zone; by default those of its NS records"`
	Parent       Parent       `json:"parent,omitzero" jsonschema:"how the DS comes to the parent; for ksk only"`
	SafetyFactor float64      `json:"safety_factor,omitempty" turnus:"default=1.5,min=1,max=10" jsonschema:"how many times the TTL and the delays are waited for before a DS is withdrawn, and before something counts as overdue"`
	Grace        sdk.Duration `json:"grace,omitempty" turnus:"default=1h" jsonschema:"how much later than expected something may be before a person is called"`
	Poll         sdk.Duration `json:"poll,omitempty" turnus:"default=1m" jsonschema:"between two polls of an expected state"`
	Signer       Signer       `json:"signer,omitzero" jsonschema:"places of files on the signer"`
	StateDir     string       `json:"state_dir,omitempty" turnus:"default=/var/lib/turnus/dnssec,pattern=^/" jsonschema:"folder of the signer for the records of rolls: one roll a zone, never parent and child at the same time"`
}

// Parent is the other side of the delegation.
type Parent struct {
	Method string       `json:"method,omitempty" turnus:"default=manual,enum=cds|nsupdate|manual" jsonschema:"cds: the parent itself reads CDS; nsupdate: a dynamic update from the signer; manual: a person does it, and is notified what to do"`
	NS     []string     `json:"ns,omitempty" turnus:"max=64" jsonschema:"addresses of all servers of the parent; by default those of its NS records"`
	Server string       `json:"server,omitempty" turnus:"min=1" jsonschema:"for nsupdate: address that takes updates"`
	TSIG   string       `json:"tsig,omitempty" turnus:"pattern=^/" jsonschema:"for nsupdate: file on the signer with the key, as tsig-keygen makes it"`
	Within sdk.Duration `json:"within,omitempty" turnus:"default=72h" jsonschema:"how long the parent may take before a person is called"`
}

// Signer defines where BIND's things are.
type Signer struct {
	Config   string `json:"config,omitempty" turnus:"default=/etc/bind/named.conf,pattern=^/" jsonschema:"named.conf; the policy and the key directory are read from it"`
	RNDCConf string `json:"rndc_conf,omitempty" turnus:"pattern=^(/.+)?$" jsonschema:"rndc's configuration; empty: its own default"`
	View     string `json:"view,omitempty" turnus:"pattern=^[A-Za-z0-9_.-]*$" jsonschema:"the view in which the zone is signed"`
	Address  string `json:"address,omitempty" turnus:"default=127.0.0.1,min=1" jsonschema:"where BIND answers on the signer, and lets the zone be transferred"`
	TSIG     string `json:"tsig,omitempty" turnus:"pattern=^/" jsonschema:"file on the signer with the key for the transfer, where one is needed"`
}

// Outputs of a rollover.
type Outputs struct {
	OldTag int    `json:"old_tag" jsonschema:"tag of the key that went"`
	NewTag int    `json:"new_tag" jsonschema:"tag of the key that came"`
	DS     string `json:"ds,omitempty" jsonschema:"DS of the new key"`
}

// evidence is the observation at the end of a phase.
type evidence struct {
	Phase string    `json:"phase"`
	From  time.Time `json:"from"`
	At    time.Time `json:"at"`
	Seen  []string  `json:"seen"`
}

// fill gives the defaults of objects that were left out as a whole.
func (p *Params) fill() {
	p.Zone = plain(p.Zone)
	p.Parent.Method = cmp.Or(p.Parent.Method, "manual")
	if p.Parent.Within == 0 {
		p.Parent.Within = sdk.Duration(72 * time.Hour)
	}
	p.Signer.Config = cmp.Or(p.Signer.Config, "/etc/bind/named.conf")
	p.Signer.Address = cmp.Or(p.Signer.Address, "127.0.0.1")
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	p.fill()
	var bad sdk.Problems
	blameAddress := func(pointer, a string) {
		if !isAddress(a) {
			bad.Add(pointer, "expected an IP address, or one with a port such as 192.0.2.53#5353; found %q", a)
		}
	}
	if len(p.Zone) > 253 {
		bad.Add("/zone", "expected a name of at most 253 characters")
	}
	if strings.HasPrefix(p.Zone, "-") { // an option of dig and rndc
		bad.Add("/zone", "expected a name that does not begin with a dash; found %q", p.Zone)
	}
	for pointer, list := range map[string][]string{"/validators": p.Validators, "/servers": p.Servers, "/parent/ns": p.Parent.NS} {
		for i, a := range list {
			blameAddress(fmt.Sprintf("%s/%d", pointer, i), a)
		}
	}
	blameAddress("/signer/address", p.Signer.Address)
	if p.Parent.Server != "" {
		blameAddress("/parent/server", p.Parent.Server)
	}
	for pointer, file := range map[string]string{"/parent/tsig": p.Parent.TSIG, "/signer/config": p.Signer.Config, "/signer/rndc_conf": p.Signer.RNDCConf, "/signer/tsig": p.Signer.TSIG, "/state_dir": p.StateDir} {
		if file != "" && (path.Clean(file) != file || file == "/" || strings.ContainsAny(file, "\n\x00")) {
			bad.Add(pointer, "expected a clean absolute path; found %q", file)
		}
	}
	if p.Parent.Method == "nsupdate" && (p.Parent.Server == "" || p.Parent.TSIG == "") {
		bad.Add("/parent", "nsupdate needs server and tsig")
	}
	if p.Poll < sdk.Duration(100*time.Millisecond) {
		bad.Add("/poll", "expected at least 100ms; found %s", p.Poll)
	}
	if p.Key == "zsk" && p.Action == "abort" {
		bad.Add("/action", "a zsk roll needs nothing of the parent and cannot be rolled back: BIND finishes it")
	}
	return bad.Err()
}

func isAddress(text string) bool {
	ip, port, given := strings.Cut(text, "#")
	if given {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	a, err := netip.ParseAddr(ip)
	return err == nil && (a.Zone() == "" || linkName().MatchString(a.Zone())) // which netip takes as it comes, line ends and all
}

var linkName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,31}$`) })

// State is the state that survives between the phases. The truth is DNS, the signer's state files
// and the record beside them; State saves reading them again, and has the times. When it is lost,
// waits begin again, which is safe.
type State struct {
	Phase string    `json:"phase"`
	Of    string    `json:"of,omitempty"`    // the phase that Since is of
	Since time.Time `json:"since,omitzero"`  // by the signer's clock, as all times
	Old   int       `json:"old,omitempty"`   // never determined again: that would start a second roll
	New   int       `json:"new,omitempty"`   // once it is there
	NewDS ds        `json:"new_ds,omitzero"` // of ksk

	Policy   policy        `json:"policy,omitzero"`
	ServedDS time.Duration `json:"served_ds,omitempty"` // TTL of the DS at the parent
	Proven   time.Time     `json:"proven,omitzero"`     // the new DS is everywhere
	Gone     time.Time     `json:"gone,omitzero"`       // the old DS is nowhere
	Back     string        `json:"back,omitempty"`      // why the parent goes back to the old DS
	Away     bool          `json:"away,omitempty"`      // the old DS was away, and came back
	Touched  bool          `json:"touched,omitempty"`   // something was changed

	Places   places     `json:"places,omitzero"`
	Evidence []evidence `json:"evidence,omitempty"`
}

type (
	runOf = sdk.Run[Params, State]
	phase = sdk.Phase[Params, State]
)

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("dnssec.rollover", run,
		sdk.Summary("Roll a zone's ZSK or KSK, phase by phase, as DNS shows that it is safe"),
		sdk.Description(description),
		sdk.Idempotent(true), // a repeated call finds the roll's record on the signer, and its keys' states
		sdk.OnLost("retry"),
		sdk.Check(),
		sdk.StateVersion(1, nil),
		sdk.Outputs[Outputs](),
		sdk.Example("The key that signs the zone", sdk.With{"zone": "example.org", "key": "zsk", "validators": []string{"192.0.2.53"}}),
		sdk.Example("The key that the parent names, with a DS by dynamic update", sdk.With{
			"zone": "cust.example.org", "key": "ksk", "validators": []string{"192.0.2.53", "198.51.100.53"},
			"parent": sdk.With{"method": "nsupdate", "server": "192.0.2.1", "tsig": "/etc/bind/parent.key"},
		}),
		sdk.Example("Stop, and take the parent back to the old key", sdk.With{
			"zone": "cust.example.org", "key": "ksk", "action": "abort", "validators": []string{"192.0.2.53"},
			"parent": sdk.With{"method": "nsupdate", "server": "192.0.2.1", "tsig": "/etc/bind/parent.key"},
		}),
	)
}

const description = `
Rolls one key of a zone that BIND signs by ` + "`dnssec-policy`" + `. The job's host is the signer. It needs
rndc, named-checkconf, dnssec-verify and dig, and for ` + "`nsupdate`" + ` the program nsupdate. The login
must be able to read named.conf and the key directory. All DNS queries come from the signer, so it
must reach the servers of the zone and of the parent, and the validators.

The roll takes hours to days. Between two polls the job is suspended. Its reason shows the awaited
state, since when, and until when. DNS and the signer's state files decide, on **every** address of
every server. No step relies on elapsed time, and no step is forced. An overdue step stalls,
reports what a person must do, and continues after that.

Phases of a ` + "`ksk`" + ` roll:

1. K0: preflight
2. K1: start
3. K2: the new key is on every server
4. K3: its DS goes to the parent
5. K4: the DS is on every address of the parent and validates
6. K5: the old DS is removed, after its TTL and the parent's delay
7. K6: the old key is removed

Phases of a ` + "`zsk`" + ` roll:

1. Z0: preflight
2. Z1: start
3. Z2: the new key is on every server
4. Z3: it signs everything
5. Z4: the old key is removed

At each transition the zone is transferred and passes dnssec-verify.

Check mode does the preflight and prints the phases with their times. These zones are refused:

- a zone that also contains another signer's keys
- a key for both roles (CSK), or an algorithm roll
- a zone with a roll in progress
- a parent or child of a zone with a roll in progress on this signer
- a policy with shorter times than are served

Cancel the run to leave a roll at its state: both keys sign, and the zone stays valid. Then
continue with ` + "`old_tag`" + `, or run it with ` + "`action: abort`" + `. Before the old DS is removed, abort
removes the new one. Later it restores the old DS while its key is still published. After that the
roll can only continue. See docs/dnssec.md.
`
