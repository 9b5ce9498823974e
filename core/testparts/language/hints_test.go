package language

import (
	"reflect"
	"testing"
)

func TestHints(t *testing.T) {
	src := []byte(`package x

func f(name string) error {
	hint := "leave it out"
	if name != "" {
		hint = name + " does not exist"
	}
	e.unreachable("dial", "start sshd", nil)
	_ = Problem{Hint: fmt.Sprintf("write %s: VALUE", name)}
	return errors.New("no file\nhint: ls " + name + "\n\nmore: hint")
}
`)
	want := []Hint{{4, "leave it out"}, {8, "start sshd"}, {9, "write VALUE: VALUE"}, {10, "ls VALUE"}}
	if got, err := Hints("x.go", src); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("hints are %+v, %v; expected %+v", got, err, want)
	}
}
