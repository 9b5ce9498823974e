package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/turnus/turnus/core"
)

const secret = `pa$$"w0rd/+&' <x>=`

const key = "-----BEGIN KEY-----\nMC4CAQAwBQYDK2VwBCIEIPz\nxq9/81hdhsuD2kdj3nVJK\n-----END KEY-----\n"

func set(t testing.TB, values ...string) *Set {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range values {
		if err := s.Add(Value{fmt.Sprintf("s%d", i), []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// seen are forms of a value, made otherwise than the package makes them.
func seen(value string) map[string]string {
	quoted, _ := json.Marshal(value)
	out := map[string]string{
		"plain": value, "hex": hex.EncodeToString([]byte(value)), "HEX": strings.ToUpper(hex.EncodeToString([]byte(value))),
		"query": url.QueryEscape(value), "path": url.PathEscape(value), "html": html.EscapeString(value),
		"percent": percent(value, "", "%%%02X"), "percent in small letters": percent(value, "", "%%%02x"),
		"Python's quote": percent(value, "/", "%%%02X"), "encodeURIComponent": percent(value, "!'()*", "%%%02X"),
		"encodeURI": percent(value, "!'()*;,/?:@&=+$#", "%%%02X"), "encodeURI in small letters": percent(value, "!'()*;,/?:@&=+$#", "%%%02x"),
	}
	if utf8.ValidString(value) {
		out["json"] = string(quoted[1 : len(quoted)-1])
		out["JSON of Python"] = strings.Trim(strconv.QuoteToASCII(value), `"`) // \u and what JSON has, for these values
	}
	for name, quotes := range map[string][2]string{"HTML of Python": {"&quot;", "&#x27;"}, "XML": {"&quot;", "&apos;"}, "HTML of PHP": {"&quot;", "&#039;"}, "text in XML": {`"`, "'"}} {
		out[name] = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, quotes[0], "'", quotes[1]).Replace(value)
	}
	for name, alphabet := range map[string]*base64.Encoding{"base64": base64.StdEncoding, "base64url": base64.URLEncoding} {
		for before := range 3 {
			out[fmt.Sprint(name, before)] = common(
				alphabet.EncodeToString([]byte(strings.Repeat("\x00", before)+value+"\x00\x00\x00")),
				alphabet.EncodeToString([]byte(strings.Repeat("\xff", before)+value+"\xff\xff\xff")))
		}
	}
	return out
}

// percent escapes all bytes but letters, digits, -_.~ and those of left.
func percent(value, left, format string) string {
	var out strings.Builder
	for _, b := range []byte(value) {
		if b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("-_.~"+left, b) >= 0 {
			out.WriteByte(b)
		} else {
			fmt.Fprintf(&out, format, b)
		}
	}
	return out.String()
}

// common is the longest stretch that two texts have at the same place: what of an encoding does not
// depend on the neighbours.
func common(a, b string) (best string) {
	from := 0
	for i := range len(a) + 1 {
		if i < len(a) && a[i] == b[i] {
			continue
		}
		if i-from > len(best) {
			best = a[from:i]
		}
		from = i + 1
	}
	return best
}

func TestFormsAreFound(t *testing.T) {
	t.Parallel()
	const long = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJ0dXJudXMifQ.d8Q2kTzT0eXk1n3Xw_4"
	s := set(t, secret, key, long)
	if got := set(t, "pässwort-geheim").String(`{"p": "p\u00e4sswort-geheim"}`); strings.Contains(got, "geheim") {
		t.Errorf("JSON of Python: %s", got)
	}
	for name, form := range seen(secret) {
		text := "before " + form + " after"
		if got := s.String(text); strings.Contains(got, form) || !strings.Contains(got, "[secret s0]") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: %s became %s", name, text, got)
		}
	}
	for _, tc := range []struct{ name, text, want string }{
		{"plain", "a " + secret + " b", "a [secret s0] b"},
		{"twice", secret + secret, "[secret s0][secret s0]"},
		{"a line of a key", "log: MC4CAQAwBQYDK2VwBCIEIPz\r\n", "log: [secret s1]\r\n"},
		{"a key in a diff", "+-----BEGIN KEY-----\n+MC4CAQAwBQYDK2VwBCIEIPz\n+xq9/81hdhsuD2kdj3nVJK\n", "+-----BEGIN KEY-----\n+[secret s1]\n+[secret s1]\n"},
		{"hex in groups", "7061 2424 2277 3072 642f\n2b26 2720 3c78 3e3d", "[secret s0]"},
		{"cut off at the end", "x " + secret[:16], "x [secret s0]"},
		{"cut off at the end, too early", "x " + secret[:15], "x " + secret[:15]},
		{"in base64, cut off at the end", "x " + base64.StdEncoding.EncodeToString([]byte(secret))[:16], "x [secret s0]"},
		{"less than half of a line at the end", "x " + long[:31], "x " + long[:31]},
		{"half of a line at the end", "x " + long[:32], "x [secret s2]"},
		{"before an ellipsis", "x " + secret[:17] + "…", "x " + secret[:17] + "…"},
		{"before half a character", "x " + secret[:17] + "\uFFFD", "x " + secret[:17] + "\uFFFD"},
		{"nothing", "nothing of the kind", "nothing of the kind"},
		{"as a word of a shell", `pa$$"w0rd/+&'\'' <x>=`, "[secret s0]"},
	} {
		if got := s.String(tc.text); got != tc.want {
			t.Errorf("%s: %q became %q, expected %q", tc.name, tc.text, got, tc.want)
		}
	}
	// A value that was encoded twice is not found, as the package documents.
	if twice := base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte(secret)))); s.String(twice) != twice {
		t.Errorf("base64 of base64 is found: state that in the package's comment")
	}
	wrapped := base64.StdEncoding.EncodeToString([]byte("some header and then " + secret + strings.Repeat("x", 100)))
	var lines strings.Builder
	for i := 0; i < len(wrapped); i += 20 {
		lines.WriteString(wrapped[i:min(i+20, len(wrapped))] + "\n")
	}
	if got := s.String(lines.String()); !strings.Contains(got, "[secret s0]") {
		t.Errorf("base64 over lines: %s", got)
	}
}

