package facts

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSystems(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]OS{
		"ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n": {"debian", "debian", "12", "Debian GNU/Linux 12 (bookworm)"},
		"ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nVERSION_ID=\"22\"\n":                   {"debian", "linuxmint", "22", ""},
		"ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\nVERSION_ID=\"9.4\"\n":             {"redhat", "rocky", "9.4", ""},
		"ID='alpine'\nVERSION_ID=3.22.1\n":                                               {"alpine", "alpine", "3.22.1", ""},
		"ID=\"openwrt\"\nID_LIKE=\"lede openwrt\"\nVERSION_ID=\"24.10\"\n":               {"openwrt", "openwrt", "24.10", ""},
		"ID=mine\n": {"mine", "mine", "", ""},
		"nothing":   {},
	} {
		if got := system(release); got != want {
			t.Errorf("%q: %+v, expected %+v", release, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	got := parse("release ID=debian\nkernel Linux 6.12.41+deb13\narch x86_64\ncpus 8\nmemory 16307196\nboot 0f7a\ninit systemd\npackages apt\n" +
		"address 127.0.0.1/8\naddress 192.0.2.7/24\naddress 192.0.2.7/24\naddress fe80::1/64\naddress 2001:db8::7/64\naddress $(reboot)\n")
	want := Outputs{
		OS: OS{Family: "debian", ID: "debian"}, Kernel: Kernel{"Linux", "6.12.41+deb13"}, Arch: "x86_64", CPUs: 8, Memory: 15924,
		Addresses: []string{"192.0.2.7", "2001:db8::7"}, Init: "systemd", PackageManager: "apt", BootID: "0f7a",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	if odd := parse("cpus -1\nmemory x\narch " + strings.Repeat("x", 5000)); odd.CPUs != 0 || odd.Memory != 0 || len(odd.Arch) != 200 {
		t.Errorf("%+v", odd)
	}
}

// A mount whose server is away, and a resolver that does not answer, block what asks them: the
// script asks neither (ansible #48312, #11005).
func TestTrapScriptAsksNoMountAndNoResolver(t *testing.T) {
	t.Parallel()
	slow := regexp.MustCompile(`\b(df|stat|du|mount|findmnt|lsblk|hostname|dnsdomainname|getent|nslookup|dig|host|ping)\b`)
	if found := slow.FindString(script); found != "" {
		t.Errorf("the script has %s", found)
	}
	if !slow.MatchString("df -P /") {
		t.Error("control: df is not found")
	}
}

// This machine, by its own shell and by busybox's.
func TestFactsOfThisMachine(t *testing.T) {
	t.Parallel()
	kit := plugintest.New(t, Def())
	kit.Host("r1").Local()
	got := kit.Run(sdk.With{})
	if n, ok := got.Outputs["cpus"].(float64); got.Outcome != "unchanged" || !ok || n < 1 {
		t.Errorf("%s (%s): %v", got.Outcome, got.Reason, got.Outputs)
	}
	if calls := kit.Host("r1").Calls(); len(calls) != 1 || !calls[0].ReadOnly {
		t.Errorf("calls: %+v", calls)
	}
}
