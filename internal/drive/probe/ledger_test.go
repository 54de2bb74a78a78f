package probe

import (
	"strings"
	"testing"

	"tidemark.dev/internal/drive/slot"
	"tidemark.dev/internal/model/conform"
	"tidemark.dev/internal/model/web99"
)

// logOf writes a post log of the given clients' records, numbered from 1.
func logOf(t *testing.T, clients ...uint32) []byte {
	t.Helper()
	b, ok := web99.AppendCount(nil, int64(len(clients)))
	if !ok {
		t.Fatal("count does not fit")
	}
	for i, c := range clients {
		r := record(int64(i+1), c)
		if b, ok = web99.AppendRecord(b, &r); !ok {
			t.Fatal("record does not fit")
		}
	}
	return b
}

func record(number int64, client uint32) web99.Record {
	return web99.Record{Number: number, Time: 1e9, Pid: 7, Dir: 3, Class: 1, Num: 2, Client: int64(client), File: []byte("/file_set/dir00003/class1_2"), Thread: 7, User: 10005}
}

func sent(client uint32, state slot.PostState) slot.Post {
	return slot.Post{Dir: 3, Class: 1, Num: 2, User: 10005, Client: client, State: state}
}

func TestLedgerComparesAsMultisets(t *testing.T) {
	const acked, unsure = slot.Acknowledged, slot.Uncertain
	tests := []struct {
		name string
		sent []slot.Post
		log  []uint32
		want conform.PostCheck
	}{
		{"nothing", nil, nil, conform.PostCheck{}},
		{"every acknowledged POST once, in any order", []slot.Post{sent(1, acked), sent(2, acked), sent(1, acked)}, []uint32{1, 1, 2},
			conform.PostCheck{Acked: 3, Found: 3}},
		{"one lost", []slot.Post{sent(1, acked), sent(1, acked)}, []uint32{1}, conform.PostCheck{Acked: 2, Found: 1, Missing: 1}},
		{"one doubled", []slot.Post{sent(1, acked)}, []uint32{1, 1}, conform.PostCheck{Acked: 1, Found: 1, Doubled: 1}},
		{"a failed POST may be there", []slot.Post{sent(1, unsure)}, []uint32{1}, conform.PostCheck{Uncertain: 1}},
		{"a failed POST may be missing", []slot.Post{sent(1, unsure)}, nil, conform.PostCheck{Uncertain: 1}},
		{"a failed POST is not there twice", []slot.Post{sent(1, unsure)}, []uint32{1, 1}, conform.PostCheck{Uncertain: 1, Foreign: 1}},
		{"a failed twin excuses one more", []slot.Post{sent(1, acked), sent(1, unsure)}, []uint32{1, 1}, conform.PostCheck{Acked: 1, Uncertain: 1, Found: 1}},
		{"a record nobody sent", []slot.Post{sent(1, acked)}, []uint32{1, 9}, conform.PostCheck{Acked: 1, Found: 1, Foreign: 1}},
	}
	for _, tt := range tests {
		l := NewLedger()
		l.Add(tt.sent)
		got, err := l.Check(logOf(t, tt.log...))
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		tt.want.Checked = true
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestLedgerRefusesABrokenLog(t *testing.T) {
	whole := logOf(t, 1, 2)
	second := record(3, 2) // should be number 2
	skipped, _ := web99.AppendRecord(whole[:len(whole)-web99.RecordSize:len(whole)-web99.RecordSize], &second)
	for name, tt := range map[string]struct {
		log  []byte
		says string
	}{
		"empty":         {nil, "first line alone"},
		"no count":      {[]byte("hello world"), "no record count"},
		"cut record":    {whole[:len(whole)-1], "bytes follow"},
		"count too low": {append(append([]byte{}, logOf(t, 1)...), whole[len(whole)-web99.RecordSize:]...), "bytes follow"},
		"skipped":       {skipped, "is numbered 3"},
		"malformed":     {append(whole[:web99.CountSize:web99.CountSize], make([]byte, 2*web99.RecordSize)...), "malformed"},
	} {
		if _, err := NewLedger().Check(tt.log); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, want one that says %q", name, err, tt.says)
		}
	}
}