// A person who controls a text, and reads the redacted text, learns no byte of an unknown value: a
// right beginning and a wrong one are treated alike, up to half of the value. Control: at the end
// of a text a longer beginning differs, as in docs/security.md.
func TestFaultS6BeginningsAreNoOracle(t *testing.T) {
	t.Parallel()
	const value = "ghp_9fQz7Lm2XwB4rTn6Vc8KjH1sD3gY5aPe"
	s := set(t, value)
	stream := func(text string, idle bool) string {
		var out strings.Builder
		st := s.Stream(func(b []byte) { out.Write(b) })
		_, _ = st.Write([]byte(text))
		if idle {
			st.Idle()
		} else {
			st.Flush()
		}
		return out.String()
	}
	for name, shown := range map[string]func(string) string{
		"at the end of a text":    func(try string) string { return s.String("x " + try) },
		"before an ellipsis":      func(try string) string { return s.String("x " + try + "… (7 bytes more)") },
		"before half a character": func(try string) string { return s.String("x " + try + "\uFFFD") },
		"at the end of a stream":  func(try string) string { return stream("x "+try, false) },
		"in a stream that idles":  func(try string) string { return stream("x "+try+"\n", true) },
		"in outputs":              func(try string) string { return fmt.Sprint(s.Any(map[string]any{"o": try})) },
	} {
		for n := 4; n < len(value)/2; n++ {
			right, wrong := value[:n], value[:n-1]+"~"
			if strings.Replace(shown(right), right, "#", 1) != strings.Replace(shown(wrong), wrong, "#", 1) {
				t.Errorf("%s: %q and %q differ: %q, %q", name, right, wrong, shown(right), shown(wrong))
			}
		}
	}
	for n := 1; n < len(value); n++ {
		if told := s.String("x "+value[:n]) != "x "+value[:n]; told != (n >= 16 && 2*n >= len(value)) {
			t.Errorf("control: the first %d of %d bytes are replaced: %v", n, len(value), told)
		}
	}
}

