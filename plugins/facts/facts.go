// Package facts owns the job type facts: what a host is, as the host itself reports. It
// imports only the sdk.
package facts

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/shell"
)

// Params is the with: of facts.
type Params struct{}

// Outputs are the facts.
type Outputs struct {
	OS             OS       `json:"os" jsonschema:"the operating system, by /etc/os-release"`
	Kernel         Kernel   `json:"kernel" jsonschema:"by uname"`
	Arch           string   `json:"arch" jsonschema:"as uname prints it, such as x86_64"`
	CPUs           int      `json:"cpus" jsonschema:"processors that are online"`
	Memory         int      `json:"memory" jsonschema:"MiB"`
	Addresses      []string `json:"addresses" jsonschema:"IP addresses of its interfaces, without loopback and link-local ones"`
	Init           string   `json:"init" jsonschema:"systemd, openrc, procd or sysv; empty: unknown"`
	PackageManager string   `json:"package_manager" jsonschema:"apt, dnf, apk, opkg, zypper or pacman; empty: unknown"`
	BootID         string   `json:"boot_id" jsonschema:"changes with each boot"`
}

// OS is an operating system.
type OS struct {
	Family  string `json:"family" jsonschema:"debian, redhat, suse, alpine, openwrt, arch; else the same as id"`
	ID      string `json:"id" jsonschema:"such as ubuntu"`
	Version string `json:"version" jsonschema:"such as 24.04"`
	Name    string `json:"name" jsonschema:"such as Ubuntu 24.04 LTS"`
}

// Kernel is a kernel.
type Kernel struct {
	Name    string `json:"name" jsonschema:"such as Linux"`
	Release string `json:"release" jsonschema:"such as 6.12.41"`
}

// Def is the job type.
func Def() sdk.Def {
	return sdk.Job("facts", run,
		sdk.Summary("Read what the host is: system, kernel, processors, memory, addresses"),
		sdk.Description(description),
		sdk.Idempotent(true),
		sdk.Check(),
		sdk.Outputs[Outputs](),
		sdk.Example("Ask for facts", sdk.With{}),
	)
}

const description = `
Asks the host what it is, in one command that changes nothing, resolves no names and mounts nothing.

A playbook rarely calls it: ` + "`host.facts`" + ` in an expression asks for the facts when they are first
read, once in a run and host.
`

func run(ctx context.Context, r *sdk.Run[Params, sdk.NoState]) error {
	result := r.Host().Query(ctx, script)
	if err := result.Err(); err != nil {
		return fmt.Errorf("asking for facts: %w", err)
	}
	f := parse(result.Stdout)
	for key, value := range map[string]any{
		"os": f.OS, "kernel": f.Kernel, "arch": f.Arch, "cpus": f.CPUs, "memory": f.Memory, "addresses": f.Addresses, "init": f.Init,
		"package_manager": f.PackageManager, "boot_id": f.BootID,
	} {
		r.Output(key, value)
	}
	return nil
}

// script prints a line a fact. It keeps to what every POSIX system or busybox has, and starts few
// programs.
const script = shell.Prelude + `while IFS= read -r l; do echo "release $l"; done 2>/dev/null </etc/os-release
echo "kernel $(uname -s) $(uname -r)"
echo "arch $(uname -m)"
echo "cpus $(getconf _NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null || grep -c ^processor /proc/cpuinfo)"
while read -r k v u; do [ "$k" = MemTotal: ] && echo "memory $v" && break; done 2>/dev/null </proc/meminfo
read -r b 2>/dev/null </proc/sys/kernel/random/boot_id && echo "boot $b"
if [ -d /run/systemd/system ]; then echo "init systemd"
elif command -v rc-service >/dev/null 2>&1; then echo "init openrc"
elif [ -e /etc/rc.common ]; then echo "init procd"
elif [ -d /etc/init.d ]; then echo "init sysv"; fi
for p in apt-get:apt dnf:dnf yum:dnf apk:apk opkg:opkg zypper:zypper pacman:pacman; do
  command -v "${p%:*}" >/dev/null 2>&1 && echo "packages ${p#*:}" && break
done
if command -v ip >/dev/null 2>&1; then ip -o addr show 2>/dev/null | while read -r n i f a r; do echo "address $a"; done
elif command -v ifconfig >/dev/null 2>&1; then ifconfig 2>/dev/null | while read -r f a r; do case $f in inet*) echo "address ${a#addr:}" ;; esac; done; fi
exit 0
`

// maxAddresses bounds the answer of a router with thousands of interfaces.
const maxAddresses = 64

// parse reads what script printed. A host may print anything: what is no fact is left out.
func parse(text string) Outputs {
	a := sdk.ReadAnswer(text)
	name, release, _ := strings.Cut(a.Value("kernel"), " ")
	f := Outputs{
		OS: system(a.Text("release")), Kernel: Kernel{clip(name), clip(release)}, Arch: clip(a.Value("arch")), CPUs: max(a.Number("cpus"), 0),
		Memory: max(a.Number("memory"), 0) / 1024, Init: clip(a.Value("init")), PackageManager: clip(a.Value("packages")), BootID: clip(a.Value("boot")), Addresses: []string{},
	}
	for line := range strings.Lines(a.Text("address")) {
		word, _, _ := strings.Cut(strings.TrimSpace(line), "/")
		ip, err := netip.ParseAddr(word)
		if err == nil && !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && len(f.Addresses) < maxAddresses && !slices.Contains(f.Addresses, ip.String()) {
			f.Addresses = append(f.Addresses, ip.String())
		}
	}
	return f
}

// families are systems that behave as one of these, by the ids of os-release.
var families = []struct {
	name string
	ids  []string
}{
	{"debian", []string{"debian", "ubuntu"}}, {"redhat", []string{"rhel", "fedora", "centos"}}, {"suse", []string{"suse", "opensuse", "sles"}},
	{"alpine", []string{"alpine"}}, {"openwrt", []string{"openwrt"}}, {"arch", []string{"arch"}},
}

// system reads os-release, whose values are quoted as in a shell.
func system(release string) OS {
	values := map[string]string{}
	for line := range strings.Lines(release) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok {
			continue
		}
		if text, err := strconv.Unquote(value); err == nil {
			value = text
		}
		values[key] = clip(strings.Trim(value, "'"))
	}
	s := OS{ID: values["ID"], Version: values["VERSION_ID"], Name: values["PRETTY_NAME"], Family: values["ID"]}
	for _, id := range append([]string{s.ID}, strings.Fields(values["ID_LIKE"])...) {
		for _, f := range families {
			if slices.Contains(f.ids, id) {
				s.Family = f.name
				return s
			}
		}
	}
	return s
}

// clip keeps a fact short: a host sends what it likes.
func clip(s string) string { return s[:min(len(s), 200)] }
