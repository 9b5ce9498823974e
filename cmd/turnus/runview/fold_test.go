package runview

import "testing"

func TestFoldHosts(t *testing.T) {
	for _, c := range []struct {
		want  string
		names []string
	}{
		{"", nil},
		{"web", []string{"web"}},
		{"web1,web2", []string{"web2", "web1"}},
		{"web[1:3:1]", []string{"web1", "web2", "web3"}},
		{"fw009.fra,fw[001:003].fra", []string{"fw003.fra", "fw001.fra", "fw002.fra", "fw009.fra"}},
		{"a[9:11:1]", []string{"a9", "a10", "a11"}},
	} {
		if got := foldHosts(c.names); got != c.want {
			t.Errorf("foldHosts(%q) = %q, want %q", c.names, got, c.want)
		}
	}
}

func TestFoldAddresses(t *testing.T) {
	if got := foldHosts([]string{"10.0.0.1", "10.0.0.2"}); got != "10.0.0.1,10.0.0.2" {
		t.Errorf("got %q", got)
	}
}
