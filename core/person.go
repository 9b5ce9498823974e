package core

import "strings"

// SamePerson reports whether two names in a record are those of one person. A name that ends with
// an identity in brackets, as login makes it and no token's name can, is compared by that identity:
// its label may have changed, and another person may have the same label. Others are compared
// whole.
func SamePerson(a, b string) bool {
	first, second := Identity(a), Identity(b)
	if first == "" && second == "" {
		return a == b
	}
	return first == second
}

// Identity is the identity in brackets that a name of a login ends with; "" for other names.
func Identity(name string) string {
	i := strings.LastIndexByte(name, '[')
	if i < 0 || !strings.HasSuffix(name, "]") {
		return ""
	}
	return name[i:]
}
