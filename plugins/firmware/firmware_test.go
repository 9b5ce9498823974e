package firmware_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/turnus/turnus/plugins/firmware"
	"github.com/turnus/turnus/plugins/sdk"
	"github.com/turnus/turnus/plugins/sdk/plugintest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // of "abc"

// with are the params of a script device without slots; more replaces.
func with(more ...sdk.With) sdk.With {
	w := sdk.With{
		"driver": "script", "irreversible": true, "connect_timeout": "1s", "reboot_timeout": "1s", "install_timeout": "1s", "health_timeout": "1s",
		"artifact": sdk.With{"path": "fw.bin", "sha256": sum, "version": "2.0", "compatible": "box"},
		"script": sdk.With{
			"version": "say version", "compatible": "say compatible", "verify": "say verify", "install": "flash", "install_reboots": true,
		},
	}
	for _, m := range more {
		maps.Copy(w, m)
	}
	return w
}

func TestParamsThatCannotWorkAreRefused(t *testing.T) {
	kit := plugintest.New(t, firmware.UpgradeDef())
	artifact := func(more sdk.With) sdk.With {
		a := maps.Clone(with()["artifact"].(sdk.With))
		maps.Copy(a, more)
		return sdk.With{"artifact": a}
	}
	script := func(more sdk.With) sdk.With {
		s := maps.Clone(with()["script"].(sdk.With))
		maps.Copy(s, more)
		return sdk.With{"script": s}
	}
	slots := sdk.With{"slots": []string{"a", "b"}, "slot": "x", "primary": "x", "activate": "x", "install_reboots": false}
	for name, c := range map[string]struct {
		params sdk.With
		want   string
	}{
		"all well":                       {with(), ""},
		"two slots":                      {with(script(slots), sdk.With{"irreversible": false}), ""},
		"no way back":                    {with(sdk.With{"irreversible": false}), "/irreversible: "},
		"path and url":                   {with(artifact(sdk.With{"url": "https://example.org/fw"})), "/artifact: "},
		"neither":                        {with(artifact(sdk.With{"path": nil})), "/artifact"},
		"half a hash":                    {with(artifact(sdk.With{"sha256": "abc"})), "/artifact/sha256"},
		"script without commands":        {with(sdk.With{"script": nil}), "/script"},
		"commands for rauc":              {with(sdk.With{"driver": "rauc"}), "/script: "},
		"a signature beside a bundle":    {with(sdk.With{"driver": "rauc", "script": nil}, artifact(sdk.With{"signature": "s"})), "/artifact/signature: "},
		"one slot":                       {with(script(slots), script(sdk.With{"slots": []string{"a"}})), "/script/slots: "},
		"the same slot twice":            {with(script(sdk.With{"slots": []string{"a", "a"}})), "/script/slots: "},
		"slots that nobody can name":     {with(script(sdk.With{"slots": []string{"a", "b"}, "install_reboots": false})), "/script: "},
		"slots, and it reboots":          {with(script(slots), script(sdk.With{"slots": []string{"a", "b"}, "slot": "x", "primary": "x", "activate": "x"})), "/script/install_reboots: "},
		"commit that nobody reads":       {with(script(sdk.With{"slots": []string{"a", "b"}, "slot": "x", "primary": "x", "activate": "x", "install_reboots": false, "commit": "x"})), "/script/commit: "},
		"a kind that it cannot tell":     {with(script(sdk.With{"compatible": nil})), "/script/compatible: "},
		"a deadline that is too short":   {with(sdk.With{"commit_deadline": "1500ms"}), "/commit_deadline: "},
		"a state folder that is no path": {with(sdk.With{"state_dir": "/x/../y"}), "/state_dir: "},
		"a version of two lines":         {with(artifact(sdk.With{"version": "1\n2"})), "/artifact: "},
	} {
		t.Run(name, func(t *testing.T) {
			clean := without(c.params)
			got := kit.Validate(clean)
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.ContainsFunc(got, func(d string) bool { return strings.HasPrefix(d, c.want) }) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// without drops what is nil.
func without(w sdk.With) sdk.With {
	out := sdk.With{}
	for k, v := range w {
		if inner, ok := v.(sdk.With); ok {
			v = without(inner)
		}
		if v != nil {
			out[k] = v
		}
	}
	return out
}

// box answers as a device without slots; it runs scripts of its own only.
type box struct {
	mu       sync.Mutex
	boot     string
	version  string
	model    string
	primary  string
	verifies bool
	staged   bool
	free     string
	flashes  int
	flashed  func(b *box) // what a flash does
	down     bool
	calls    []string
}

func newBox() *box {
	return &box{boot: "b1", version: "1.0", model: "box", verifies: true, free: "1000000", flashed: func(b *box) { b.boot, b.version = "b2", "2.0" }}
}

func (b *box) handle(_ context.Context, c plugintest.Call) plugintest.Reply {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.down {
		return plugintest.Reply{Err: plugintest.Unreachable("r1", true)}
	}
	b.calls = append(b.calls, c.Command)
	switch {
	case strings.Contains(c.Command, "turnus-"): // questions
		return plugintest.Reply{Stdout: b.answer(c.Command)}
	case strings.Contains(c.Command, "say verify"):
		if b.verifies {
			return plugintest.Reply{}
		}
		return plugintest.Reply{Code: 1, Stderr: "bad signature\n"}
	case strings.Contains(c.Command, "setsid /bin/sh \"$D/main\""):
		b.flashes++
		b.flashed(b)
	case strings.Contains(c.Command, "echo absent"):
		if b.flashes == 0 {
			return plugintest.Reply{Stdout: "absent\n"}
		}
		return plugintest.Reply{Stdout: "ended 0\n"}
	case strings.HasPrefix(c.Command, "umask 077; mkdir"):
	case strings.HasPrefix(c.Command, "rm -f --"):
		b.staged = false
	case strings.HasSuffix(c.Command, "say activate"):
		_, slot, _ := strings.Cut(c.Command, "SLOT=")
		b.primary = strings.Trim(strings.Fields(slot)[0], "'")
	case strings.Contains(c.Command, "fwctl"):
	default:
		return plugintest.Reply{Code: 127, Stderr: c.Command}
	}
	return plugintest.Reply{}
}

// answer returns the output of a command's questions, with its mark.
func (b *box) answer(command string) string {
	var out strings.Builder
	for line := range strings.Lines(command) {
		_, rest, ok := strings.Cut(line, "printf '%s\\n")
		if !ok {
			continue
		}
		words := strings.Fields(rest) // MARK NAME %d\n' …
		text, code := "", "0"
		switch words[1] {
		case "boot":
			text = b.boot
		case "version":
			text = b.version
		case "compatible":
			text = b.model
		case "slot":
			text = "a"
		case "primary":
			text = b.primary
		case "free":
			text = b.free
		case "there":
			if text = sum + "  x"; !b.staged {
				text, code = "", "1"
			}
		}
		out.WriteString(text + "\n" + words[0] + " " + words[1] + " " + code + "\n")
	}
	return out.String()
}

func (b *box) kit(t *testing.T, def sdk.Def) *plugintest.Kit {
	t.Helper()
	kit := plugintest.New(t, def).Artifact("fw.bin", "abc")
	kit.Host("r1").Handle(b.handle)
	return kit
}

func stageWith(more ...sdk.With) sdk.With {
	w := with(more...)
	for _, k := range []string{"irreversible", "reboot_timeout", "install_timeout", "health_timeout"} {
		delete(w, k)
	}
	return w
}

func TestStage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/chunked":
			w.(http.Flusher).Flush()
			_, _ = w.Write([]byte("abc"))
		case "/fw":
			w.Header().Set("Content-Length", "3")
			_, _ = w.Write([]byte("abc"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(func() { server.Close(); http.DefaultClient.CloseIdleConnections() })
	url := func(path string) sdk.With {
		return stageWith(sdk.With{"artifact": sdk.With{"url": server.URL + path, "sha256": sum, "version": "2.0", "compatible": "box"}})
	}
	for name, c := range map[string]struct {
		box     func(b *box)
		params  sdk.With
		check   bool
		outcome string
		reason  string
		sent    bool
	}{
		"brought":               {outcome: "changed", sent: true},
		"check":                 {check: true, outcome: "changed", reason: "would bring it"},
		"there already":         {box: func(b *box) { b.staged = true }, outcome: "unchanged"},
		"there, not genuine":    {box: func(b *box) { b.staged, b.verifies = true, false }, outcome: "failed", reason: "bad signature"},
		"for another kind":      {box: func(b *box) { b.model = "toaster" }, outcome: "failed", reason: `the device is "toaster"`},
		"no room":               {box: func(b *box) { b.free = "1024" }, outcome: "failed", reason: "no room"},
		"room that is not told": {box: func(b *box) { b.free = "" }, outcome: "failed", reason: "does not report how much space"},
		"refused":               {box: func(b *box) { b.verifies = false }, outcome: "failed", reason: "bad signature", sent: true},
		"from a server":         {params: url("/fw"), outcome: "changed", sent: true},
		"of unknown size":       {params: url("/chunked"), outcome: "failed", reason: "does not report its size"},
		"not there":             {params: url("/none"), outcome: "failed", reason: "404"},
		"down":                  {box: func(b *box) { b.down = true }, outcome: "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox()
			if c.box != nil {
				c.box(b)
			}
			if c.params == nil {
				c.params = stageWith()
			}
			kit := b.kit(t, firmware.StageDef(netip.MustParsePrefix("127.0.0.1/32")))
			var got *plugintest.Result
			if c.check {
				got = kit.Check(c.params)
			} else {
				got = kit.Run(c.params)
			}
			if got.Outcome != c.outcome || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("got %s (%s), want %s (%s)", got.Outcome, got.Reason, c.outcome, c.reason)
			}
			file, _ := got.Outputs["file"].(string)
			if _, sent := kit.Host("r1").File(file); sent != c.sent {
				t.Errorf("%q sent: %v, want %v", file, sent, c.sent)
			}
			if c.outcome == "failed" && got.Effects != "none" && !c.sent {
				t.Errorf("effects %s", got.Effects)
			}
		})
	}
}

// An answer from the worker's own network, such as the keys of a cloud, is not brought to a device.
// The control is the worker that opens that network: the server is asked.
func TestFaultS11ArtifactsOfTheWorkersNetwork(t *testing.T) {
	var asked atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer inside.Close()
	artifact := sdk.With{"artifact": sdk.With{"url": inside.URL + "/latest/meta-data", "sha256": sum, "version": "2.0", "compatible": "box"}}
	for name, def := range map[string]func(...netip.Prefix) sdk.Def{"stage": firmware.StageDef, "upgrade": firmware.UpgradeDef} {
		params := with(artifact)
		if name == "stage" {
			params = stageWith(artifact)
		}
		asked.Store(0)
		if got := newBox().kit(t, def()).Run(params); asked.Load() != 0 || got.Outcome != "failed" || !strings.Contains(got.Reason, "own network") || strings.Contains(got.Reason, "127.0.0.1") {
			t.Errorf("%s: got %s (%s), asked %d times", name, got.Outcome, got.Reason, asked.Load())
		}
		if got := newBox().kit(t, def(netip.MustParsePrefix("127.0.0.1/32"))).Run(params); asked.Load() == 0 {
			t.Errorf("control, %s: got %s (%s)", name, got.Outcome, got.Reason)
		}
	}
}

func TestUpgradeWithoutAWayBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		box     func(b *box)
		params  sdk.With
		option  plugintest.Option
		outcome string
		reason  string
		flashes int
	}{
		"upgraded":             {outcome: "changed", reason: "upgraded from 1.0 to 2.0", flashes: 1},
		"runs it":              {box: func(b *box) { b.version = "2.0" }, outcome: "unchanged"},
		"runs a newer one":     {box: func(b *box) { b.version = "10.0" }, outcome: "failed", reason: "allow_downgrade"},
		"a downgrade":          {box: func(b *box) { b.version = "10.0" }, params: sdk.With{"allow_downgrade": true}, outcome: "changed", flashes: 1},
		"a false reboot":       {box: func(b *box) { b.flashed = func(b *box) { b.version = "2.0" } }, outcome: "failed", reason: "still in its old boot", flashes: 1},
		"another version":      {box: func(b *box) { b.flashed = func(b *box) { b.boot = "b2" } }, outcome: "failed", reason: "came back with version 1.0, expected 2.0", flashes: 1},
		"never seen again":     {box: func(b *box) { b.flashed = func(b *box) { b.down = true } }, outcome: "lost", reason: "no second slot", flashes: 1},
		"the window is closed": {option: plugintest.Shut(), outcome: "suspended"},
		"not genuine":          {box: func(b *box) { b.staged, b.verifies = true, false }, outcome: "failed", reason: "bad signature"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox()
			if c.box != nil {
				c.box(b)
			}
			var options []plugintest.Option
			if c.option != nil {
				options = append(options, c.option)
			}
			params := with()
			maps.Copy(params, c.params)
			got := b.kit(t, firmware.UpgradeDef()).Run(params, options...)
			if got.Outcome != c.outcome || !strings.Contains(got.Reason, c.reason) || b.flashes != c.flashes {
				t.Errorf("got %s (%s) and %d flashes, want %s (%s) and %d", got.Outcome, got.Reason, b.flashes, c.outcome, c.reason, c.flashes)
			}
		})
	}
}