// A person who watches a stream learns nothing from how long a piece of it waits, as on a line that
// has no end yet. Control: a stream that delays only what may become a value.
func TestFaultS6WaitingIsNoOracle(t *testing.T) {
	t.Parallel()
	const value = "ghp_9fQz7Lm2XwB4rTn6Vc8KjH1sD3gY5aPe"
	s := set(t, value)
	shown := func(text string, last int) int {
		n := 0
		st := s.Stream(func(b []byte) { n += len(b) })
		st.held = append(st.held, text...)
		st.pass(more, last)
		return n
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(value))
	reported := false
	for n := 1; n < minPrefix; n++ {
		for _, form := range []string{value[:n], encoded[:n], strings.Join(strings.Split(encoded[:n], ""), strings.Repeat("\n", maxGap))} {
			right, wrong := strings.Repeat(". ", holding)+form, strings.Repeat(". ", holding)+form[:len(form)-1]+"~"
			if a, b := shown(right, holding), shown(wrong, holding); a != b {
				t.Errorf("%q: %d bytes are shown, of a wrong one %d", form, a, b)
			}
			reported = reported || shown(right, 0) != shown(wrong, 0)
		}
	}
	if !reported {
		t.Error("negative control: nothing differed")
	}
	var out strings.Builder
	st := s.Stream(func(b []byte) { out.Write(b) })
	_, _ = st.Write([]byte("x " + value[:5]))
	if out.Len() > 0 {
		t.Errorf("a stream passed on %q", out.String())
	}
	if holding != 272 {
		t.Errorf("a stream keeps %d bytes; docs/security.md has 272", holding)
	}
}

