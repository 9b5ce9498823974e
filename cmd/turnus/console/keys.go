package console

// Key is a key that an operator pressed: a character, or one of the keys below.
type Key rune

// Keys that are no characters.
const (
	KeyUp     Key = -1
	KeyDown   Key = -2
	KeyEnter  Key = '\n'
	KeyEscape Key = '\x1b'
)

// parseKeys returns the keys in the bytes that a terminal sent together. Sequences of other keys
// are left out.
func parseKeys(b []byte) []Key {
	var keys []Key
	for i := 0; i < len(b); i++ {
		switch {
		case b[i] == '\r':
			keys = append(keys, KeyEnter)
		case b[i] != '\x1b':
			keys = append(keys, Key(b[i]))
		case i+1 == len(b) || b[i+1] != '[' && b[i+1] != 'O':
			keys = append(keys, KeyEscape)
		default:
			i += 2
			for i < len(b) && (b[i] < '@' || b[i] > '~') { // parameters
				i++
			}
			switch {
			case i < len(b) && b[i] == 'A':
				keys = append(keys, KeyUp)
			case i < len(b) && b[i] == 'B':
				keys = append(keys, KeyDown)
			}
		}
	}
	return keys
}
