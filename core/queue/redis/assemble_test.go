package redis

import (
	"regexp"
	"testing"
)

// TestAssemble: a script has what it calls, directly or not, and fixed names are written out, but
// not in strings.
func TestAssemble(t *testing.T) {
	t.Parallel()
	text := `local ONE, BIG = 1, 1e14 -- constants
local function used() return kMeta end
-- unused() is only named here.
local function unused()
  return used()
end
function deep(x)
  if x then
    return 'ONE', ONE
  end
end
local t = {}
local function outer(x)
  return deep(x) + BIG
end
return outer(xJobs), t, used
`
	want := `head
return (function()
local function used() return KEYS[1] end
function deep(x)
  if x then
    return 'ONE', 1
  end
end
local t = {}
local function outer(x)
  return deep(x) + 1e14
end
return outer(':j'), t, used

end)()`
	got := assemble("head\n", text, map[string]string{"kMeta": "KEYS[1]", "xJobs": "':j'"})
	// The rest of a comment does not matter.
	if want := squeeze(want); squeeze(got) != want {
		t.Errorf("assembled:\n%s\nexpected:\n%s", squeeze(got), want)
	}
}

// squeeze drops blank lines and spaces at the ends of lines.
func squeeze(s string) string { return regexp.MustCompile(` *\n+`).ReplaceAllString(s+"\n", "\n") }
