// Package firmware owns the job types firmware.stage and firmware.upgrade: an artifact is brought
// to a device and verified there, then installed, booted, proven by the boot id, and committed; or
// the device goes back to what it ran. It imports only the sdk.
package firmware

import (
	"context"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/turnus/turnus/plugins/sdk"
)

// Artifact is the firmware to install.
type Artifact struct {
	Path       string `json:"path,omitempty" turnus:"min=1,file" jsonschema:"file relative to the playbook, or its digest; either this or url"`
	URL        string `json:"url,omitempty" turnus:"pattern=^https?://" jsonschema:"where the worker gets it; the server must report its size"`
	SHA256     string `json:"sha256" turnus:"required,pattern=^[0-9a-f]{64}$" jsonschema:"of the file; another content never gets its name on the device"`
	Signature  string `json:"signature,omitempty" turnus:"min=1,file" jsonschema:"a detached signature, relative to the playbook, for the script driver's verify. A RAUC bundle holds its own"`
	Compatible string `json:"compatible,omitempty" turnus:"min=1,max=200" jsonschema:"the kind of device that it is for; another device is refused"`
	Version    string `json:"version" turnus:"required,min=1,max=200" jsonschema:"what the device reports once it runs it"`
}

// Script is a device's own commands. FIRMWARE, SIGNATURE, VERSION and SLOT are set in their
// environment.
type Script struct {
	Version        string   `json:"version" turnus:"required,min=1" jsonschema:"prints the version that runs"`
	Compatible     string   `json:"compatible,omitempty" turnus:"min=1" jsonschema:"prints the kind of device; needed for artifact.compatible"`
	Verify         string   `json:"verify" turnus:"required,min=1" jsonschema:"exits with 0 when $FIRMWARE is genuine and fits; changes nothing"`
	Install        string   `json:"install" turnus:"required,min=1" jsonschema:"writes $FIRMWARE, to $SLOT where there are slots; runs detached from the connection"`
	InstallReboots bool     `json:"install_reboots,omitempty" jsonschema:"install itself reboots the device, as sysupgrade does"`
	Slots          []string `json:"slots,omitempty" turnus:"max=2" jsonschema:"names of the two slots; none: there is no way back, and irreversible must be true"`
	Slot           string   `json:"slot,omitempty" turnus:"min=1" jsonschema:"prints the slot that runs"`
	Primary        string   `json:"primary,omitempty" turnus:"min=1" jsonschema:"prints the slot that boots next"`
	Activate       string   `json:"activate,omitempty" turnus:"min=1" jsonschema:"makes $SLOT the one that boots next, once"`
	Commit         string   `json:"commit,omitempty" turnus:"min=1" jsonschema:"keeps $SLOT, which runs, over further boots"`
	Committed      string   `json:"committed,omitempty" turnus:"min=1" jsonschema:"exits with 0 when the slot that runs is kept; read after commit, whose exit code is not believed"`
}

// Device defines how the device is reached; both job types have it.
type Device struct {
	Artifact       Artifact     `json:"artifact" turnus:"required" jsonschema:"what shall run"`
	Driver         string       `json:"driver,omitempty" turnus:"default=rauc,enum=rauc|script" jsonschema:"rauc, or the device's own commands, given as script"`
	Script         *Script      `json:"script,omitempty" jsonschema:"commands of the script driver"`
	VersionCommand string       `json:"version_command,omitempty" turnus:"min=1" jsonschema:"rauc: prints the version that runs. By default IMAGE_VERSION of /etc/os-release, else VERSION_ID"`
	Rate           sdk.Size     `json:"rate,omitempty" turnus:"min=0" jsonschema:"most bytes a second that the upload takes; 0: what the worker's --upload-rate leaves"`
	StateDir       string       `json:"state_dir,omitempty" turnus:"default=/var/lib/turnus/firmware,pattern=^/" jsonschema:"folder of the device for the staged artifact and the installation's log; survives a boot"`
	ConnectTimeout sdk.Duration `json:"connect_timeout,omitempty" turnus:"default=10s" jsonschema:"longest time for one check of the device"`
}