func TestWhatIsNoText(t *testing.T) {
	t.Parallel()
	s := set(t, "8231947", "hunter2hunter2")
	got, err := json.Marshal(s.Any(map[string]any{
		"n": 8231947.0, "list": []any{"x hunter2hunter2", true, nil, 7}, "hunter2hunter2": map[string]any{"a": json.Number("8231947")},
	}))
	want := `{"[secret s1]":{"a":"[secret s0]"},"list":["x [secret s1]",true,null,7],"n":"[secret s0]"}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; expected %s", got, err, want)
	}
	if name, found := s.FindJSON([]byte(`{"a":["\u0068unter2hunter2"]}`)); !found || name != "s1" {
		t.Errorf("an escaped value in JSON: %s, %v", name, found)
	}
	if name, found := s.FindJSON([]byte(`{"a":["hunter2hunter"],"b":823194}`)); found {
		t.Errorf("%s was found where it is not", name)
	}
	var none *Set
	if none.String("x") != "x" || none.Any("x") != "x" || none.Len() != 0 {
		t.Error("a set of nothing changes something")
	}
}

func TestValuesThatCannotBeHidden(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "abc", "  ab\n", strings.Repeat("x", MaxValue+1)} {
		if _, err := New(Value{"pin", []byte(value)}); !errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), "pin") || len(value) > 0 && strings.Contains(err.Error(), value) {
			t.Errorf("a value of %d bytes: %v", len(value), err)
		}
	}
	s := set(t)
	var err error
	for i := 0; i <= MaxValues && err == nil; i++ {
		err = s.Add(Value{"many", fmt.Appendf(nil, "value-%d", i)})
	}
	if !errors.Is(err, core.ErrInvalid) || s.Len() != MaxValues {
		t.Errorf("%d values: %v", s.Len(), err)
	}
}

// pieces writes a text in pieces of the given sizes, over and over.
func pieces(s *Set, text []byte, sizes func() int) string {
	var out []byte
	stream := s.Stream(func(b []byte) { out = append(out, b...) })
	for len(text) > 0 {
		n := min(max(sizes(), 1), len(text))
		_, _ = stream.Write(text[:n])
		text = text[n:]
	}
	stream.Flush()
	return string(out)
}

func TestStreamsAreSplitAnywhere(t *testing.T) {
	t.Parallel()
	s := set(t, secret, key, "aaaa", "abab")
	var text strings.Builder
	for _, form := range seen(secret) {
		text.WriteString(" x" + form + "\n" + form)
	}
	text.WriteString(secret[:9] + "… " + secret[:9] + "\xe2\x80 aaaa\uFFFDaaa…" + key + "aaaaaaabababa" + secret[:7])
	want := s.String(text.String())
	for _, size := range []int{1, 2, 3, 7, 64} {
		if got := pieces(s, []byte(text.String()), func() int { return size }); got != want {
			t.Errorf("in pieces of %d bytes it is\n%s\nand as a whole\n%s", size, got, want)
		}
	}
}

// A watched text does not hang on what may become a secret, until 16 bytes of it are there.
func TestIdleShowsWhatSaysNothing(t *testing.T) {
	t.Parallel()
	s := set(t, "hunter2hunter2hunter2")
	var got string
	stream := s.Stream(func(b []byte) { got += string(b) })
	for _, step := range []struct {
		write string
		idle  bool
		want  string
	}{
		{"name: h", false, ""}, {"", true, "name: h"}, {"unter2hunter2h", true, "name: hunter2hunter2h"}, {"u", true, "name: hunter2hunter2h"},
		{"nter2.", true, "name: hunter2hunter2h[secret s0]."}, {"hunter", true, "name: hunter2hunter2h[secret s0].hunter"}, {"s", true, "name: hunter2hunter2h[secret s0].hunters"},
	} {
		_, _ = stream.Write([]byte(step.write))
		if step.idle {
			stream.Idle()
		}
		if got != step.want {
			t.Fatalf("after %q (idle %v): %q, expected %q", step.write, step.idle, got, step.want)
		}
	}
}

func TestValuesMayComeLater(t *testing.T) {
	t.Parallel()
	s, other := set(t, "first-value"), set(t, "second-value")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				_ = s.String("some text with a first-value")
			}
		})
	}
	if err := s.AddAll(other); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if got := s.String("first-value second-value"); got != "[secret s0] [secret s0]" {
		t.Error(got)
	}
}

// FuzzStream holds that pieces of any size give what the whole gives, and that no form of a value
// survives.
func FuzzStream(f *testing.F) {
	f.Add("hunter2", "x", []byte("say hunter2 and 68756e74657232, aHVudGVyMg== hun"), uint64(1))
	f.Add(secret, key, []byte(secret+secret+key[3:30]), uint64(2))
	f.Add("hunter2hunter2", "ab…cd…ef", []byte("hunter2… hunt\xe2 ab…cd… ab…c"), uint64(5))
	f.Add("aaaa", "aaab", []byte("aaaaaaabaaaab"), uint64(3))
	f.Add("\xff\xfe\x00\x01", "    y   z", []byte("\xff\xfe\x00\x01 y   z"), uint64(4))
	f.Fuzz(func(t *testing.T, one, two string, noise []byte, seed uint64) {
		if len(one) > 200 || len(two) > 200 || len(noise) > 2000 {
			return
		}
		s := set(t)
		var values []string
		for _, v := range []string{one, two} {
			if s.Add(Value{"#", []byte(v)}) == nil {
				values = append(values, strings.TrimSpace(v))
			}
		}
		random := rand.New(rand.NewPCG(seed, 0))
		text := append([]byte{}, noise...)
		for _, v := range values {
			for _, form := range seen(v) {
				at := random.IntN(len(text) + 1)
				text = append(append(append([]byte{}, text[:at]...), form...), text[at:]...)
			}
		}
		want := s.String(string(text))
		if got := pieces(s, text, func() int { return 1 + random.IntN(9) }); got != want {
			t.Fatalf("in pieces %q, as a whole %q, of %q", got, want, text)
		}
		left := strings.Split(want, tag("#")) // what stands there for a value is none
		for _, v := range values {
			for name, form := range seen(v) {
				for _, part := range left {
					if len(form) >= MinValue && strings.Contains(part, form) {
						t.Fatalf("%s of %q survives in %q", name, v, part)
					}
				}
			}
		}
	})
}

func BenchmarkStream(b *testing.B) {
	var log strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&log, "2026-01-02T03:04:05Z host-%05d app[%d]: request %x took %d ms, status 200\n", i, i*7, i*7919, i%100)
	}
	text := []byte(log.String())
	ten := make([]string, 10)
	for i := range ten {
		ten[i] = fmt.Sprintf("%x-Secret/%d+%s", i*7919, i, strings.Repeat("kQ", 12))
	}
	for _, bc := range []struct {
		name   string
		values []string
	}{{"none", nil}, {"one", ten[:1]}, {"ten", ten}, {"key", []string{key + strings.Repeat("MC4CAQAwBQYDK2VwBCIEIPz\n", 60)}}} {
		b.Run(bc.name, func(b *testing.B) {
			var s *Set
			if bc.values != nil {
				s = set(b, bc.values...)
			}
			n := 0
			stream := s.Stream(func(p []byte) { n += len(p) })
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				for rest := text; len(rest) > 0; {
					chunk := rest[:min(len(rest), 32<<10)]
					_, _ = stream.Write(chunk)
					rest = rest[len(chunk):]
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(text)), "ns/byte")
		})
	}
}
