package sources

// Most sets how many bytes all answers of one fetch have at most.
func (f *Fetcher) Most(bytes int) { f.most = bytes }