// Params is the with: of an upgrade.
type Params struct {
	Device
	Irreversible   bool         `json:"irreversible,omitempty" jsonschema:"accepts that there is no way back, on a device without a second slot"`
	AllowDowngrade bool         `json:"allow_downgrade,omitempty" jsonschema:"accepts an older version than the one that runs"`
	Reboot         string       `json:"reboot,omitempty" turnus:"default=reboot,min=1" jsonschema:"reboots the device"`
	InstallTimeout sdk.Duration `json:"install_timeout,omitempty" turnus:"default=30m" jsonschema:"longest that the installation may take"`
	RebootTimeout  sdk.Duration `json:"reboot_timeout,omitempty" turnus:"default=10m" jsonschema:"from the request to reboot until the device is back; as long again, twice, for its way back"`
	Health         []string     `json:"health,omitempty" turnus:"max=32" jsonschema:"commands on the device that must all exit with 0 before the new version is kept"`
	HealthTimeout  sdk.Duration `json:"health_timeout,omitempty" turnus:"default=2m" jsonschema:"until all of health pass"`
	Soak           sdk.Duration `json:"soak,omitempty" turnus:"default=0s" jsonschema:"how long the new version must stay healthy, in one boot, before it is kept"`
	CommitDeadline sdk.Duration `json:"commit_deadline,omitempty" turnus:"default=1h" jsonschema:"a version that is not kept so long after the reboot was requested is rolled back"`
	HA             *HA          `json:"ha,omitempty" jsonschema:"for members of an HA pair"`
}

// HA is the commands for a member of a pair before it goes down.
type HA struct {
	Ready    string       `json:"ready" turnus:"required,min=1" jsonschema:"exits with 0 when the peer is able to carry the traffic; asked before the installation and before the reboot"`
	Role     string       `json:"role" turnus:"required,min=1" jsonschema:"prints active or standby"`
	Failover string       `json:"failover" turnus:"required,min=1" jsonschema:"makes the peer the active one; run on an active member before its reboot"`
	Timeout  sdk.Duration `json:"timeout,omitempty" turnus:"default=1m" jsonschema:"until role prints standby after a failover"`
}

// StageParams is the with: of a stage.
type StageParams struct{ Device }

// Validate checks the rules that the schema cannot express.
func (p *StageParams) Validate() error { return p.validate() }

func (d *Device) validate() error {
	var bad problems
	a := d.Artifact
	if (a.Path == "") == (a.URL == "") {
		bad.Add("/artifact", "expected one of path and url")
	}
	if _, err := url.Parse(a.URL); err != nil {
		bad.Add("/artifact/url", "%w", err)
	}
	if strings.ContainsAny(a.Version+a.Compatible, "\n\x00") {
		bad.Add("/artifact", "version and compatible are one line each")
	}
	if path.Clean(d.StateDir) != d.StateDir || d.StateDir == "/" || strings.ContainsAny(d.StateDir, "\n\x00") {
		bad.Add("/state_dir", "expected a clean absolute path; found %q", d.StateDir)
	}
	bad.between("/connect_timeout", d.ConnectTimeout, 100*time.Millisecond, 5*time.Minute)
	switch {
	case d.Driver == "rauc" && d.Script != nil:
		bad.Add("/script", "goes with driver: script")
	case d.Driver == "rauc" && a.Signature != "":
		bad.Add("/artifact/signature", "a RAUC bundle holds its own signature")
	case d.Driver == "script" && d.Script == nil:
		bad.Add("/script", "driver: script needs the device's commands")
	case d.Driver == "script":
		d.Script.check(d, &bad)
	}
	return bad.Err()
}

func (s *Script) check(d *Device, bad *problems) {
	if d.VersionCommand != "" {
		bad.Add("/version_command", "the script driver has script.version")
	}
	if d.Artifact.Compatible != "" && s.Compatible == "" {
		bad.Add("/script/compatible", "artifact.compatible needs a command that prints what the device is")
	}
	given := s.Slot != "" || s.Primary != "" || s.Activate != "" || s.Commit != "" || s.Committed != ""
	switch {
	case len(s.Slots) == 0 && given:
		bad.Add("/script/slots", "slot, primary, activate, commit and committed need the names of the two slots")
	case len(s.Slots) == 0:
	case len(s.Slots) != 2 || s.Slots[0] == s.Slots[1] || slices.Contains(s.Slots, ""):
		bad.Add("/script/slots", "expected two different names")
	case s.Slot == "" || s.Primary == "" || s.Activate == "":
		bad.Add("/script", "slots need slot, primary and activate")
	case s.InstallReboots:
		bad.Add("/script/install_reboots", "with slots the installation must leave the device running: the reboot is asked for apart")
	}
	if (s.Commit == "") != (s.Committed == "") {
		bad.Add("/script/commit", "commit and committed go together: what is kept is read back")
	}
}

