package pages

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
)

// idiomorphSum is the SHA-256 of dist/idiomorph.min.js in the package idiomorph 0.8.0 of npm.
const idiomorphSum = "4cbd535caf7663a51eda9bce6595371c384fc430d54b8d414e29a61167f19f96"

// A script of others is what its authors published, and its license is with it. In it: a byte more
// is noticed.
func TestScriptsOfOthers(t *testing.T) {
	script, err := files.ReadFile("assets/idiomorph/idiomorph.min.js")
	if err != nil {
		t.Fatal(err)
	}
	if license, err := files.ReadFile("assets/idiomorph/LICENSE"); err != nil || len(license) == 0 {
		t.Errorf("no license: %v", err)
	}
	sum := func(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b)) }
	if got := sum(script); got != idiomorphSum {
		t.Errorf("idiomorph has the sum %s, expected %s: take the file of the package again", got, idiomorphSum)
	}
	if sum(append(slices.Clip(script), '\n')) == idiomorphSum {
		t.Error("a changed script has the same sum")
	}
}
