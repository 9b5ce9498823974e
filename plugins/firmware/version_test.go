package firmware

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOlder(t *testing.T) {
	order := strings.Fields("1.0-rc1 1.0 1.0.1 1.2 1.10 1.10.1 2 2.0 8.4.2 8.4.10 10 23.05.4 23.05.5")
	for i, a := range order {
		for j, b := range order {
			if got := older(a, b); got != (i < j) {
				t.Errorf("older(%q, %q) = %v", a, b, got)
			}
		}
	}
	if older("v2.0", "v1.9") || !older("v1.9", "v1.10") || !older("2026.01", "2026.1.1") {
		t.Error("prefixes and zeros")
	}
}

// Never both, whatever vendors write.
func TestOlderIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.StringMatching(`[0-9a-c.\-]{0,8}`)
		a, b := version.Draw(t, "a"), version.Draw(t, "b")
		if older(a, b) && older(b, a) || a == b && older(a, b) {
			t.Fatalf("%q and %q", a, b)
		}
	})
}

func TestRaucFacts(t *testing.T) {
	const status = `{"compatible":"br","booted":"A","boot_primary":"rootfs.1","slots":[
		{"rootfs.1":{"class":"rootfs","bootname":"B","state":"inactive","boot_status":"good","slot_status":{"bundle":{"compatible":"br","version":"2.0"},"status":"ok"}}},
		{"rescue.0":{"class":"rescue","bootname":"R","state":"inactive","boot_status":"good"}},
		{"data.0":{"class":"data","bootname":null,"state":"inactive"}},
		{"rootfs.0":{"class":"rootfs","bootname":"A","state":"booted","boot_status":"bad","slot_status":{"bundle":{"compatible":null}}}}]}`
	d := &rauc{artifact: Artifact{Version: "2.0"}}
	f, err := d.facts(answers{"version": {text: "1.0"}, "status": {text: status}})
	want := facts{Version: "1.0", Compatible: "br", Slot: "rootfs.0", Other: "rootfs.1", Primary: "rootfs.1", Installed: "2.0"}
	if err != nil || f != want {
		t.Errorf("got %+v, %v", f, err)
	}
	for name, a := range map[string]answers{
		"service down":    {"version": {text: "1.0"}, "status": {code: 1}},
		"no answer":       {"version": {text: "1.0"}},
		"not JSON":        {"version": {text: "1.0"}, "status": {text: "rauc: hello"}},
		"nothing booted":  {"version": {text: "1.0"}, "status": {text: `{"slots":[]}`}},
		"no version":      {"version": {code: 1}, "status": {text: status}},
		"a third to boot": {"version": {text: "1.0"}, "status": {text: strings.Replace(status, `"rescue",`, `"rootfs",`, 1)}},
	} {
		if f, err := d.facts(a); err == nil {
			t.Errorf("%s: %+v", name, f)
		}
	}
	for text, want := range map[string]string{
		`{"compatible":"br","version":"2.0"}`:            "",
		"note\n" + `{"compatible":"br","version":"2.0"}`: "",
		`{"compatible":"xx","version":"2.0"}`:            `is for "xx"`,
		`{"compatible":"br","version":"2.1"}`:            `holds version "2.1"`,
		`nothing`:                                        "rauc info",
	} {
		err := d.verified(text, facts{Compatible: "br"})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