// Validate checks the rules that the schema cannot express.
func (p *Params) Validate() error {
	var bad problems
	if err := p.validate(); err != nil {
		bad.Problems = append(bad.Problems, err)
	}
	if p.Driver == "script" && p.Script != nil && len(p.Script.Slots) == 0 && !p.Irreversible {
		bad.Add("/irreversible", "a device without two slots has no way back: write irreversible: true if that is accepted")
	}
	for pointer, d := range map[string]sdk.Duration{
		"/install_timeout": p.InstallTimeout, "/reboot_timeout": p.RebootTimeout, "/health_timeout": p.HealthTimeout, "/commit_deadline": p.CommitDeadline,
	} {
		bad.between(pointer, d, time.Second, 24*time.Hour)
	}
	bad.between("/soak", p.Soak, 0, 7*24*time.Hour)
	if least := time.Duration(p.RebootTimeout + p.HealthTimeout + p.Soak); time.Duration(p.CommitDeadline) < least {
		bad.Add("/commit_deadline", "expected at least reboot_timeout, health_timeout and soak together, %s; found %s", least, p.CommitDeadline)
	}
	return bad.Err()
}

// problems collects what is wrong with params.
type problems struct{ sdk.Problems }

func (b *problems) between(pointer string, d sdk.Duration, least, most time.Duration) {
	if time.Duration(d) < least || time.Duration(d) > most {
		b.Add(pointer, "expected between %s and %s; found %s", least, most, d)
	}
}

// StageOutputs are the outputs of a stage.
type StageOutputs struct {
	File    string  `json:"file" jsonschema:"the staged artifact on the device"`
	Size    int64   `json:"size,omitempty" jsonschema:"bytes that were sent; absent when it was there already"`
	Seconds float64 `json:"seconds,omitempty" jsonschema:"the upload, verified by its hash on the device"`
}

// Outputs of an upgrade.
type Outputs struct {
	OldVersion string  `json:"old_version" jsonschema:"what ran before"`
	Version    string  `json:"version" jsonschema:"what runs now, as the device reported last"`
	OldSlot    string  `json:"old_slot,omitempty" jsonschema:"the slot that ran before"`
	Slot       string  `json:"slot,omitempty" jsonschema:"the slot that runs now, as the device reported last"`
	OldBootID  string  `json:"old_boot_id,omitempty" jsonschema:"of the boot before"`
	BootID     string  `json:"boot_id,omitempty" jsonschema:"of the boot that proves the upgrade, or the way back"`
	Down       float64 `json:"down_seconds,omitempty" jsonschema:"from the request to reboot to the device's return"`
	Seconds    float64 `json:"seconds,omitempty" jsonschema:"from the installation's begin to the end"`
}

// Defs are the job types. Artifacts come from the worker's own network only where it is in one of
// the networks reach.
func Defs(reach ...netip.Prefix) []sdk.Def {
	return []sdk.Def{StageDef(reach...), UpgradeDef(reach...)}
}

// StageDef is firmware.stage.
func StageDef(reach ...netip.Prefix) sdk.Def {
	web := newWeb(reach)
	return sdk.Job("firmware.stage", func(ctx context.Context, r *sdk.Run[StageParams, sdk.NoState]) error { return runStage(ctx, r, web) },
		sdk.Summary("Bring a firmware artifact to the device and verify it there; at any time, days before the upgrade"),
		sdk.Description(stageDescription),
		sdk.Idempotent(true), // what is there and genuine stays
		sdk.OnLost("retry"),
		sdk.Check(),
		sdk.Outputs[StageOutputs](),
		sdk.Example("A RAUC bundle, gently", sdk.With{"artifact": exampleArtifact, "rate": "2MiB"}),
		sdk.Example("An image for OpenWrt", sdk.With{"artifact": exampleImage, "driver": "script", "script": sysupgrade}),
	)
}

