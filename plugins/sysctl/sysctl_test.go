package sysctl

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNames(t *testing.T) {
	t.Parallel()
	for key, want := range map[string][2]string{
		"vm.swappiness":                  {"vm/swappiness", "/etc/sysctl.d/90-turnus-vm.swappiness.conf"},
		"vm/swappiness":                  {"vm/swappiness", "/etc/sysctl.d/90-turnus-vm.swappiness.conf"},
		"net.ipv4.conf.eth0/1.rp_filter": {"net/ipv4/conf/eth0.1/rp_filter", "/etc/sysctl.d/90-turnus-net.ipv4.conf.eth0_1.rp_filter.conf"},
		"net/ipv4/conf/eth0.1/rp_filter": {"net/ipv4/conf/eth0.1/rp_filter", "/etc/sysctl.d/90-turnus-net.ipv4.conf.eth0_1.rp_filter.conf"},
	} {
		p := Params{Key: key}
		if got := [2]string{swap(p.key()), p.file()}; got != want {
			t.Errorf("%s: %q, expected %q", key, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		p    Params
		want string // its text; "!" for an error
	}{
		"number":              {Params{State: "present", Value: float64(1)}, "1"},
		"large number":        {Params{State: "present", Value: float64(4194304)}, "4194304"},
		"fields":              {Params{State: "present", Value: " 1\t2  3 "}, "1 2 3"},
		"lines":               {Params{State: "present", Value: "1\nkernel.x = 2"}, "!"},
		"a control character": {Params{State: "present", Value: "1\x1b"}, "!"},
		"a boolean":           {Params{State: "present", Value: true}, "!"},
		"none":                {Params{State: "present"}, "!"},
		"absent":              {Params{State: "absent"}, ""},
		"absent and a value":  {Params{State: "absent", Value: float64(1)}, "!"},
	} {
		err := c.p.Validate()
		got, _ := c.p.text()
		if err != nil {
			got = "!"
		}
		if got != c.want {
			t.Errorf("%s: %q (%v), expected %q", name, got, err, c.want)
		}
	}
}