// The version runs already, and another slot boots next: the slot that runs does so again. Control:
// it does so already.
func TestTheRunningSlotBootsNext(t *testing.T) {
	t.Parallel()
	b := newBox()
	b.version, b.primary = "2.0", "b"
	params := with(sdk.With{"irreversible": false, "script": sdk.With{
		"version": "say version", "compatible": "say compatible", "verify": "say verify", "install": "flash",
		"slots": []string{"a", "b"}, "slot": "say slot", "primary": "say primary", "activate": "say activate",
	}})
	kit := b.kit(t, firmware.UpgradeDef())
	for i, c := range []struct{ outcome, reason, primary string }{
		{"changed", "slot b boots next", "b"}, {"changed", "slot b boots next", "a"}, {"unchanged", "it runs 2.0", "a"},
	} {
		run := kit.Run
		if i == 0 {
			run = kit.Check
		}
		got := run(params)
		if got.Outcome != c.outcome || !strings.Contains(got.Reason, c.reason) || b.primary != c.primary || b.flashes != 0 {
			t.Errorf("call %d: %s (%s), then slot %s boots next; expected %s (%s), %s", i, got.Outcome, got.Reason, b.primary, c.outcome, c.reason, c.primary)
		}
	}
}

// From each state that was saved on the way another call continues to the same end, with the one
// flash.
func TestUpgradeResumesFromEachCheckpoint(t *testing.T) {
	b := newBox()
	first := b.kit(t, firmware.UpgradeDef()).Run(with())
	if first.Outcome != "changed" || len(first.Checkpoints) < 6 {
		t.Fatalf("got %s (%s) with %d checkpoints", first.Outcome, first.Reason, len(first.Checkpoints))
	}
	for i, checkpoint := range first.Checkpoints {
		var s firmware.State
		if err := json.Unmarshal(checkpoint.State.JSON, &s); err != nil {
			t.Fatal(err)
		}
		for name, flashed := range map[string]bool{"before": false, "after": true} {
			if flashed && s.BootID == "" || !flashed && s.Phase != "stage" && s.Phase != "install" && s.Phase != "reboot" {
				continue // cannot be
			}
			b := newBox()
			b.staged = true
			if flashed {
				b.flashes = 1
				b.flashed(b)
			}
			got := b.kit(t, firmware.UpgradeDef()).Run(with(), plugintest.Resume(&checkpoint.State))
			if got.Outcome != "changed" || b.flashes != 1 {
				t.Errorf("checkpoint %d (%s), %s the flash: %s (%s), %d flashes", i, checkpoint.Name, name, got.Outcome, got.Reason, b.flashes)
			}
		}
	}
}