// UpgradeDef is firmware.upgrade.
func UpgradeDef(reach ...netip.Prefix) sdk.Def {
	web := newWeb(reach)
	return sdk.Job("firmware.upgrade", func(ctx context.Context, r *runOf) error { return runUpgrade(ctx, r, web) },
		sdk.Summary("Install firmware, reboot into it, prove it by the boot id, and keep it; or go back"),
		sdk.Description(upgradeDescription),
		sdk.Idempotent(true), // each phase looks first what the device has seen
		sdk.OnLost("retry"),
		sdk.Check(),
		sdk.Disruptive(),
		sdk.Reverts("irreversible"),
		sdk.StateVersion(1, nil),
		sdk.Outputs[Outputs](),
		sdk.Example("A RAUC bundle", sdk.With{"artifact": exampleArtifact, "health": []string{"fwctl health"}, "soak": "5m"}),
		sdk.Example("A member of an HA pair", sdk.With{
			"artifact": exampleArtifact, "health": []string{"fwctl health"},
			"ha": sdk.With{"ready": "fwctl ha peer-ready", "role": "fwctl ha role", "failover": "fwctl ha failover"},
		}),
		sdk.Example("OpenWrt: one slot, no way back", sdk.With{"artifact": exampleImage, "driver": "script", "script": sysupgrade, "irreversible": true, "state_dir": "/tmp/turnus"}),
	)
}

var (
	exampleArtifact = sdk.With{
		"path": "br200-8.4.2.raucb", "sha256": strings.Repeat("0123456789abcdef", 4), "compatible": "br-200", "version": "8.4.2",
	}
	exampleImage = sdk.With{
		"path": "openwrt-23.05.5-sysupgrade.bin", "sha256": strings.Repeat("0123456789abcdef", 4), "compatible": "acme,br-100", "version": "23.05.5",
	}
	sysupgrade = sdk.With{
		"version":    `. /etc/openwrt_release && echo "$DISTRIB_RELEASE"`,
		"compatible": "cat /tmp/sysinfo/board_name",
		"verify":     `sysupgrade -T "$FIRMWARE"`,
		"install":    `sysupgrade -v "$FIRMWARE"`, "install_reboots": true,
	}
)

const stageDescription = `
Brings the artifact to the device, and does not touch the running system. It uploads into
` + "`state_dir/staged`" + `, as a part file. The file gets its name when its SHA-256, computed **on the
device**, matches. Before the upload it checks the device's free space, and removes older artifacts
and broken uploads. Then the device verifies the signature: RAUC with its own keyring, or the
command ` + "`script.verify`" + `. An artifact with a wrong signature is removed. A genuine artifact that is
already there is ` + "`unchanged`" + `.

The upload takes at most ` + "`rate`" + ` bytes a second; all uploads of a worker together at most its
` + "`--upload-rate`" + `.
`

const upgradeDescription = `
Each phase is durable before the next begins, and first checks what the device has done. So another
worker can continue after the death of one:

1. **precheck**: the running version (equal: ` + "`unchanged`" + `; newer: refused without
   ` + "`allow_downgrade`" + `), the kind of device, the slots, the peer. Check mode ends here.
   If the version is equal and the other slot boots next, the running slot is activated again.
2. **stage**: the artifact is on the device, or is uploaded, and its signature is verified on the
   device.
3. **install**: the maintenance window must still fit installation, reboot, health and a rollback.
   The installation runs on the device, detached from the connection, into the inactive slot. A
   status file shows its progress. The boot loader keeps the old slot as the next one until the
   reboot is decided.
4. **reboot**: the window is checked again. Boot id, slot and deadline are saved, the new slot is
   activated, the device reboots.
5. **back**: new connections until the device is back with **another boot id**, in the expected
   slot, with the expected version. Exit codes do not count.
6. **health**: all of ` + "`health`" + `, and again after ` + "`soak`" + `, in one boot.
7. **commit**: the slot is kept, and this is read back.
8. **rollback**: after a failure in 3 to 7, in any window. A reachable device is sent back to its
   old slot. The boot counter does this for an unreachable one. The old slot and version are proven
   over a new connection: ` + "`rolled_back`" + `; otherwise ` + "`lost`" + `.

A device without two slots cannot roll back: ` + "`irreversible: true`" + ` accepts that.
`
